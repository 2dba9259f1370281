//! Random histories against an ordered map: batches, crashes, faults, cleaning, reopenings.
//!
//! After each reopening the contents must be those after all acknowledged batches and some prefix of those submitted
//! later. Threads interleave freely; the claim holds for every interleaving.

use std::cell::RefCell;
use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::growth::{copied_bytes_max, disk_bytes, disk_bytes_max, settle};
use super::*;
use crate::Commit;
use crate::local::{Fault, check_on};
use crate::samples::{Model, apply};

mod flow;

use flow::{Flow, flow};

const PARTITIONS: [PartitionId; 2] = [PartitionId(1), PartitionId(2)];
const NUMBERS: u64 = 60;

#[derive(Debug, Clone)]
enum Step {
    /// Batches submitted together; the answers are awaited.
    Commit(Vec<Vec<Op>>),
    /// Batches submitted together, then a power cut.
    CommitAndCrash(Vec<Vec<Op>>, u64),
    /// A fault on the next write or sync of a segment, then batches, a restart, more batches, and perhaps a power cut.
    Break(Fault, Vec<Vec<Op>>, Vec<Vec<Op>>, Option<u64>),
    Clean,
    /// Messages pass through a backlog, and some of them are never removed.
    Flow(Flow),
    /// The cleaner becomes idle: the disk then holds little more than the live data.
    Settle,
    Reopen,
    /// The process is killed; the directory is checked and opened again.
    Kill,
    /// A clean close, then loss of all hints.
    LoseHints,
}

#[derive(Debug, Clone)]
enum Op {
    Put(Space, PartitionId, u64, usize),
    /// A number never used before, as for a broker's messages.
    Append(PartitionId, usize),
    Delete(Space, PartitionId, u64),
    DeleteRange(Space, PartitionId, u64, u64),
}

fn space() -> impl Strategy<Value = Space> {
    prop::sample::select(Space::ALL.to_vec())
}

fn partition() -> impl Strategy<Value = PartitionId> {
    prop::sample::select(PARTITIONS.to_vec())
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (space(), partition(), 0..NUMBERS, 0..700usize).prop_map(|(s, p, n, l)| Op::Put(s, p, n, l)),
        12 => (partition(), 0..700usize).prop_map(|(p, l)| Op::Append(p, l)),
        16 => (space(), partition(), 0..NUMBERS).prop_map(|(s, p, n)| Op::Delete(s, p, n)),
        4 => (space(), partition(), 0..NUMBERS, 0..20u64).prop_map(|(s, p, n, l)| Op::DeleteRange(s, p, n, n + l)),
        1 => (space(), partition()).prop_map(|(s, p)| Op::DeleteRange(s, p, 0, u64::MAX)),
    ]
}

fn batches(most: usize) -> impl Strategy<Value = Vec<Vec<Op>>> {
    prop::collection::vec(prop::collection::vec(op(), 1..8), 1..most)
}

fn step() -> impl Strategy<Value = Step> {
    let faults = [
        Fault::WriteError,
        Fault::ShortWrite,
        Fault::NoSpace,
        Fault::SyncError,
        Fault::SyncLost,
        Fault::SyncLost,
    ];
    let fault = prop::sample::select(faults.to_vec());
    let after = (batches(6), prop::option::of(any::<u64>()));
    prop_oneof![
        10 => batches(12).prop_map(Step::Commit),
        3 => (batches(6), any::<u64>()).prop_map(|(batches, seed)| Step::CommitAndCrash(batches, seed)),
        2 => (fault, batches(6), after)
            .prop_map(|(fault, batches, (after, seed))| Step::Break(fault, batches, after, seed)),
        3 => Just(Step::Clean),
        4 => flow().prop_map(Step::Flow),
        2 => Just(Step::Settle),
        2 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        1 => Just(Step::LoseHints),
    ]
}

/// The store under test and its expected contents.
struct World {
    disk: SimulatedDisk,
    store: Option<(LocalStore, Arc<dyn Shard>)>,
    model: Model,
    next_number: u64,
    stamp: u64,
    cleanings: usize,
    /// Numbers that flows have sent and not completed, oldest first.
    backlog: VecDeque<u64>,
    submitted_bytes: u64,
    /// Bytes that the cleaner copied unforced before the last opening.
    copied_bytes: u64,
    /// Bytes that it copied since then because it was forced to.
    forced_bytes: u64,
}

impl World {
    fn new() -> Self {
        let disk = SimulatedDisk::new();
        let store = Some(open(&disk));
        Self {
            disk,
            store,
            model: Model::new(),
            next_number: NUMBERS,
            stamp: 0,
            cleanings: 0,
            backlog: VecDeque::new(),
            submitted_bytes: 0,
            copied_bytes: 0,
            forced_bytes: 0,
        }
    }

    fn batch(&mut self, ops: &[Op]) -> Batch {
        let mut batch = Batch::new();
        for op in ops {
            self.stamp += 1;
            match op {
                Op::Put(space, partition, number, len) => {
                    batch.put(Key::new(*space, *partition, *number), value(self.stamp, *len));
                }
                Op::Append(partition, len) => {
                    let key = Key::new(Space::Body, *partition, self.next_number);
                    self.next_number += 1;
                    batch.put(key, value(self.stamp, *len));
                    batch.put(Key { space: Space::Head, ..key }, value(self.stamp, 9));
                }
                Op::Delete(space, partition, number) => {
                    // Half of the removals hit appended numbers.
                    let recent = (self.next_number - 1).saturating_sub(*number);
                    let number = if number % 2 == 0 { *number } else { recent };
                    batch.delete(Key::new(*space, *partition, number));
                }
                Op::DeleteRange(space, partition, first, last) => {
                    batch.delete_range(*space, *partition, *first..=*last);
                }
            }
        }
        self.note_submitted(&batch);
        batch
    }

    fn note_submitted(&mut self, batch: &Batch) {
        self.submitted_bytes += 48 + 40 * batch.len() as u64 + batch.value_bytes() as u64;
    }

    fn batches(&mut self, ops: &[Vec<Op>]) -> Vec<Batch> {
        ops.iter().map(|ops| self.batch(ops)).collect()
    }

    fn shard(&self) -> &dyn Shard {
        &*self.store.as_ref().unwrap().1
    }

    async fn check(&self) -> Model {
        contents(self.shard(), &PARTITIONS).await.unwrap()
    }

    /// Bytes that the cleaner of the open store copied unforced.
    fn own_copied_bytes(&self) -> u64 {
        let copied = self.store.as_ref().map(|(store, _)| store.current().shared().copied_bytes());
        copied.unwrap_or(0) - self.forced_bytes
    }

    fn shut(&mut self) {
        self.copied_bytes += self.own_copied_bytes();
        self.forced_bytes = 0;
        self.store = None;
    }

    async fn reopen(&mut self) {
        self.shut();
        self.store = Some(open(&self.disk));
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Commit(ops) => self.commit(ops).await?,
            Step::CommitAndCrash(ops, seed) => self.crash(ops, *seed).await?,
            Step::Break(fault, ops, after, power_cut) => {
                self.break_down(*fault, ops).await?;
                self.commit(after).await?;
                if let Some(seed) = power_cut {
                    self.crash(&[], *seed).await?;
                }
            }
            Step::Clean => {
                let before = self.own_copied_bytes();
                while self.store.as_ref().unwrap().0.current().clean_now() {
                    self.cleanings += 1;
                }
                self.forced_bytes += self.own_copied_bytes() - before;
            }
            Step::Flow(flow) => self.flow(flow).await,
            Step::Settle => self.settle()?,
            Step::Reopen => self.reopen().await,
            Step::Kill => {
                self.disk.kill();
                self.shut();
                let report = check_on(self.disk.mount(), DIRECTORY).unwrap();
                assert_eq!((&report.damage[..], &report.refusal), (&[][..], &None));
                prop_assert_eq!(report.keys.values().sum::<u64>(), self.model.len() as u64);
                self.reopen().await;
            }
            Step::LoseHints => {
                self.shut();
                for path in self.disk.paths() {
                    if path.extension().is_some_and(|kind| kind == "hint") {
                        self.disk.remove_file(&path);
                    }
                }
                self.reopen().await;
            }
        }
        prop_assert_eq!(self.check().await, self.model.clone());
        Ok(())
    }

    async fn commit(&mut self, ops: &[Vec<Op>]) -> Result<(), TestCaseError> {
        let batches = self.batches(ops);
        let commits: Vec<_> = batches.iter().map(|batch| self.shard().submit(batch.clone())).collect();
        for (batch, commit) in batches.iter().zip(commits) {
            commit.await.map_err(|error| TestCaseError::fail(format!("refused: {error}")))?;
            apply(&mut self.model, batch);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        settle(&self.store.as_ref().unwrap().0);
        let (used, most) = (disk_bytes(&self.disk), disk_bytes_max(&self.model));
        prop_assert!(used <= most, "{} bytes on disk, at most {} for what lives", used, most);
        let copied = self.copied_bytes + self.own_copied_bytes();
        let most = copied_bytes_max(self.submitted_bytes);
        prop_assert!(copied <= most, "{} bytes copied of {} submitted", copied, self.submitted_bytes);
        Ok(())
    }

    async fn crash(&mut self, ops: &[Vec<Op>], seed: u64) -> Result<(), TestCaseError> {
        let batches = self.batches(ops);
        let commits: Vec<_> = batches.iter().map(|batch| self.shard().submit(batch.clone())).collect();
        if seed.is_multiple_of(2) {
            std::thread::yield_now();
        }
        self.disk.crash(seed);
        self.restart_after(&batches, commits).await
    }

    async fn break_down(&mut self, fault: Fault, ops: &[Vec<Op>]) -> Result<(), TestCaseError> {
        let batches = self.batches(ops);
        self.disk.inject(fault, ".segment");
        let commits: Vec<_> = batches.iter().map(|batch| self.shard().submit(batch.clone())).collect();
        self.restart_after(&batches, commits).await
    }

    /// Reopens and determines which batches were applied: all acknowledged ones, none of those refused for lack
    /// of room or by an outage, and a prefix of the others.
    async fn restart_after(&mut self, batches: &[Batch], commits: Vec<Commit>) -> Result<(), TestCaseError> {
        let mut possible = Vec::new();
        let mut acknowledged = 0;
        for (batch, commit) in batches.iter().zip(commits) {
            match commit.await {
                Err(error) if is_for_a_while(&error) => {}
                result => {
                    possible.push(batch.clone());
                    if result.is_ok() {
                        acknowledged = possible.len();
                    }
                }
            }
        }
        self.disk.kill();
        self.reopen().await;
        self.adopt_prefix(&possible, acknowledged).await
    }

    /// The contents must be the model after at least `least` of `batches`, in order.
    async fn adopt_prefix(&mut self, batches: &[Batch], least: usize) -> Result<(), TestCaseError> {
        let found = self.check().await;
        let mut candidate = self.model.clone();
        for count in 0..=batches.len() {
            if count > 0 {
                apply(&mut candidate, &batches[count - 1]);
            }
            if count >= least && candidate == found {
                self.model = candidate;
                return Ok(());
            }
        }
        Err(TestCaseError::fail(format!("{} entries that no prefix explains", found.len())))
    }
}

#[test]
fn any_history_has_the_same_result_as_an_ordered_map() {
    let cases =
        std::env::var("PEEKLOCK_STORAGE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(64);
    let seed = seed();
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let cleanings = RefCell::new(0);
    let result = TestRunner::new_with_rng(config, rng).run(&prop::collection::vec(step(), 1..40), |steps| {
        runtime.block_on(async {
            let mut world = World::new();
            for step in &steps {
                world.step(step).await?;
            }
            world.settle()?;
            world.reopen().await;
            prop_assert_eq!(world.check().await, world.model.clone());
            world.settle()?;
            *cleanings.borrow_mut() += world.cleanings;
            Ok(())
        })
    });
    result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert!(*cleanings.borrow() > 0, "no history was long enough to be cleaned");
}
