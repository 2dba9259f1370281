//! A partition with little to write, concurrent with partitions with much.

use std::time::{Duration, Instant};

use super::*;
use crate::local::pace::Pace;
use crate::queue::{FrameLimits, Queue, batch_bytes};
use crate::shard;
use crate::waiting::Waiting;

/// Bytes per second of the disk.
const DISK_BYTES: u64 = 300 << 20;
const POLITE: PartitionId = PartitionId(9);

fn batch(partition: PartitionId, value_bytes: usize) -> Batch {
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Body, partition, 0), Bytes::from(vec![0; value_bytes]));
    batch
}

/// A writer with a disk of `DISK_BYTES` per second.
struct Writer {
    queue: Queue,
    pace: Pace,
    now: Instant,
}

impl Writer {
    fn new() -> Self {
        Self { queue: Queue::default(), pace: Pace::default(), now: Instant::now() }
    }

    fn push(&mut self, batch: Batch) {
        let (notifier, _commit) = shard::commit();
        self.queue.push(batch, notifier);
    }

    /// Writes a frame; returns its bytes, and those of the polite partition.
    fn write(&mut self) -> (u64, u64) {
        let limits = FrameLimits { bytes: self.pace.frame_bytes_max(), operations: 1_000_000 };
        let mut frame = Vec::new();
        self.queue.take_frame(limits, &mut frame);
        let bytes = |is_meant: fn(&Waiting) -> bool| {
            frame.iter().filter(|one| is_meant(one)).map(|one| batch_bytes(&one.batch)).sum()
        };
        let (all, polite) = (bytes(|_| true), bytes(|one| one.batch.partitions().next() == Some(POLITE)));
        let took = Duration::from_micros(all * 1_000_000 / DISK_BYTES);
        self.now += took;
        self.pace.note(&frame, took, self.now);
        (all, polite)
    }

    /// Four partitions refill the queue with the bytes that were written.
    fn push_much(&mut self, written_bytes: u64) {
        let count = written_bytes.div_ceil(512 << 10).div_ceil(4);
        for _ in 0..count {
            (1..=4).for_each(|partition| self.push(batch(PartitionId(partition), 512 << 10)));
        }
    }
}

#[test]
fn a_small_batch_waits_for_a_bounded_number_of_others_bytes() {
    let mut writer = Writer::new();
    writer.push_much(16 << 20);
    let mut waited_bytes = Vec::new();
    for _ in 0..100 {
        // The batch arrives just after a frame was taken.
        let (under_way, _) = writer.write();
        writer.push(batch(POLITE, 1 << 10));
        let (its_own, polite) = writer.write();
        assert!(polite > 0, "the next frame takes it");
        waited_bytes.push(under_way + its_own);
        writer.push_much(under_way + its_own);
    }
    let most = waited_bytes.iter().skip(20).max().unwrap();
    assert!(*most <= 3 << 20, "{most} bytes of others go ahead: {waited_bytes:?}");
}

#[test]
fn frames_are_long_again_when_all_have_much_to_write() {
    let mut writer = Writer::new();
    writer.push_much(16 << 20);
    writer.push(batch(POLITE, 1 << 10));
    let mut shortest = u64::MAX;
    let end = writer.now + Duration::from_secs(2);
    while writer.now < end {
        let (bytes, _) = writer.write();
        shortest = shortest.min(bytes);
        writer.push_much(bytes);
    }
    assert!(shortest <= 1 << 20, "{shortest} bytes while the frame was shared");
    assert!(writer.pace.frame_bytes_max() > 3 << 20, "{}", writer.pace.frame_bytes_max());
}

#[test]
fn equal_partitions_have_long_frames() {
    let mut writer = Writer::new();
    for _ in 0..50 {
        (1..=16).for_each(|partition| writer.push(batch(PartitionId(partition), 512 << 10)));
        writer.write();
    }
    assert!(writer.pace.frame_bytes_max() > 3 << 20, "{}", writer.pace.frame_bytes_max());
}

#[test]
fn of_many_partitions_with_about_as_much_none_has_little() {
    let mut writer = Writer::new();
    for _ in 0..50 {
        for partition in 1..=16 {
            let value_bytes = if partition % 2 == 0 { 100 << 10 } else { 300 << 10 };
            writer.push(batch(PartitionId(partition), value_bytes));
        }
        writer.write();
    }
    assert!(writer.pace.frame_bytes_max() > 3 << 20, "{}", writer.pace.frame_bytes_max());
}
