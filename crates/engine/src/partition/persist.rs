//! Converts events to store operations: the last record of each message, nothing for messages stored and removed in between.

mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use bytes::Bytes;
use peeklock_storage::{Batch, PartitionId};

use super::record::Record;
use crate::layout;
use crate::stored::RememberedParts;
use crate::{BodyRef, Deletion, Event, Publication, QueueId, SequenceNumber, Subscription, Timestamp};

/// Minimum run of neighbouring messages or bodies that is deleted as a range: deleting a million messages together must not
/// write a million log records.
const RUN_LENGTH_MIN: usize = 16;

/// Converts a turn's events into store operations. Bodies are stored in the partition `entity`, everything else of a
/// subscription in its own. Changes superseded within the turn (a message stored and removed) are not written.
pub fn persist(entity: PartitionId, events: &[Event], batch: &mut Batch) {
    let mut changes = TurnChanges::new(QueueId(entity.0), events.len());
    for event in events {
        changes.add(event);
    }
    changes.write(batch);
    if !batch.is_empty() {
        touch(entity, batch);
    }
}

/// Makes a batch touch a partition, if necessary by deleting a key that is never stored. After a refused batch, the store
/// refuses later batches that touch one of its partitions. Batches of a topic build on each other whichever subscriptions they
/// concern, so each touches the partition of the topic itself.
pub fn touch(entity: PartitionId, batch: &mut Batch) {
    if !batch.partitions().any(|partition| partition == entity) {
        batch.delete(layout::never_stored_key(entity));
    }
}

/// A change of the value at one number of a storage partition.
struct TurnChange<'a, T> {
    queue: QueueId,
    number: u64,
    /// Whether there was no value before.
    creates: bool,
    /// The new value, `None` if it is deleted.
    value: Option<&'a T>,
}

/// A turn's changes in the order of their events.
struct TurnChanges<'a> {
    entity: QueueId,
    /// The entity's next number, if one was used. Those of subscriptions are derived from their new messages.
    next_number: Option<u64>,
    /// Created, changed or removed subscriptions.
    subscriptions: BTreeMap<QueueId, Option<&'a Subscription>>,
    /// Removed ones. Needed separately, because a subscription that ended when it was declared may have been created again
    /// under the same id.
    removed: BTreeSet<QueueId>,
    heads: Vec<TurnChange<'a, Record>>,
    /// Session states, each by the event that set it.
    states: Vec<TurnChange<'a, Event>>,
    /// Bodies that are kept without a readable copy, with their lengths.
    kept: Vec<(BodyRef, u32)>,
    bodies: Vec<TurnChange<'a, Bytes>>,
    /// Long runs of messages that were deleted together, by queue.
    head_runs: Vec<(QueueId, RangeInclusive<u64>)>,
    /// Long runs of bodies without references.
    body_runs: Vec<RangeInclusive<u64>>,
    /// Times of last use to be stored.
    uses: Vec<(QueueId, Timestamp)>,
    /// Message ids to be remembered.
    remembered: Vec<(SequenceNumber, RememberedParts)>,
    /// Message ids to be deleted: all between two numbers.
    forgotten: Option<(SequenceNumber, SequenceNumber)>,
}

impl<'a> TurnChanges<'a> {
    /// With capacity for this number of events.
    fn new(entity: QueueId, events: usize) -> Self {
        Self {
            entity,
            next_number: None,
            subscriptions: BTreeMap::new(),
            removed: BTreeSet::new(),
            heads: Vec::with_capacity(events),
            states: Vec::new(),
            kept: Vec::new(),
            bodies: Vec::with_capacity(events),
            head_runs: Vec::new(),
            body_runs: Vec::new(),
            uses: Vec::new(),
            remembered: Vec::new(),
            forgotten: None,
        }
    }

    /// Adds the changes of one event.
    fn add(&mut self, event: &'a Event) {
        match event {
            Event::Accepted { number, is_reserved, record, content } => {
                if !is_reserved {
                    self.use_number(*number);
                }
                self.put_head(self.entity, *number, record);
                self.put_body(number.0, content);
            }
            Event::Activated { scheduled, number, record } => {
                self.delete_head(self.entity, *scheduled);
                self.use_number(*number);
                self.put_head(self.entity, *number, record);
            }
            Event::Changed { queue, number, record, .. } => {
                self.heads.push(TurnChange {
                    queue: *queue,
                    number: number.0,
                    creates: false,
                    value: Some(record),
                });
            }
            Event::NumbersReserved { next } => self.next_number = self.next_number.max(Some(next.0)),
            Event::BodyKept { body, content_bytes } => self.kept.push((*body, *content_bytes)),
            Event::Removed { queue, number, body, .. } | Event::TombstoneRemoved { queue, number, body } => {
                self.kept.retain(|(kept, _)| (self.entity, kept.0) != (*queue, number.0));
                self.delete_head(*queue, *number);
                self.delete_bodies_singly(body.as_slice());
            }
            Event::Deleted(deletion) => self.delete_messages(deletion),
            Event::SessionStateSet { queue, number, state, created, .. } => {
                let value = state.is_some().then_some(event);
                self.states.push(TurnChange { queue: *queue, number: *number, creates: *created, value });
            }
            Event::Used { queue, at, stored: true } => self.uses.push((*queue, *at)),
            Event::Remembered { number, original, key, at } => {
                self.use_number(*number);
                self.remembered.push((*number, (*at, *key, *original)));
            }
            Event::Forgotten { first, last } => self.forget_ids(*first, *last),
            Event::Published(published) => self.publish(published),
            Event::SubscriptionSet(subscription) => {
                self.subscriptions.insert(subscription.queue, Some(subscription));
            }
            Event::SubscriptionRemoved { queue, bodies, unnamed } => {
                self.remove_subscription(*queue, bodies);
                self.body_runs.extend_from_slice(unnamed);
            }
            Event::Locked { .. }
            | Event::Renewed { .. }
            | Event::Released { .. }
            | Event::ReceiverOpened { .. }
            | Event::Selection { .. }
            | Event::CreditSet { .. }
            | Event::CreditDrained { .. }
            | Event::ReceiverClosed { .. }
            | Event::Used { stored: false, .. }
            | Event::Watched { .. }
            | Event::SessionAwaited { .. }
            | Event::SessionNotAwaited { .. }
            | Event::SessionLocked { .. }
            | Event::SessionTaken { .. }
            | Event::SessionRenewed { .. }
            | Event::SessionUnlocked { .. }
            | Event::Quarantined { .. }
            | Event::NotDelivered { .. }
            | Event::OptionsChanged { .. }
            | Event::Ended => {}
        }
    }

    /// Adds a message with a new number.
    fn put_head(&mut self, queue: QueueId, number: SequenceNumber, record: &'a Record) {
        self.heads.push(TurnChange { queue, number: number.0, creates: true, value: Some(record) });
    }

    /// Records that the entity used a number.
    fn use_number(&mut self, number: SequenceNumber) {
        self.next_number = self.next_number.max(Some(number.0.saturating_add(1)));
    }

    /// A message without copies is not stored at all, unless it was stored before as scheduled.
    fn publish(&mut self, published: &'a Publication) {
        if let Some(scheduled) = published.scheduled {
            self.delete_head(self.entity, scheduled);
        } else if published.copies.is_empty() {
            return;
        }
        self.use_number(published.number);
        match &published.content {
            Some(content) => self.put_body(published.body.0, content),
            None if published.copies.is_empty() => self.delete_bodies_singly(&[published.body]),
            None => {}
        }
        self.heads.reserve(published.copies.len());
        for copy in &published.copies {
            self.put_head(copy.queue, copy.number, &copy.record);
        }
    }

    /// Drops all changes of a removed subscription.
    fn remove_subscription(&mut self, queue: QueueId, bodies: &[BodyRef]) {
        self.heads.retain(|change| change.queue != queue);
        self.states.retain(|change| change.queue != queue);
        self.head_runs.retain(|(of, _)| *of != queue);
        self.uses.retain(|(used, _)| *used != queue);
        self.subscriptions.insert(queue, None);
        self.removed.insert(queue);
        self.delete_bodies(bodies);
    }

    /// Adds a deletion of several messages: long runs become ranges.
    fn delete_messages(&mut self, deletion: &Deletion) {
        let numbers: Vec<u64> = deletion.numbers.iter().map(|number| number.0).collect();
        let (runs, rest) = split_into_runs(&numbers);
        let queue = deletion.queue;
        // Earlier changes of these messages in this turn are superseded, but they still show which numbers were used.
        let superseded: Vec<u64> =
            self.heads.iter().filter(|change| change.queue == queue).map(|change| change.number).collect();
        for number in superseded.into_iter().filter(|number| is_in_run(&runs, *number)).chain(rest) {
            self.delete_head(queue, SequenceNumber(number));
        }
        self.head_runs.extend(runs.into_iter().map(|run| (queue, run)));
        self.delete_bodies(&deletion.bodies);
    }

    /// Adds the deletion of bodies: long runs become ranges.
    fn delete_bodies(&mut self, bodies: &[BodyRef]) {
        let numbers: Vec<u64> = bodies.iter().map(|body| body.0).collect();
        let (runs, rest) = split_into_runs(&numbers);
        self.bodies.retain(|change| !is_in_run(&runs, change.number));
        self.body_runs.extend(runs);
        let rest: Vec<BodyRef> = rest.into_iter().map(BodyRef).collect();
        self.delete_bodies_singly(&rest);
    }

    /// Message ids are deleted in the order in which they were remembered.
    fn forget_ids(&mut self, first: SequenceNumber, last: SequenceNumber) {
        self.remembered.retain(|(number, ..)| *number > last);
        let first = self.forgotten.map_or(first, |(earlier, _)| earlier);
        self.forgotten = Some((first, last));
    }

    /// Adds the deletion of a message, or of a scheduled one under its temporary number.
    fn delete_head(&mut self, queue: QueueId, number: SequenceNumber) {
        self.heads.push(TurnChange { queue, number: number.0, creates: false, value: None });
    }

    /// Adds the deletion of bodies, each with an operation of its own.
    fn delete_bodies_singly(&mut self, bodies: &[BodyRef]) {
        let queue = self.entity;
        self.bodies.extend(bodies.iter().map(|body| TurnChange {
            queue,
            number: body.0,
            creates: false,
            value: None,
        }));
    }

    /// Adds a new body.
    fn put_body(&mut self, number: u64, content: &'a Bytes) {
        self.bodies.push(TurnChange { queue: self.entity, number, creates: true, value: Some(content) });
    }
}

/// Splits sorted numbers into long runs of consecutive numbers and the rest.
fn split_into_runs(numbers: &[u64]) -> (Vec<RangeInclusive<u64>>, Vec<u64>) {
    let follow = |one: &u64, other: &u64| one.checked_add(1) == Some(*other);
    let (runs, rest): (Vec<_>, Vec<_>) =
        numbers.chunk_by(follow).partition(|run| run.len() >= RUN_LENGTH_MIN);
    let ends = |run: &[u64]| Some(*run.first()?..=*run.last()?);
    (runs.into_iter().filter_map(ends).collect(), rest.concat())
}

/// Whether a number is in one of these runs, which are sorted.
fn is_in_run(runs: &[RangeInclusive<u64>], number: u64) -> bool {
    let position = runs.partition_point(|run| *run.end() < number);
    runs.get(position).is_some_and(|run| run.contains(&number))
}
