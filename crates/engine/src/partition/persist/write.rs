//! Writes a turn's changes as store operations.

use std::ops::Range;

use bytes::Bytes;
use peeklock_storage::{Batch, Key, PartitionId, Space};

use super::{TurnChange, TurnChanges};
use crate::layout;
use crate::stored::{
    append_counters, append_head, append_last_use, append_remembered_id, append_session_state,
    append_subscription, append_tombstone,
};
use crate::{BodyRef, Event, QueueId, SequenceNumber};

/// Slightly more than the size of the record of a plain message.
const HEAD_BYTES_USUAL: usize = 16;

impl TurnChanges<'_> {
    /// Calls `write` with the next number of every queue that used one. Requires sorted heads.
    fn next_numbers(&self, mut write: impl FnMut(QueueId, u64)) {
        if let Some(next_number) = self.next_number {
            write(self.entity, next_number);
        }
        for heads in self.heads.chunk_by(|one, other| one.queue == other.queue) {
            let newest = heads.iter().rev().find(|change| change.creates);
            if let Some(newest) = newest.filter(|newest| newest.queue != self.entity) {
                write(newest.queue, newest.number.saturating_add(1));
            }
        }
    }

    /// Writes the changes.
    pub(super) fn write(mut self, batch: &mut Batch) {
        let entity = PartitionId(self.entity.0);
        // One more for the entity's counters.
        batch.reserve(self.heads.len() + self.bodies.len() + 1);
        let mut records = Records::with_capacity(self.heads.len());
        self.write_subscriptions(&mut records, batch);
        self.write_ids(&mut records, batch);
        self.write_heads(&mut records, batch);
        records.put(batch);
        // Before the bodies: a reserved number in a run may be used later in the turn.
        for run in self.body_runs {
            batch.delete_range(Space::Body, entity, run);
        }
        self.bodies.sort_by_key(|change| (change.queue, change.number));
        outcomes(&self.bodies, |partition, number, content| {
            let key = layout::body_key(partition, BodyRef(number));
            match content {
                Some(content) => batch.put(key, content.clone()),
                None => batch.delete(key),
            }
        });
        for (queue, run) in self.head_runs {
            batch.delete_range(Space::Head, PartitionId(queue.0), run);
        }
    }

    /// Writes created, changed and removed subscriptions, and times of last use.
    fn write_subscriptions(&self, records: &mut Records, batch: &mut Batch) {
        for (id, subscription) in &self.subscriptions {
            let key = layout::subscription_key(PartitionId(self.entity.0), *id);
            match subscription {
                Some(subscription) => records.add(key, |to| append_subscription(subscription, to)),
                None => batch.delete(key),
            }
        }
        for id in &self.removed {
            for space in Space::ALL {
                batch.delete_range(space, PartitionId(id.0), 0..=u64::MAX);
            }
        }
        for (queue, used_at) in &self.uses {
            let key = layout::last_use_key(PartitionId(queue.0));
            records.add(key, |to| append_last_use(*used_at, to));
        }
    }

    /// Writes the message ids to be remembered, and deletes those to be forgotten.
    fn write_ids(&self, records: &mut Records, batch: &mut Batch) {
        let entity = PartitionId(self.entity.0);
        if let Some((first, last)) = self.forgotten {
            batch.delete_range(Space::Head, entity, layout::remembered_numbers(first, last));
        }
        for (number, parts) in &self.remembered {
            records.add(layout::remembered_key(entity, *number), |to| append_remembered_id(*parts, to));
        }
    }

    /// Writes counters, heads of messages and session states.
    fn write_heads(&mut self, records: &mut Records, batch: &mut Batch) {
        let entity = PartitionId(self.entity.0);
        self.heads.sort_by_key(|change| (change.queue, change.number));
        self.next_numbers(|queue, next_number| {
            let key = layout::counters_key(PartitionId(queue.0));
            records.add(key, |to| append_counters(SequenceNumber(next_number), to));
        });
        outcomes(&self.heads, |partition, number, record| {
            let key = layout::head_key(partition, number);
            match record {
                Some(record) => records.add(key, |to| append_head(record, to)),
                None => batch.delete(key),
            }
        });
        for (body, content_bytes) in &self.kept {
            let key = layout::head_key(entity, body.0);
            records.add(key, |to| append_tombstone(*body, *content_bytes, to));
        }
        self.states.sort_by_key(|change| (change.queue, change.number));
        outcomes(&self.states, |partition, number, event| {
            let key = layout::head_key(partition, number);
            match event {
                Some(event) => records.add(key, |to| append_state(event, to)),
                None => batch.delete(key),
            }
        });
    }
}

/// Small values to be stored. They share one buffer, so that a turn costs one allocation instead of one per message.
struct Records {
    buffer: Vec<u8>,
    places: Vec<(Key, Range<usize>)>,
}

impl Records {
    /// With capacity for this number of heads, and for the entity's counters.
    fn with_capacity(heads: usize) -> Self {
        Self { buffer: Vec::with_capacity(heads * HEAD_BYTES_USUAL), places: Vec::with_capacity(heads + 1) }
    }

    fn add(&mut self, key: Key, append: impl FnOnce(&mut Vec<u8>)) {
        let start = self.buffer.len();
        append(&mut self.buffer);
        self.places.push((key, start..self.buffer.len()));
    }

    fn put(self, batch: &mut Batch) {
        let buffer = Bytes::from(self.buffer);
        for (key, place) in self.places {
            batch.put(key, buffer.slice(place));
        }
    }
}

/// Appends the record of the session state set by an event; nothing for any other event.
fn append_state(event: &Event, to: &mut Vec<u8>) {
    if let Event::SessionStateSet { session, state: Some(state), at, .. } = event {
        append_session_state(session, *at, state, to);
    }
}

/// Calls `write` with the last value of every number, except numbers that were created and deleted again. The changes are
/// sorted by number, and for the same number by the order of their events.
fn outcomes<'a, T>(changes: &[TurnChange<'a, T>], mut write: impl FnMut(PartitionId, u64, Option<&'a T>)) {
    for changes in changes.chunk_by(|one, other| (one.queue, one.number) == (other.queue, other.number)) {
        if let (Some(first), Some(last)) = (changes.first(), changes.last())
            && !(first.creates && last.value.is_none())
        {
            write(PartitionId(last.queue.0), last.number, last.value);
        }
    }
}
