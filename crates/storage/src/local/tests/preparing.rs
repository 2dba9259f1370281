//! Segments are ready before the writer needs them.

use std::time::Duration;

use super::*;
use crate::local::pool::Need;
use crate::local::prepare::{Order, prepare};
use crate::local::shard::{LocalShard, ScrubDamageSender};
use crate::local::{Call, Event, SteppedStore};

/// 32 pieces of zeros.
const SEGMENT_BYTES: u32 = 4 << 20;

/// Calls needed to prepare one segment when the first one contains this many bytes.
fn calls_to_prepare(filled_bytes: usize) -> u64 {
    let disk = SimulatedDisk::new();
    let options = LocalOptions { segment_bytes: SEGMENT_BYTES, ..LocalOptions::default() };
    let store = SteppedStore::open(disk.mount(), DIRECTORY, options).unwrap();
    let mut batch = Batch::new();
    batch.put(body(1), value(1, filled_bytes));
    let _commit = store.submit(batch);
    assert_eq!(store.write(1), 1);
    let (calls, before) = (disk.calls(), segments(&disk));
    store.keep();
    assert_eq!(segments(&disk), before + 1, "a segment was prepared");
    disk.calls() - calls
}

fn segments(disk: &SimulatedDisk) -> usize {
    let is_segment = |path: &std::path::PathBuf| path.extension().is_some_and(|kind| kind == "segment");
    disk.paths().iter().filter(|path| is_segment(path)).count()
}

#[test]
fn a_segment_that_is_needed_soon_is_not_filled_with_zeros() {
    let (early, late) = (calls_to_prepare(600 << 10), calls_to_prepare(3 << 20));
    assert_eq!(early - late, 32, "{early} and {late}");
}

/// A batch larger than a segment makes the keeper replace the prepared ones. The writer may ask for one of these at that
/// moment, for a smaller batch.
#[test]
fn no_segment_is_used_that_a_manifest_in_doubt_may_not_list() {
    let disk = SimulatedDisk::new();
    let directory = new_directory(&disk, &options());
    let (shard, workers) =
        LocalShard::open_stepped(directory, options(), ScrubDamageSender::default()).unwrap();
    let shared = &workers.shared;
    prepare(shared, Order { capacity: 8 << 10, replaces_queue: false, is_zeroed: false }).unwrap();
    // The first sync of the directory is that of the new file's name.
    disk.plan(Some(Call::SyncDirectory), DIRECTORY, 1, Event::FailLate(5));

    let replaced = prepare(shared, Order { capacity: 64 << 10, replaces_queue: true, is_zeroed: false });

    assert!(matches!(replaced, Err(Error::InDoubt { .. })), "{replaced:?}");
    assert_eq!(shared.pool.lock().prepared.len(), 0);
    let need = Need { bytes: 100, left: 0, patience: Duration::ZERO };
    assert!(shared.pool.take(need, || {}, &shared.stepped).is_err());
    drop(shard);
}
