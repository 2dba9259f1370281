//! Segments are ready before the writer needs them.

use super::*;
use crate::local::SteppedStore;

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
