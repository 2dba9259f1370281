//! What a partition remembers. Only [`super::apply`] writes it.

use std::collections::BTreeSet;

use super::Counts;
use super::locks::Locks;
use super::messages::Messages;
use super::per_sub_queue::PerSubQueue;
use super::receivers::Receivers;
use super::record::Record;
use crate::{SequenceNumber, SubQueue, Timestamp};

/// The state of one queue. Messages and `next_number` are durable, all else is volatile or follows from them.
#[derive(Debug)]
pub(super) struct State {
    /// The number of the next message.
    pub(super) next_number: SequenceNumber,
    /// Messages by the sub-queue in which they rest.
    pub(super) messages: PerSubQueue<Messages>,
    /// Scheduled messages of the main queue by the instant at which they become available.
    pub(super) activations: BTreeSet<(Timestamp, SequenceNumber)>,
    /// Sum of the lengths of all contents.
    pub(super) size_bytes: u64,
    /// Locks held.
    pub(super) locks: Locks,
    /// Receivers open.
    pub(super) receivers: Receivers,
}

impl State {
    /// That of an empty queue.
    pub(super) fn new() -> Self {
        Self {
            next_number: SequenceNumber(1),
            messages: PerSubQueue::default(),
            activations: BTreeSet::new(),
            size_bytes: 0,
            locks: Locks::default(),
            receivers: Receivers::default(),
        }
    }

    /// Stores a message that was not there.
    pub(super) fn insert(&mut self, number: SequenceNumber, record: Record) {
        self.size_bytes = self.size_bytes.saturating_add(u64::from(record.content_bytes()));
        if let Some(at) = record.scheduled_enqueue_time() {
            self.activations.insert((at, number));
        }
        self.messages.get_mut(record.sub_queue()).put(number, record);
    }

    /// Removes a message and returns what was known about it.
    pub(super) fn remove(&mut self, sub_queue: SubQueue, number: SequenceNumber) -> Option<Record> {
        let record = self.messages.get_mut(sub_queue).remove(number)?;
        self.size_bytes = self.size_bytes.saturating_sub(u64::from(record.content_bytes()));
        if let Some(at) = record.scheduled_enqueue_time() {
            self.activations.remove(&(at, number));
        }
        Some(record)
    }

    /// Current counts.
    pub(super) fn counts(&self) -> Counts {
        let scheduled = self.activations.len() as u64;
        Counts {
            active: self.messages.get(SubQueue::Main).len() - scheduled,
            dead_letter: self.messages.get(SubQueue::DeadLetter).len(),
            scheduled,
            transfer_dead_letter: self.messages.get(SubQueue::TransferDeadLetter).len(),
            size_bytes: self.size_bytes,
        }
    }
}
