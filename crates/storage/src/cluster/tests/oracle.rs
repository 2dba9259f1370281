//! Random histories of two nodes against an ordered map: ownership of the shard changes, calls and answers are late or
//! lost, processes are paused and killed, the engine fails over.
//!
//! Every batch writes a marker with its session and number. So a new owner can determine how far the previous history
//! got, and everything else must equal a map after exactly these batches. All batches of an owner share the marker's
//! partition, hence apply in the order of submission.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use crate::local::{Filesystem, RealFilesystem};
use crate::samples::{Model, apply};

mod history;

use history::History;

const PARTITIONS: [PartitionId; 2] = [PartitionId(1), PartitionId(2)];
const MARKER: Key = Key::new(Space::Meta, PartitionId(1), 1_000_000);
const NUMBERS: u64 = 40;
const NODES: [u32; 2] = [0, 1];

#[derive(Debug, Clone)]
enum Op {
    Put(Space, PartitionId, u64, usize),
    Delete(Space, PartitionId, u64),
    DeleteRange(Space, PartitionId, u64, u64),
}

#[derive(Debug, Clone)]
enum Step {
    /// The node acquires the shard, whichever node owns it.
    Acquire(u32),
    /// The node submits a batch, if it believes that it owns the shard.
    Submit(u32, Vec<Op>),
    /// This many steps of tasks and calls, in an order determined by the seed.
    Run(u8, u64),
    /// Timers fire.
    Pass(u8),
    /// The node's process is paused; its calls are held up.
    Pause(u32),
    Continue(u32),
    /// The node's process is killed and started again.
    Crash(u32),
    /// The node loses its connections.
    Cut(u32, bool),
    FailOver(u64),
    /// The engine refuses the next append.
    Refuse(bool),
    /// All calls under way complete, unless their node is paused.
    Settle,
}

fn space() -> impl Strategy<Value = Space> {
    prop::sample::select(Space::ALL.to_vec())
}

fn partition() -> impl Strategy<Value = PartitionId> {
    prop::sample::select(PARTITIONS.to_vec())
}

fn node() -> impl Strategy<Value = u32> {
    prop::sample::select(NODES.to_vec())
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![4 => 0..300_usize, 1 => 1000..1100_usize];
    prop_oneof![
        5 => (space(), partition(), 0..NUMBERS, len).prop_map(|(s, p, n, l)| Op::Put(s, p, n, l)),
        4 => (space(), partition(), 0..NUMBERS).prop_map(|(s, p, n)| Op::Delete(s, p, n)),
        1 => (space(), partition(), 0..NUMBERS, 0..20_u64).prop_map(|(s, p, n, l)| Op::DeleteRange(s, p, n, n + l)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => node().prop_map(Step::Acquire),
        16 => (node(), prop::collection::vec(op(), 1..6)).prop_map(|(node, ops)| Step::Submit(node, ops)),
        16 => (any::<u8>(), any::<u64>()).prop_map(|(steps, seed)| Step::Run(steps, seed)),
        5 => (1..6_u8).prop_map(Step::Pass),
        2 => node().prop_map(Step::Pause),
        3 => node().prop_map(Step::Continue),
        1 => node().prop_map(Step::Crash),
        2 => (node(), any::<bool>()).prop_map(|(node, arrive)| Step::Cut(node, arrive)),
        1 => any::<u64>().prop_map(Step::FailOver),
        1 => any::<bool>().prop_map(Step::Refuse),
        4 => Just(Step::Settle),
    ]
}

/// Counters over all histories of a run, to detect a run that tests nothing.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: usize,
    takeovers: usize,
    /// Owners that had batches under way when another took over.
    overtaken: usize,
    checkpoints: usize,
}

#[test]
fn no_history_of_two_owners_loses_acknowledged_values_or_brings_back_removed_ones() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("PEEKLOCK_STORAGE_CASES").map_or(192, |cases| u32::try_from(cases).unwrap());
    let seed = number("PEEKLOCK_STORAGE_SEED").unwrap_or_else(|| RealFilesystem.draw_salt() >> 8);
    println!("PEEKLOCK_STORAGE_SEED={seed}");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let seen = std::cell::RefCell::new(Seen::default());
    let histories = prop::collection::vec(step(), 1..120);
    let result = TestRunner::new_with_rng(config, rng).run(&histories, |steps| {
        let mut history = History::new(seed);
        for step in &steps {
            history.step(step)?;
        }
        history.finish(&mut seen.borrow_mut())
    });
    result.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    let seen = seen.into_inner();
    println!("{cases} histories: {seen:?}");
    assert!(seen.acknowledged > 0 && seen.takeovers > 0 && seen.overtaken > 0 && seen.checkpoints > 0);
}
