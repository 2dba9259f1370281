//! Copies between stores of all kinds, interrupted at every step.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::*;
use crate::cluster::simulated::{SimulatedEngine, Stepper};
use crate::cluster::{ClusterOptions, ClusterStore};
use crate::samples::{Model, value};
use crate::{Batch, DamagedEntry, Limits, LocalOptions, LocalStore, MemoryStore, Page, Place, Pressure};

/// Tasks and timers of tokio.
#[derive(Debug)]
struct TokioEnvironment;

impl Environment for TokioEnvironment {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn pause(&self, _: Duration) -> BoxFuture<'static, ()> {
        tokio::task::yield_now().boxed()
    }

    fn draw(&self) -> u64 {
        7
    }
}

fn environment() -> Arc<dyn Environment> {
    Arc::new(TokioEnvironment)
}

fn options() -> CopyOptions {
    CopyOptions { batch_bytes: 1_000, ..CopyOptions::from("./data") }
}

/// Entities with values of all sizes: a catalogue, two queues with numbers at both ends, a body that needs a batch of
/// its own.
fn sample() -> Model {
    let mut model = Model::new();
    for number in [0, 1, 2, u64::MAX] {
        model.insert(Key::new(Space::Meta, PartitionId(0), number), value(number, 40));
    }
    for partition in [PartitionId(1), PartitionId(2)] {
        model.insert(Key::new(Space::Meta, partition, 16), value(1, 16));
        for number in (1..30).chain([1 << 62, u64::MAX - 1, u64::MAX]) {
            model.insert(Key::new(Space::Head, partition, number), value(number, 20));
            model.insert(Key::new(Space::Body, partition, number), value(number ^ 5, 300));
        }
        model.insert(Key::new(Space::Body, partition, 30), value(9, 5_000));
        model.insert(Key::new(Space::Body, partition, 31), Bytes::new());
    }
    model
}

async fn fill(store: &dyn Store, model: &Model) {
    let lease = store.acquire(ShardId(0)).await.unwrap();
    for (key, value) in model {
        let mut batch = Batch::new();
        batch.put(*key, value.clone());
        lease.submit(batch).await.unwrap();
    }
}

async fn contents(store: &dyn Store) -> Model {
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let mut found = BTreeMap::new();
    for (space, partition) in lease.partitions().await.unwrap() {
        let mut from = Some(0);
        while let Some(number) = from {
            let page = lease.scan(space, partition, number).await.unwrap();
            assert!(page.damaged.is_empty());
            from = page.next;
            let entries = page.entries.into_iter();
            found.extend(entries.map(|entry| (Key::new(space, partition, entry.number), entry.value)));
        }
    }
    found
}

async fn run(source: &dyn Store, target: &dyn Store) -> Result<CopyReport, CopyError> {
    let source = source.acquire(ShardId(0)).await.unwrap();
    copy(&source, target, &options(), &environment(), &mut |_| {}).await
}

fn cluster(engine: &SimulatedEngine) -> ClusterStore {
    let options = ClusterOptions { round_pause: Duration::from_millis(2), ..ClusterOptions::default() };
    ClusterStore::new(engine.node(0), options, environment()).unwrap()
}

fn local(directory: &tempfile::TempDir) -> LocalStore {
    LocalStore::open(directory.path().join("data"), LocalOptions::default()).unwrap()
}

async fn memory(model: &Model) -> MemoryStore {
    let store = MemoryStore::new();
    fill(&store, model).await;
    store
}

#[tokio::test]
async fn everything_arrives_from_any_store_in_any_other() {
    let model = sample();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (SimulatedEngine::new(), SimulatedEngine::new());
    let stores: [Box<dyn Store>; 6] = [
        Box::new(memory(&model).await),
        Box::new(local(&first)),
        Box::new(cluster(&one)),
        Box::new(cluster(&two)),
        Box::new(local(&second)),
        Box::new(MemoryStore::new()),
    ];
    let mut sums = Vec::new();
    for pair in stores.windows(2) {
        let report = run(&*pair[0], &*pair[1]).await.unwrap();
        assert!(!report.is_resumed && report.corrected == 0, "{report:?}");
        assert!(contents(&*pair[1]).await == model);
        sums.push(report.sums);
    }
    sums.dedup();
    let [sums] = sums.as_slice() else { panic!("{sums:?}") };
    for space in Space::ALL {
        let values = model.iter().filter(|(key, _)| key.space == space);
        let (count, bytes) = values.fold((0, 0), |(n, b), (_, value)| (n + 1, b + value.len() as u64));
        let CopySum { values, bytes: summed, .. } = sums[space as usize];
        assert_eq!((values, summed), (count, bytes));
    }
}

/// Polls the future and everything else that is ready; `None` after this many rounds.
fn poll_for<T>(
    rounds: usize,
    engine: &SimulatedEngine,
    stepper: &Stepper,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future: Pin<_> = pin!(future);
    for _ in 0..rounds {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(answer);
        }
        assert!(stepper.step(0, |_| true) || engine.serve(0, |_| true) || stepper.pass(|_| true));
    }
    None
}

#[test]
fn a_copy_that_is_killed_at_any_step_resumes_and_is_complete() {
    let model = sample();
    let source = poll_now(poll_now(memory(&model)).acquire(ShardId(0))).unwrap();
    let mut resumed = 0;
    for rounds in 1.. {
        let (engine, stepper) = (SimulatedEngine::new(), Stepper::new(rounds as u64));
        let node = |node| {
            ClusterStore::new(engine.node(node), ClusterOptions::default(), stepper.node(node)).unwrap()
        };
        let environment: Arc<dyn Environment> = stepper.node(9);
        let mut watch = |_| {};
        let options = options();
        let first = node(0);
        let killed =
            poll_for(rounds, &engine, &stepper, copy(&source, &first, &options, &environment, &mut watch));
        if let Some(complete) = killed {
            assert!(complete.is_ok() && resumed > 15, "{resumed} interrupted ones: {complete:?}");
            return;
        }
        stepper.kill(0);
        drop(first);
        let second = node(1);
        let again = copy(&source, &second, &options, &environment, &mut watch);
        match poll_for(1_000_000, &engine, &stepper, again).unwrap() {
            Ok(report) => {
                assert_eq!(report.corrected, 0, "after {rounds} rounds");
                resumed += usize::from(report.is_resumed);
            }
            // The copy was complete, and only the answer was missing.
            Err(error) => assert_eq!(error, CopyError::NotEmpty, "after {rounds} rounds"),
        }
        let third = node(2);
        let found = poll_for(1_000_000, &engine, &stepper, contents(&third)).unwrap();
        assert!(found == model, "after {rounds} rounds");
    }
}

fn poll_now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

/// A copy interrupted after the target has accepted this many batches.
async fn interrupted(source: &MemoryStore, target: &MemoryStore, batches: usize) {
    target.hold();
    let options = options();
    let environment = environment();
    let mut watch = |_| {};
    let source = source.acquire(ShardId(0)).await.unwrap();
    let mut future = pin!(copy(&source, target, &options, &environment, &mut watch));
    for _ in 0..batches {
        assert!(future.as_mut().now_or_never().is_none());
        assert!(target.release_one());
    }
    assert!(future.as_mut().now_or_never().is_none());
    target.crash();
}

#[tokio::test]
async fn an_unfinished_copy_is_known_for_one_and_is_no_source() {
    let (source, target) = (memory(&sample()).await, MemoryStore::new());
    interrupted(&source, &target, 3).await;
    let lease = target.acquire(ShardId(0)).await.unwrap();
    assert_eq!(unfinished_copy(&*lease).await.unwrap().as_deref(), Some("./data"));
    let catalogue = Key::new(Space::Meta, PartitionId(0), 1);
    assert_eq!(lease.read(vec![catalogue]).await.unwrap(), [None], "the catalogue comes last");
    assert_eq!(
        run(&target, &MemoryStore::new()).await.unwrap_err(),
        CopyError::SourceUnfinished("./data".to_owned())
    );
    let report = run(&source, &target).await.unwrap();
    assert!(report.is_resumed && report.corrected == 0, "{report:?}");
    assert_eq!(target.snapshot(), sample());
    let lease = target.acquire(ShardId(0)).await.unwrap();
    assert_eq!(unfinished_copy(&*lease).await.unwrap(), None);
    assert_eq!(run(&source, &target).await.unwrap_err(), CopyError::NotEmpty);
}

#[tokio::test]
async fn the_target_becomes_equal_to_a_source_that_changed_meanwhile() {
    let (source, target) = (memory(&sample()).await, MemoryStore::new());
    interrupted(&source, &target, 5).await;
    let lease = source.acquire(ShardId(0)).await.unwrap();
    let head = |number| Key::new(Space::Head, PartitionId(1), number);
    let mut batch = Batch::new();
    batch.delete(head(1));
    batch.put(head(2), value(3, 77));
    batch.put(head(1_000), value(3, 5_000));
    batch.delete_range(Space::Meta, PartitionId(1), 0..=u64::MAX);
    lease.submit(batch).await.unwrap();
    let report = run(&source, &target).await.unwrap();
    assert!(report.is_resumed && report.corrected > 1, "{report:?}");
    assert_eq!(target.snapshot(), source.snapshot());
}

#[tokio::test]
async fn an_empty_source_and_values_beyond_the_targets_limits_are_refused() {
    assert_eq!(run(&MemoryStore::new(), &MemoryStore::new()).await.unwrap_err(), CopyError::Empty);
    let target = MemoryStore::new();
    target.set_limits(Limits { value_bytes_max: 4_000, batch_bytes_max: 6_000 });
    let refused = run(&memory(&sample()).await, &target).await.unwrap_err();
    let key = Key::new(Space::Body, PartitionId(1), 30);
    assert_eq!(refused, CopyError::TooLarge { key, bytes: 5_000, bytes_max: 4_000 });
    // A value that barely fits leaves no room for the marker.
    target.set_limits(Limits { value_bytes_max: 5_000, batch_bytes_max: 5_000 });
    let report = run(&memory(&sample()).await, &target).await.unwrap();
    assert!(report.is_resumed);
    assert_eq!(target.snapshot(), sample());
}

#[tokio::test]
async fn a_full_target_is_reported_and_the_copy_resumes_when_there_is_space() {
    let (source, target) = (memory(&sample()).await, MemoryStore::new());
    target.set_pressure(Pressure::Full);
    let refused = run(&source, &target).await.unwrap_err();
    assert!(matches!(refused, CopyError::Target(Error::Full { .. })), "{refused:?}");
    target.set_pressure(Pressure::Normal);
    assert!(run(&source, &target).await.unwrap().is_resumed);
    assert_eq!(target.snapshot(), sample());
}

/// A store whose answers are modified by a test.
struct Bent {
    store: MemoryStore,
    bend: Arc<dyn Fn(Space, PartitionId, Page) -> Result<Page, Error> + Send + Sync>,
}

struct BentShard {
    shard: Arc<dyn Shard>,
    bend: Arc<dyn Fn(Space, PartitionId, Page) -> Result<Page, Error> + Send + Sync>,
}

impl Store for Bent {
    fn acquire(&self, shard: ShardId) -> crate::Acquiring<'_> {
        async move {
            let lease = self.store.acquire(shard).await?;
            let bent = BentShard { shard: Arc::clone(lease.shard()), bend: Arc::clone(&self.bend) };
            Ok(lease.over(Arc::new(bent)))
        }
        .boxed()
    }
}

impl Shard for BentShard {
    fn submit(&self, batch: Batch) -> crate::Commit {
        self.shard.submit(batch)
    }

    fn resume(&self, partition: PartitionId) {
        self.shard.resume(partition);
    }

    fn read(&self, keys: Vec<Key>) -> crate::Read {
        self.shard.read(keys)
    }

    fn scan(&self, space: Space, partition: PartitionId, from: u64) -> crate::Scan {
        let (notifier, answer) = crate::scan();
        let page = self.shard.scan(space, partition, from).now_or_never().unwrap();
        notifier.resolve(page.and_then(|page| (self.bend)(space, partition, page)));
        answer
    }

    fn partitions(&self) -> crate::Partitions {
        self.shard.partitions()
    }

    fn limits(&self) -> Limits {
        self.shard.limits()
    }

    fn pressure(&self) -> tokio::sync::watch::Receiver<Pressure> {
        self.shard.pressure()
    }
}

fn damage(number: u64) -> DamagedEntry {
    let place = Place { unit: "1.segment".to_owned(), offset: number };
    let error = Error::Corrupt { place, reason: "test".to_owned() };
    DamagedEntry { number, unverified: Bytes::new(), error }
}

#[tokio::test]
async fn damaged_values_are_listed_and_nothing_counts() {
    let bend = |space, partition, mut page: Page| {
        if space == Space::Body && partition == PartitionId(1) {
            page.entries.retain(|entry| ![3, 9].contains(&entry.number));
            page.damaged = vec![damage(3), damage(9)];
        }
        Ok(page)
    };
    let source = Bent { store: memory(&sample()).await, bend: Arc::new(bend) };
    let target = MemoryStore::new();
    let CopyError::Damaged { damaged, more } = run(&source, &target).await.unwrap_err() else { panic!() };
    let keys: Vec<Key> = damaged.iter().map(|one| one.key).collect();
    assert_eq!(keys, [3, 9].map(|number| Key::new(Space::Body, PartitionId(1), number)));
    assert_eq!(more, 0);
    let lease = target.acquire(ShardId(0)).await.unwrap();
    assert!(unfinished_copy(&*lease).await.unwrap().is_some());
}

#[tokio::test]
async fn a_side_that_is_away_for_a_moment_is_asked_again() {
    let asked = std::sync::atomic::AtomicU32::new(0);
    let bend = move |_, _, page| match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3 {
        0 => Ok(page),
        _ => Err(Error::Unavailable { reason: "a fail-over".to_owned() }),
    };
    let source = Bent { store: memory(&sample()).await, bend: Arc::new(bend) };
    let target = MemoryStore::new();
    run(&source, &target).await.unwrap();
    assert_eq!(target.snapshot(), sample());
}

#[tokio::test]
async fn a_target_that_does_not_keep_written_values_is_detected() {
    let key = Key::new(Space::Head, PartitionId(2), 7);
    let bends: [fn(&mut Page); 3] = [
        |page| page.entries.retain(|entry| entry.number != 7),
        |page| {
            page.entries
                .iter_mut()
                .filter(|entry| entry.number == 7)
                .for_each(|entry| entry.value = value(1, 9));
        },
        |page| page.damaged = vec![damage(7)],
    ];
    for bend in bends {
        let bend = move |space, partition, mut page| {
            if (space, partition) == (key.space, key.partition) {
                bend(&mut page);
            }
            Ok(page)
        };
        let target = Bent { store: MemoryStore::new(), bend: Arc::new(bend) };
        let found = run(&memory(&sample()).await, &target).await.unwrap_err();
        assert!(
            matches!(found, CopyError::Different { key: different, .. } if different == key),
            "{found:?}"
        );
    }
}
