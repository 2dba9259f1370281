//! Long frames, which are written in pieces.

use std::io;
use std::sync::Mutex;

use super::*;
use crate::local::filesystem::File;
use crate::local::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, Shadows};
use crate::local::frame::FrameBuilder;
use crate::local::{Call, Event};

const ENOSPC: i32 = 28;
const OFFSET: u64 = 4096;

/// A file that records its writes and the hints to begin writing to disk.
#[derive(Debug, Default)]
struct Recorder {
    written: Mutex<Vec<u8>>,
    begun: Mutex<Vec<(u64, u64)>>,
}

impl File for Recorder {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        unreachable!("no reads in this test")
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = self.written.lock().unwrap();
        assert_eq!(offset, OFFSET + written.len() as u64, "one behind the other");
        written.extend_from_slice(bytes);
        Ok(())
    }

    fn begin_to_sync(&self, offset: u64, bytes: u64) {
        let written = self.written.lock().unwrap().len() as u64;
        assert!(offset + bytes <= OFFSET + written, "begun writes are complete");
        self.begun.lock().unwrap().push((offset, bytes));
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn drop_cached(&self, _: u64, _: u64) {}

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
}

/// Writes a frame of values with these lengths; returns the file and the frame's length.
fn write(lengths: &[usize]) -> (Recorder, u64) {
    let mut frame = FrameBuilder::default();
    frame.clear();
    let values: Vec<Bytes> =
        (1..=250).cycle().zip(lengths).map(|(byte, len)| vec![byte; *len].into()).collect();
    for (number, value) in (0..).zip(&values) {
        let key = Key::new(Space::Body, QUEUE, number);
        let value_len = value.len().try_into().unwrap();
        frame.push(RecordHeader { kind: Kind::Put, key, value_len, shadows: Shadows::Nothing }, value, 0);
    }
    frame.finish(OFFSET, 1, 7);
    let file = Recorder::default();
    frame.write(&file, OFFSET).unwrap();
    let written = file.written.lock().unwrap();
    for (placed, value) in frame.records().iter().zip(&values) {
        let at = usize::try_from(u64::from(placed.offset) - OFFSET).unwrap() + RECORD_HEADER_BYTES as usize;
        assert!(written[at..at + value.len()] == value[..], "the value of {:?}", placed.header.key);
    }
    drop(written);
    (file, frame.len())
}

#[test]
fn a_long_frame_is_written_whole_and_the_disk_begins_with_its_pieces() {
    let mixed = [vec![1_000; 700], vec![64 << 10; 9], vec![16 << 10; 3], vec![1_500_000, 20]].concat();
    for lengths in [mixed, vec![3 << 20], vec![1_024; 1_000], vec![64 << 10; 64]] {
        let (file, bytes) = write(&lengths);
        assert_eq!(file.written.lock().unwrap().len() as u64, bytes);
        let begun = file.begun.lock().unwrap();
        assert!(begun.len() >= 2, "{begun:?}");
        let mut at = OFFSET;
        for (offset, piece) in &*begun {
            assert_eq!(*offset, at, "no gap");
            assert!(*piece >= 256 << 10, "a piece of {piece} bytes");
            at += piece;
        }
        assert!(at < OFFSET + bytes, "the sync does the last");
    }
}

#[test]
fn a_short_frame_is_left_to_its_sync() {
    for lengths in [vec![], vec![1_024; 300], vec![400 << 10]] {
        let (file, bytes) = write(&lengths);
        assert_eq!(file.written.lock().unwrap().len() as u64, bytes);
        assert!(file.begun.lock().unwrap().is_empty());
    }
}

/// A batch of messages that makes a frame of several pieces.
fn long_batch(first: u64) -> Batch {
    let mut batch = Batch::new();
    for number in first..first + 30 {
        batch.put(head(number), value(number, 20));
        batch.put(body(number), Bytes::from(vec![u8::try_from(number % 251).unwrap(); 60_000]));
    }
    batch
}

/// Segments large enough for such a batch.
fn long_segments() -> LocalOptions {
    LocalOptions { segment_bytes: 4 << 20, ..LocalOptions::default() }
}

/// A store with message 1, on a disk with an event planned for a write of the next frame, after `pass` others.
async fn store_before(pass: u64, event: Event) -> (SimulatedDisk, LocalStore, Arc<dyn Shard>) {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, long_segments()).unwrap();
    shard.submit(send(1)).await.unwrap();
    let segments = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|of| of == "segment"));
    let active = segments.min().unwrap();
    disk.plan(Some(Call::Write), active.file_name().unwrap().to_str().unwrap(), pass, event);
    (disk, store, shard)
}

#[tokio::test]
async fn no_room_for_a_later_piece_leaves_nothing_of_the_frame() {
    // Some sixty of the writes to the segment belong to the batch's frame.
    for pass in (0..56).step_by(9) {
        let (disk, store, shard) = store_before(pass, Event::Fail(ENOSPC)).await;
        let refused = shard.submit(long_batch(100)).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "after {pass}: {refused:?}");
        shard.resume(QUEUE);
        assert!(submit_patiently(&*shard, || long_batch(100)).await, "there is room again");
        shard.submit(send(2)).await.unwrap();
        disk.crash(pass);
        drop(store);
        let (_store, shard) = open_with(&disk, long_segments()).unwrap();
        let found = contents(&*shard, &[QUEUE]).await.unwrap();
        assert_eq!(found.len(), 2 * 32, "after {pass}");
        assert!(found[&body(129)].iter().all(|byte| *byte == 129), "after {pass}");
    }
}

#[tokio::test]
async fn a_power_cut_between_pieces_costs_nothing_that_was_accepted() {
    for pass in (0..56).step_by(9) {
        let (disk, store, shard) = store_before(pass, Event::PowerCut(seed())).await;
        shard.submit(long_batch(100)).await.unwrap_err();
        drop(store);
        let (store, shard) = open_with(&disk, long_segments()).unwrap();
        let found = contents(&*shard, &[QUEUE]).await.unwrap();
        let expected = [head(1), body(1)];
        assert!(found.keys().eq(&expected), "after {pass}: the frame counts as a whole or not at all");
        shard.submit(long_batch(200)).await.unwrap();
        store.close();
        let (_store, shard) = open_with(&disk, long_segments()).unwrap();
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 2 * 31, "after {pass}");
    }
}
