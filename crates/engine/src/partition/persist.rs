//! Events → store operations: the latest fact about each message, nothing about those that came and went.

use std::ops::Range;

use bytes::Bytes;
use peeklock_storage::{Batch, Key, PartitionId, Space};

use super::encoding::{append_counters, append_record};
use super::record::Record;
use crate::{BodyRef, Event, SequenceNumber};

/// Number of the `Meta` value that holds the counters; those below 16 are the namespace's.
pub(super) const META_COUNTERS: u64 = 16;

/// Translates a turn's events into store operations. Meta numbers below 16 are the namespace's; the partition uses
/// those from 16 on. Facts superseded within the turn (a message stored and removed) are not written.
pub fn persist(partition: PartitionId, events: &[Event], batch: &mut Batch) {
    let mut facts = Facts::default();
    for event in events {
        facts.note(event);
    }
    facts.write(partition, batch);
}

/// What happened to the value at one number.
struct Fact<'a, T> {
    number: u64,
    /// Whether the number was without a value before.
    creates: bool,
    /// The value from now on, `None` if it goes.
    value: Option<&'a T>,
}

/// A turn's facts in the order of their events.
#[derive(Default)]
struct Facts<'a> {
    next_number: Option<u64>,
    heads: Vec<Fact<'a, Record>>,
    bodies: Vec<Fact<'a, Bytes>>,
}

impl<'a> Facts<'a> {
    fn note(&mut self, event: &'a Event) {
        match event {
            Event::Accepted { number, record, content } => {
                self.arrived(*number, record);
                self.bodies.push(Fact { number: number.0, creates: true, value: Some(content) });
            }
            Event::Activated { scheduled, number, record } => {
                self.heads.push(Fact { number: scheduled.0, creates: false, value: None });
                self.arrived(*number, record);
            }
            Event::Changed { number, record, .. } => {
                self.heads.push(Fact { number: number.0, creates: false, value: Some(record) });
            }
            Event::Removed { number, body, .. } => {
                self.heads.push(Fact { number: number.0, creates: false, value: None });
                if let Some(BodyRef(number)) = *body {
                    self.bodies.push(Fact { number, creates: false, value: None });
                }
            }
            Event::Locked { .. }
            | Event::Renewed { .. }
            | Event::Released { .. }
            | Event::ReceiverOpened { .. }
            | Event::CreditSet { .. }
            | Event::CreditDrained { .. }
            | Event::ReceiverClosed { .. } => {}
        }
    }

    fn arrived(&mut self, number: SequenceNumber, record: &'a Record) {
        self.next_number = Some(number.0.saturating_add(1));
        self.heads.push(Fact { number: number.0, creates: true, value: Some(record) });
    }

    /// Writes the outcome. Small values share one buffer, so that a turn costs one allocation, not one per message.
    fn write(mut self, partition: PartitionId, batch: &mut Batch) {
        let mut buffer = Vec::new();
        let mut puts: Vec<(Key, Range<usize>)> = Vec::with_capacity(self.heads.len() + 1);
        if let Some(next_number) = self.next_number {
            buffer = append_counters(SequenceNumber(next_number), buffer);
            puts.push((Key::new(Space::Meta, partition, META_COUNTERS), 0..buffer.len()));
        }
        outcomes(&mut self.heads, |number, record| {
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
        outcomes(&mut self.bodies, |number, content| {
            let key = Key::new(Space::Body, partition, number);
            match content {
                Some(content) => batch.put(key, content.clone()),
                None => batch.delete(key),
            }
        });
    }
}

/// Calls `write` with the last value of every number, except of those that both came and went.
fn outcomes<'a, T>(facts: &mut [Fact<'a, T>], mut write: impl FnMut(u64, Option<&'a T>)) {
    facts.sort_by_key(|fact| fact.number);
    for facts in facts.chunk_by(|one, other| one.number == other.number) {
        if let (Some(first), Some(last)) = (facts.first(), facts.last())
            && !(first.creates && last.value.is_none())
        {
            write(last.number, last.value);
        }
    }
}
