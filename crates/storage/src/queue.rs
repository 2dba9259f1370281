//! Queue of batches for the writer, and their selection for the next frame.
//!
//! Partitions share a frame: a partition with a long queue does not delay the others. Batches that have a partition in
//! common keep the order in which they were submitted; others may overtake each other. The oldest batch is always
//! included, so none waits for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::waiting::Waiting;
use crate::{Batch, CommitNotifier, PartitionId};

/// Bytes of waiting batches beyond which no more requests are taken in.
const QUEUED_BYTES_MAX: u64 = 256 << 20;

/// A batch with derived data.
#[derive(Debug)]
struct Queued {
    waiting: Waiting,
    bytes: u64,
    /// Its partitions, each once; computed when it is first left in the queue.
    partitions: Option<Box<[PartitionId]>>,
}

/// Limits of a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameLimits {
    /// Most bytes; a single batch may exceed them.
    pub(crate) bytes: u64,
    /// Most operations; a single batch may exceed them.
    pub(crate) operations: usize,
}

/// The queue; see the module.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    batches: VecDeque<Queued>,
    bytes: u64,
    operations: usize,
}

/// Size of a frame being filled.
#[derive(Debug, Default)]
struct Filling {
    bytes: u64,
    operations: usize,
}

impl Filling {
    fn has_room(&self, queued: &Queued, limits: FrameLimits) -> bool {
        let operations = queued.waiting.batch.len();
        self.operations == 0 && self.bytes == 0
            || (self.bytes + queued.bytes <= limits.bytes
                && self.operations + operations <= limits.operations)
    }

    fn add(&mut self, queued: &Queued) {
        self.bytes += queued.bytes;
        self.operations += queued.waiting.batch.len();
    }
}

impl Queue {
    /// Appends a batch.
    pub(crate) fn push(&mut self, batch: Batch, notifier: CommitNotifier) {
        let bytes = batch_bytes(&batch);
        self.bytes += bytes;
        self.operations += batch.len();
        let waiting = Waiting { batch, notifier, refusal: None };
        self.batches.push_back(Queued { waiting, bytes, partitions: None });
    }

    /// Returns batches to the front of the queue, in their order and with their refusals.
    pub(crate) fn restore(&mut self, waiting: Vec<Waiting>) {
        for waiting in waiting.into_iter().rev() {
            let bytes = batch_bytes(&waiting.batch);
            self.bytes += bytes;
            self.operations += waiting.batch.len();
            self.batches.push_front(Queued { waiting, bytes, partitions: None });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Whether the waiting batches exceed one frame.
    pub(crate) fn exceeds(&self, limits: FrameLimits) -> bool {
        self.bytes > limits.bytes || self.operations > limits.operations
    }

    /// Whether no more requests are to be taken in before the next frame.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > QUEUED_BYTES_MAX
    }

    /// Moves the batches of the next frame to `frame`: first those of each partition up to an equal part of the frame,
    /// then others that fit, in order.
    pub(crate) fn take_frame(&mut self, limits: FrameLimits, frame: &mut Vec<Waiting>) {
        if !self.exceeds(limits) || self.batches.len() == 1 {
            (self.bytes, self.operations) = (0, 0);
            frame.extend(self.batches.drain(..).map(|queued| queued.waiting));
            return;
        }
        let mut filling = Filling::default();
        self.take_parts(limits, &mut filling, frame);
        while self.batches.front().is_some_and(|next| filling.has_room(next, limits))
            && let Some(next) = self.batches.pop_front()
        {
            filling.add(&next);
            frame.push(next.waiting);
        }
        self.bytes -= filling.bytes;
        self.operations -= filling.operations;
    }

    /// Moves the oldest batches to `frame`, regardless of their size.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn take_oldest(&mut self, batches_max: usize, frame: &mut Vec<Waiting>) {
        for queued in self.batches.drain(..batches_max.min(self.batches.len())) {
            self.bytes -= queued.bytes;
            self.operations -= queued.waiting.batch.len();
            frame.push(queued.waiting);
        }
    }

    /// Takes each partition's equal part, and keeps the other batches in order.
    fn take_parts(&mut self, limits: FrameLimits, filling: &mut Filling, frame: &mut Vec<Waiting>) {
        let first_of = |queued: &Queued| queued.waiting.batch.partitions().next();
        let partitions: BTreeSet<PartitionId> = self.batches.iter().filter_map(first_of).collect();
        let part = limits.bytes / u64::try_from(partitions.len().max(1)).unwrap_or(1);
        let mut taken: BTreeMap<PartitionId, u64> = BTreeMap::new();
        // Partitions whose later batches must wait, because one was left in the queue or the part is used up.
        let mut waiting: BTreeSet<PartitionId> = BTreeSet::new();
        let mut left = VecDeque::with_capacity(self.batches.len());
        for mut queued in self.batches.drain(..) {
            let distinct = queued.partitions.get_or_insert_with(|| distinct(&queued.waiting.batch));
            if distinct.iter().any(|partition| waiting.contains(partition))
                || !filling.has_room(&queued, limits)
            {
                waiting.extend(queued.partitions.iter().flatten().copied());
                left.push_back(queued);
                continue;
            }
            for partition in queued.partitions.iter().flatten() {
                let taken = taken.entry(*partition).or_default();
                *taken += queued.bytes;
                if *taken >= part {
                    waiting.insert(*partition);
                }
            }
            filling.add(&queued);
            frame.push(queued.waiting);
        }
        self.batches = left;
    }
}

fn distinct(batch: &Batch) -> Box<[PartitionId]> {
    let mut partitions: Vec<PartitionId> = batch.partitions().collect();
    partitions.sort_unstable();
    partitions.dedup();
    partitions.into_boxed_slice()
}

/// Most bytes of a batch besides its values: once, and for each operation.
const OVERHEAD_BYTES: (u64, u64) = (48, 40);

/// Most bytes that a batch adds to a frame of the local log or to a record of a replicated one.
pub(crate) fn batch_bytes(batch: &Batch) -> u64 {
    let (once, each) = OVERHEAD_BYTES;
    once + each * batch.len() as u64 + batch.value_bytes() as u64
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::{Key, Space, shard};

    const LIMITS: FrameLimits = FrameLimits { bytes: 64 << 10, operations: 1_000 };

    /// A batch that puts a value with this number in each of these partitions.
    fn batch(partitions: &[u64], number: u64, value_bytes: usize) -> Batch {
        let mut batch = Batch::new();
        for partition in partitions {
            let key = Key::new(Space::Body, PartitionId(*partition), number);
            batch.put(key, Bytes::from(vec![0; value_bytes]));
        }
        batch
    }

    fn push(queue: &mut Queue, batch: Batch) {
        let (notifier, _commit) = shard::commit();
        queue.push(batch, notifier);
    }

    /// Partition and number of each put, in order.
    fn puts(frame: &[Waiting]) -> Vec<(u64, u64)> {
        let operations = frame.iter().flat_map(|one| one.batch.operations());
        operations
            .filter_map(|operation| match operation {
                crate::Operation::Put { key, .. } => Some((key.partition.0, key.number)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_small_batch_gets_into_the_next_frame_however_much_others_have_waiting() {
        let mut queue = Queue::default();
        for number in 0..100 {
            (1..=4).for_each(|partition| push(&mut queue, batch(&[partition], number, 4 << 10)));
        }
        push(&mut queue, batch(&[9], 0, 100));
        let mut frame = Vec::new();
        queue.take_frame(LIMITS, &mut frame);
        let puts = puts(&frame);
        assert!(puts.contains(&(9, 0)), "{puts:?}");
        for partition in 1..=4 {
            let count = puts.iter().filter(|(of, _)| *of == partition).count();
            assert!((3..=4).contains(&count), "{count} of partition {partition}");
        }
    }

    #[test]
    fn a_frame_is_filled_when_only_one_partition_has_much() {
        let mut queue = Queue::default();
        (0..100).for_each(|number| push(&mut queue, batch(&[1], number, 4 << 10)));
        push(&mut queue, batch(&[2], 0, 100));
        let mut frame = Vec::new();
        queue.take_frame(LIMITS, &mut frame);
        assert!(frame.len() >= 15, "{} batches", frame.len());
    }

    #[test]
    fn batches_with_a_partition_in_common_keep_their_order_and_none_is_lost() {
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..50 {
            let mut queue = Queue::default();
            let mut numbers = [0_u64; 6];
            let mut last = [None; 6];
            let mut frames = Vec::new();
            for _ in 0..200 {
                let some: Vec<u64> = (0..6).filter(|_| random.random_bool(0.3)).collect();
                let number = numbers.iter().sum::<u64>();
                some.iter().for_each(|partition| numbers[usize::try_from(*partition).unwrap()] += 1);
                push(&mut queue, batch(&some, number, random.random_range(0..20_000)));
                if random.random_bool(0.1) {
                    queue.take_frame(LIMITS, &mut frames);
                }
            }
            while !queue.is_empty() {
                queue.take_frame(LIMITS, &mut frames);
            }
            assert_eq!((queue.bytes, queue.operations, frames.len()), (0, 0, 200));
            for (partition, number) in puts(&frames) {
                let last = &mut last[usize::try_from(partition).unwrap()];
                assert!(*last < Some(number), "partition {partition}: {number} after {last:?}");
                *last = Some(number);
            }
            assert_eq!(puts(&frames).len() as u64, numbers.iter().sum::<u64>());
        }
    }
}
