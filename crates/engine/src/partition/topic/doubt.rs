//! Bodies that are kept because a head record that can't be read may refer to them.
//!
//! The body of a subscription's message is named by the message's head record only. While that record can't be read, a body
//! that it may name is not deleted with its last readable copy. In place of the copies, the topic's partition then stores a
//! *tombstone* at the number of the body (no other head has this number: it was the topic's own). So a start that can read
//! all heads finds the bodies that nothing refers to, and deletes them.
//!
//! If the other copies were gone before the damage was found, nothing names the body of an unreadable head. The numbers of
//! such bodies are found when the last subscription with unreadable heads is deleted: no record refers to them. If the
//! heads of that last one can be read again instead, the bodies of those deleted before stay in the store.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;

use rustc_hash::FxBuildHasher;

use super::super::queue::Queue;
use super::super::state::State;
use super::super::step::{Step, TIMERS_PER_CALL_MAX};
use super::Topic;
use crate::{BodyRef, Event, QueueId, SequenceNumber};

type BodyNumbers = HashSet<u64, FxBuildHasher>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// The bodies that unreadable heads of a subscription may refer to; messages published later can't be meant.
    suspects: BTreeMap<QueueId, BodyNumbers>,
    /// Kept bodies with their lengths; each counts as one reference.
    kept: BTreeMap<BodyRef, u32>,
    /// Those of them that have no tombstone in the store yet.
    without_tombstone: BTreeSet<BodyRef>,
}

impl Topic {
    /// Whether an unreadable head of any subscription but `besides` may refer to a body.
    pub(super) fn is_in_doubt(&self, body: BodyRef, besides: Option<QueueId>) -> bool {
        self.doubts.as_ref().is_some_and(|doubts| {
            let others = doubts.suspects.iter().filter(|(queue, _)| Some(**queue) != besides);
            others.into_iter().any(|(_, suspects)| suspects.contains(&body.0))
        })
    }

    /// Keeps a body that has lost its last reference, if it is in doubt.
    pub(super) fn keep_in_doubt(&mut self, body: BodyRef, content_bytes: u32) -> bool {
        if !self.is_in_doubt(body, None) {
            return false;
        }
        if let Some(doubts) = &mut self.doubts {
            doubts.kept.insert(body, content_bytes);
            doubts.without_tombstone.insert(body);
            self.bodies.add(body, 1);
        }
        true
    }

    /// Forgets the doubts of a deleted subscription; returns the bodies that are kept no longer.
    pub(super) fn doubt_no_longer(&mut self, id: QueueId) -> Vec<(BodyRef, u32)> {
        let Some(doubts) = &mut self.doubts else { return Vec::new() };
        doubts.suspects.remove(&id);
        let suspects = &doubts.suspects;
        let is_suspect = |body: &BodyRef| suspects.values().any(|some| some.contains(&body.0));
        let (kept, free): (_, Vec<_>) =
            std::mem::take(&mut doubts.kept).into_iter().partition(|(body, _)| is_suspect(body));
        doubts.kept = BTreeMap::from_iter::<Vec<_>>(kept);
        doubts.without_tombstone.retain(is_suspect);
        free
    }
}

impl State {
    /// Determines which bodies the unreadable heads of subscriptions may refer to, after restoring.
    pub(in crate::partition) fn suspect_bodies(&mut self) {
        let is_damaged = |queue: &&Queue| queue.quarantined.values().any(Option::is_none);
        let damaged: Vec<&Queue> = self.subscriptions.values().filter(is_damaged).collect();
        if damaged.is_empty() {
            return;
        }
        let of_copies = self.subscriptions.values().flat_map(Queue::all_messages);
        let published: BodyNumbers = of_copies
            .map(|(number, record)| record.body(number).0)
            .chain(self.tombstones.values().map(|(body, _)| body.0))
            .collect();
        let mut doubts = Doubts::default();
        for queue in damaged {
            let excluded = excluded(queue);
            let suspects = published.iter().copied().filter(|body| !excluded.contains(body)).collect();
            doubts.suspects.insert(queue.id, suspects);
        }
        let Some(topic) = &mut self.topic else { return };
        topic.doubts = Some(Box::new(doubts));
        let id = self.entity.id;
        let stays = |((queue, number), (body, _)): &((QueueId, SequenceNumber), (BodyRef, u32))| {
            *queue == id && number.0 == body.0 && topic.is_in_doubt(*body, None)
        };
        let (kept, others): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.tombstones).into_iter().partition(stays);
        self.tombstones = others;
        if let Some(doubts) = &mut topic.doubts {
            doubts.kept.extend(kept.into_values());
        }
    }

    /// The numbers that no record refers to, if `deleted` is the only subscription with unreadable heads. Later messages
    /// get other numbers.
    pub(in crate::partition) fn unnamed_bodies(&self, deleted: QueueId) -> Box<[RangeInclusive<u64>]> {
        let (Some(topic), Some(doubts)) = (self.topic.as_deref(), self.doubts()) else {
            return Box::default();
        };
        if !doubts.suspects.keys().eq([&deleted]) {
            return Box::default();
        }
        // The body of a message of the topic itself has the message's number.
        let own = self.entity.quarantined.keys().map(|number| number.0);
        let mut named: Vec<u64> = topic.bodies.numbers().chain(own).collect();
        named.sort_unstable();
        gaps(&named, self.entity.next_number.0)
    }

    /// Applies the storing of a tombstone.
    pub(in crate::partition) fn tombstone_stored(&mut self, body: BodyRef) {
        if let Some(doubts) = self.topic.as_mut().and_then(|topic| topic.doubts.as_mut()) {
            doubts.without_tombstone.remove(&body);
        }
    }

    /// Whether tombstones of kept bodies are still to be stored.
    pub(in crate::partition) fn lacks_tombstones(&self) -> bool {
        self.doubts().is_some_and(|doubts| !doubts.without_tombstone.is_empty())
    }

    fn doubts(&self) -> Option<&Doubts> {
        self.topic.as_ref()?.doubts.as_deref()
    }
}

/// The ranges of numbers from 1 to below `end` between these, which are sorted.
fn gaps(numbers: &[u64], end: u64) -> Box<[RangeInclusive<u64>]> {
    let before = std::iter::once(0).chain(numbers.iter().copied());
    let after = numbers.iter().copied().chain([end]);
    let between = before.zip(after).map(|(before, after)| before.saturating_add(1)..=after.saturating_sub(1));
    between.filter(|gap| !gap.is_empty()).collect()
}

/// The bodies that no unreadable head of a subscription refers to: those of its readable messages. The exceptions are the
/// neighbours of an unreadable head, because the copies of one message in a subscription have consecutive numbers.
fn excluded(queue: &Queue) -> BodyNumbers {
    let bodies: BTreeMap<SequenceNumber, u64> =
        queue.all_messages().map(|(number, record)| (number, record.body(number).0)).collect();
    let mut excluded: BodyNumbers = bodies.values().copied().collect();
    let unreadable = queue.quarantined.iter().filter(|(_, record)| record.is_none());
    for (number, _) in unreadable {
        let (before, after) = (bodies.range(..number).next_back(), bodies.range(number..).next());
        for (_, body) in before.into_iter().chain(after) {
            excluded.remove(body);
        }
    }
    excluded
}

impl Step<'_> {
    /// Stores tombstones for kept bodies, a bounded number in each call.
    pub(in crate::partition) fn store_tombstones(&mut self) {
        let Some(doubts) = self.state().doubts().filter(|doubts| !doubts.without_tombstone.is_empty()) else {
            return;
        };
        let some = doubts.without_tombstone.iter().take(TIMERS_PER_CALL_MAX);
        let length = |body: &BodyRef| doubts.kept.get(body).copied().unwrap_or(0);
        let some: Vec<_> = some.map(|body| (*body, length(body))).collect();
        for (body, content_bytes) in some {
            self.emit(Event::BodyKept { body, content_bytes });
        }
    }
}
