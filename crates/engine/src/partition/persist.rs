//! Events → store operations: the latest fact about each message, nothing about those that came and went.

use std::ops::Range;

use bytes::Bytes;
use peeklock_storage::{Batch, Key, PartitionId, Space};
use smallvec::SmallVec;

use super::encoding::{append_counters, append_record, append_used};
use super::record::Record;
use crate::{BodyRef, Event, QueueId, SequenceNumber, Timestamp};

/// Number of the `Meta` value that holds the counters; those below 16 are the namespace's.
pub(super) const META_COUNTERS: u64 = 16;

/// Number of the `Meta` value that holds the instant of the last use, of what is deleted when idle.
pub(super) const META_USED: u64 = 17;

/// Translates a turn's events into store operations. Meta numbers below 16 are the namespace's; the partition uses
/// those from 16 on. Contents rest in the partition `entity`, everything else of a subscription in its own. Facts
/// superseded within the turn (a message stored and removed) are not written.
pub fn persist(entity: PartitionId, events: &[Event], batch: &mut Batch) {
    let mut facts = Facts::new(QueueId(entity.0));
    for event in events {
        facts.note(event);
    }
    facts.write(batch);
}

/// What happened to the value at one number of one storage partition.
struct Fact<'a, T> {
    queue: QueueId,
    number: u64,
    /// Whether the number was without a value before.
    creates: bool,
    /// The value from now on, `None` if it goes.
    value: Option<&'a T>,
}

/// A turn's facts in the order of their events.
struct Facts<'a> {
    entity: QueueId,
    /// The next number of each queue that gave one out, the last of each.
    next_numbers: SmallVec<[(QueueId, u64); 1]>,
    heads: Vec<Fact<'a, Record>>,
    bodies: Vec<Fact<'a, Bytes>>,
    /// Last uses worth storing.
    uses: Vec<(QueueId, Timestamp)>,
}

impl<'a> Facts<'a> {
    fn new(entity: QueueId) -> Self {
        Self {
            entity,
            next_numbers: SmallVec::new(),
            heads: Vec::new(),
            bodies: Vec::new(),
            uses: Vec::new(),
        }
    }

    fn note(&mut self, event: &'a Event) {
        match event {
            Event::Accepted { number, record, content } => {
                self.arrived(self.entity, *number, record);
                self.content(number.0, content);
            }
            Event::Activated { scheduled, number, record } => {
                self.gone(self.entity, *scheduled);
                self.arrived(self.entity, *number, record);
            }
            Event::Changed { queue, number, record, .. } => {
                self.heads.push(Fact {
                    queue: *queue,
                    number: number.0,
                    creates: false,
                    value: Some(record),
                });
            }
            Event::Removed { queue, number, body, .. } => {
                self.gone(*queue, *number);
                if let Some(BodyRef(number)) = *body {
                    self.bodies.push(Fact { queue: self.entity, number, creates: false, value: None });
                }
            }
            Event::Used { queue, at, stored: true } => self.uses.push((*queue, *at)),
            Event::Published(_)
            | Event::SubscriptionSet(_)
            | Event::SubscriptionRemoved { .. }
            | Event::SessionStateSet { .. } => {}
            Event::Locked { .. }
            | Event::Renewed { .. }
            | Event::Released { .. }
            | Event::ReceiverOpened { .. }
            | Event::CreditSet { .. }
            | Event::CreditDrained { .. }
            | Event::ReceiverClosed { .. }
            | Event::Used { stored: false, .. }
            | Event::Watched { .. }
            | Event::SessionAwaited { .. }
            | Event::SessionNotAwaited { .. }
            | Event::SessionLocked { .. }
            | Event::SessionRenewed { .. }
            | Event::SessionUnlocked { .. }
            | Event::Ended => {}
        }
    }

    /// A message under a new number.
    fn arrived(&mut self, queue: QueueId, number: SequenceNumber, record: &'a Record) {
        self.next_number(queue, number.0.saturating_add(1));
        self.heads.push(Fact { queue, number: number.0, creates: true, value: Some(record) });
    }

    fn next_number(&mut self, queue: QueueId, next: u64) {
        match self.next_numbers.iter_mut().rev().find(|(of, _)| *of == queue) {
            Some((_, known)) => *known = next,
            None => self.next_numbers.push((queue, next)),
        }
    }

    fn gone(&mut self, queue: QueueId, number: SequenceNumber) {
        self.heads.push(Fact { queue, number: number.0, creates: false, value: None });
    }

    fn content(&mut self, number: u64, content: &'a Bytes) {
        self.bodies.push(Fact { queue: self.entity, number, creates: true, value: Some(content) });
    }

    /// Writes the outcome. Small values share one buffer, so that a turn costs one allocation, not one per message.
    fn write(mut self, batch: &mut Batch) {
        let mut buffer = Vec::new();
        let mut puts: Vec<(Key, Range<usize>)> = Vec::with_capacity(self.heads.len() + 1);
        for (queue, next_number) in self.next_numbers {
            let start = buffer.len();
            buffer = append_counters(SequenceNumber(next_number), buffer);
            puts.push((Key::new(Space::Meta, PartitionId(queue.0), META_COUNTERS), start..buffer.len()));
        }
        for (queue, used_at) in self.uses {
            let start = buffer.len();
            buffer = append_used(used_at, buffer);
            puts.push((Key::new(Space::Meta, PartitionId(queue.0), META_USED), start..buffer.len()));
        }
        outcomes(&mut self.heads, |partition, number, record| {
            let key = Key::new(Space::Head, partition, number);
            let Some(record) = record else { return batch.delete(key) };
            let start = buffer.len();
            buffer = append_record(record, std::mem::take(&mut buffer));
            puts.push((key, start..buffer.len()));
        });
        let buffer = Bytes::from(buffer);
        for (key, range) in puts {
            batch.put(key, buffer.slice(range));
        }
        outcomes(&mut self.bodies, |partition, number, content| {
            let key = Key::new(Space::Body, partition, number);
            match content {
                Some(content) => batch.put(key, content.clone()),
                None => batch.delete(key),
            }
        });
    }
}

/// Calls `write` with the last value of every number, except of those that both came and went.
fn outcomes<'a, T>(facts: &mut [Fact<'a, T>], mut write: impl FnMut(PartitionId, u64, Option<&'a T>)) {
    facts.sort_by_key(|fact| (fact.queue, fact.number));
    for facts in facts.chunk_by(|one, other| (one.queue, one.number) == (other.queue, other.number)) {
        if let (Some(first), Some(last)) = (facts.first(), facts.last())
            && !(first.creates && last.value.is_none())
        {
            write(PartitionId(last.queue.0), last.number, last.value);
        }
    }
}
