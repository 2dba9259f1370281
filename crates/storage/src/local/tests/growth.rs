//! The disk holds the live data and a bounded remainder, however many messages have passed through.

use super::*;

/// Segments beyond those that hold live records: one active, two prepared, four spare, garbage worth four that is not
/// cleaned yet, and the cost of rounding to whole segments.
const SPARE_SEGMENTS: u64 = 16;
/// Bytes on disk per byte of live records.
const BYTES_PER_LIVE_BYTE: u64 = 4;

/// Bytes that the cleaner copies per submitted byte: see the head of `cleaner/choice.rs`.
const COPIED_PER_SUBMITTED_BYTE: u64 = 3;
/// Segments copied in addition by merging small ones.
const COPIED_SEGMENTS: u64 = 8;

/// Waits until the keeper and the cleaner have nothing left to do.
pub(super) fn settle(store: &LocalStore) {
    let shard = store.current();
    let shared = shard.shared();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut idle_in_round = None;
    loop {
        assert!(std::time::Instant::now() < deadline, "the cleaner never came to rest");
        let round = shared.pool.lock().rounds_begun;
        while shared.pool.lock().rounds_done <= round {
            shared.keeper_wake.wake();
            std::thread::yield_now();
        }
        if crate::local::cleaner::clean_once(shared, false) {
            idle_in_round = None;
            continue;
        }
        let is_busy = {
            let state = shared.state();
            let is_dead = |one: &crate::local::segments::Segment| {
                one.sealed_end.is_some() && state.segments.kept_bytes(one) == 0
            };
            state.segments.in_order().any(|one| one.cleaning || is_dead(one))
        };
        // Delayed hints would otherwise be written only later.
        crate::local::keeper::write_hints(shared);
        let exchange = shared.pool.lock();
        let is_due =
            !exchange.unsealed.is_empty() || !exchange.retired.is_empty() || !exchange.hints_due.is_empty();
        // The last hint may still be in progress until another round begins.
        match idle_in_round.filter(|_| !is_busy && !is_due) {
            Some(round) if round < exchange.rounds_begun => return,
            _ => idle_in_round = (!is_busy && !is_due).then_some(exchange.rounds_begun),
        }
    }
}

/// Bytes of the segment files, used, prepared or spare.
pub(super) fn disk_bytes(disk: &SimulatedDisk) -> u64 {
    let is_segment =
        |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "segment" || kind == "spare");
    disk.paths().iter().filter(|path| is_segment(path)).map(|path| disk.bytes(path).len() as u64).sum()
}

/// Upper limit of the segment files' size while these entries are live and nothing is left to clean.
pub(super) fn disk_bytes_max(live: &BTreeMap<Key, Bytes>) -> u64 {
    let live_bytes: u64 = live.values().map(|value| 32 + value.len() as u64).sum();
    BYTES_PER_LIVE_BYTE * live_bytes + SPARE_SEGMENTS * u64::from(options().segment_bytes)
}

/// Upper limit of the cleaner's copies, without forced ones, after this many submitted bytes.
pub(super) fn copied_bytes_max(submitted_bytes: u64) -> u64 {
    COPIED_PER_SUBMITTED_BYTE * submitted_bytes + COPIED_SEGMENTS * u64::from(options().segment_bytes)
}

/// Messages that pass through a backlog, while one in `kept_every` is never removed.
struct Flow {
    next: u64,
    backlog: u64,
    kept_every: u64,
}

impl Flow {
    /// Sends `count` messages and completes the same number of the oldest.
    async fn pass(&mut self, shard: &dyn Shard, count: u64) {
        for _ in 0..count / 10 {
            let mut batch = Batch::new();
            for _ in 0..10 {
                batch.put(head(self.next), value(self.next, 20));
                batch.put(body(self.next), value(self.next, 300));
                let oldest = self.next.saturating_sub(self.backlog);
                if !oldest.is_multiple_of(self.kept_every) {
                    batch.delete(head(oldest));
                    batch.delete(body(oldest));
                }
                self.next += 1;
            }
            shard.submit(batch).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_backlog_with_few_survivors_keeps_the_disk_small() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let mut flow = Flow { next: 1, backlog: 100, kept_every: 800 };
    for _ in 0..4 {
        flow.pass(&*shard, 4000).await;
        settle(&store);
        let live = contents(&*shard, &[QUEUE]).await.unwrap();
        let (used, most) = (disk_bytes(&disk), disk_bytes_max(&live));
        assert!(used <= most, "{used} bytes for {} entries, more than {most}", live.len());
        let copied = store.current().shared().copied_bytes();
        assert!(copied <= copied_bytes_max(flow.next * 512), "{copied} bytes copied");
    }
}

/// Applies `act` to each number, a hundred to a batch.
async fn in_batches(
    shard: &dyn Shard,
    numbers: std::ops::RangeInclusive<u64>,
    act: impl Fn(&mut Batch, u64),
) {
    let numbers: Vec<u64> = numbers.collect();
    for numbers in numbers.chunks(100) {
        let mut batch = Batch::new();
        numbers.iter().for_each(|number| act(&mut batch, *number));
        shard.submit(batch).await.unwrap();
    }
}

#[tokio::test]
async fn one_old_segment_does_not_keep_the_removals_of_all_that_was_rewritten_after_it() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    in_batches(&*shard, 1..=8000, |batch, number| {
        batch.put(head(number), value(number, 9));
    })
    .await;
    in_batches(&*shard, 8001..=8016, |batch, number| {
        batch.put(body(number), value(number, 400));
    })
    .await;
    in_batches(&*shard, 1..=8000, |batch, number| {
        batch.put(head(number), value(number, 11));
    })
    .await;
    // Versions of these heads may exist in any segment since the first, including that of the sixteen, as far as the
    // removals record it.
    in_batches(&*shard, 1..=8000, |batch, number| {
        batch.delete(head(number));
    })
    .await;
    for _ in 0..2 {
        settle(&store);
        let live = contents(&*shard, &[QUEUE]).await.unwrap();
        assert_eq!(live.len(), 16);
        let (used, most) = (disk_bytes(&disk), disk_bytes_max(&live));
        assert!(used <= most, "{used} bytes for {} entries, more than {most}", live.len());
        in_batches(&*shard, 9000..=9100, |batch, number| {
            batch.put(head(number), value(number, 9));
            batch.delete(head(number));
        })
        .await;
    }
    store.close();
    let (_store, shard) = open(&disk);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 16);
}
