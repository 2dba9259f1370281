//! Receivers with a selector: the known matches of each.
//!
//! A partition knows neither bodies nor selectors. It sends the owner of such a receiver the available messages to be
//! examined, each once and in order of number, a bounded number at a time ([`crate::Effect::Examine`]); the answer says which
//! of them match ([`crate::Command::Examined`]). A message that was locked in between is examined again, because its
//! properties may have changed. So a receiver without matches in a long backlog examines it only once.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::Messages;
use crate::{ReceiverId, SequenceNumber, SubQueue, Timestamp};

/// Messages sent for examination at a time.
const EXAMINED_COUNT_MAX: usize = 256;
/// Bytes of bodies sent for examination at a time, unless it is one message.
const EXAMINED_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of messages remembered for another examination; beyond it, all messages from the first of them on are
/// examined again.
const AGAIN_MAX: usize = 4096;

/// A change of a receiver's selection.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectionChange {
    /// The receiver has a selector.
    Begun,
    /// Messages were sent to its owner for examination, in order.
    Shown(Vec<SequenceNumber>),
    /// The numbers of the matching ones; other numbers are ignored.
    Examined(Vec<SequenceNumber>),
}

/// The examination state of one receiver. May contain numbers of messages deleted since.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Messages from this number on were not sent for examination yet.
    next: SequenceNumber,
    /// Messages below `next` that became available again.
    again: BTreeSet<SequenceNumber>,
    /// Whether an examination is under way.
    is_asked: bool,
    /// The messages under examination that did not become available again since.
    shown: BTreeSet<SequenceNumber>,
    /// Matching messages.
    matching: BTreeSet<SequenceNumber>,
}

impl Selection {
    /// The first available message that is neither examined nor under examination.
    fn first_unknown(&self, messages: &Messages) -> Option<SequenceNumber> {
        let again = self.again.iter().copied().find(|number| messages.is_available(*number));
        again.or_else(|| messages.available_from(self.next).next().map(|(number, _)| number))
    }

    /// The next message to deliver; none while an earlier one may match.
    pub(super) fn deliverable(&self, messages: &Messages) -> Option<SequenceNumber> {
        let first = |numbers: &BTreeSet<SequenceNumber>| {
            numbers.iter().copied().find(|number| messages.is_available(*number))
        };
        let candidate = first(&self.matching)?;
        let is_first = |other: Option<SequenceNumber>| other.is_none_or(|other| candidate < other);
        (is_first(first(&self.shown)) && is_first(self.first_unknown(messages))).then_some(candidate)
    }

    /// Whether no message is left that it could get.
    pub(super) fn is_dry(&self, messages: &Messages) -> bool {
        !self.is_asked
            && self.first_unknown(messages).is_none()
            && !self.matching.iter().any(|number| messages.is_available(*number))
    }

    /// The messages to be examined next; none while an examination is under way. Stops at an expired message.
    pub(super) fn to_show(&self, messages: &Messages, now: Timestamp) -> Vec<SequenceNumber> {
        if self.is_asked {
            return Vec::new();
        }
        let again = self.again.iter().filter(|number| messages.is_available(**number));
        let again = again.filter_map(|number| Some((*number, messages.get(*number)?)));
        let mut bytes = 0_u64;
        let mut numbers = Vec::new();
        for (number, record) in again.chain(messages.available_from(self.next)).take(EXAMINED_COUNT_MAX) {
            bytes = bytes.saturating_add(record.content_bytes().into());
            if record.expiry() <= now || (bytes > EXAMINED_BYTES_MAX && !numbers.is_empty()) {
                break;
            }
            numbers.push(number);
        }
        numbers
    }

    /// Records that the messages of [`Self::to_show`] are under examination.
    fn show(&mut self, numbers: &[SequenceNumber], messages: &Messages) {
        let Some(last) = numbers.last() else { return };
        let after = SequenceNumber(last.0.saturating_add(1));
        // Skipped messages are not available; they are added again when they become available.
        self.again = self.again.split_off(&after);
        self.next = self.next.max(after);
        (self.is_asked, self.shown) = (true, numbers.iter().copied().collect());
        self.matching.retain(|number| messages.is_available(*number));
    }

    /// Records the result of the examination.
    fn examined(&mut self, matching: &[SequenceNumber]) {
        self.matching.extend(matching.iter().filter(|number| self.shown.contains(number)));
        self.shown.clear();
        self.is_asked = false;
    }

    /// Records a delivery to the receiver.
    fn delivered(&mut self, number: SequenceNumber) {
        self.matching.remove(&number);
    }

    /// Records that a message became available, for the first time or again.
    fn became_available(&mut self, number: SequenceNumber) {
        self.shown.remove(&number);
        self.matching.remove(&number);
        if number >= self.next {
            return;
        }
        self.again.insert(number);
        if self.again.len() > AGAIN_MAX
            && let Some(first) = self.again.first()
        {
            self.next = *first;
            self.again.clear();
        }
    }
}

/// All receivers with a selector of a queue or subscription, each with its sub-queue.
#[derive(Debug, Default)]
pub(super) struct Selections(BTreeMap<ReceiverId, (SubQueue, Selection)>);

impl Selections {
    /// Adds a receiver with a selector.
    pub(super) fn add(&mut self, receiver: ReceiverId, sub_queue: SubQueue) {
        self.0.entry(receiver).or_insert_with(|| (sub_queue, Selection::default()));
    }

    /// Whether a receiver has a selector.
    pub(super) fn has(&self, receiver: ReceiverId) -> bool {
        self.0.contains_key(&receiver)
    }

    /// Removes a receiver.
    pub(super) fn remove(&mut self, receiver: ReceiverId) {
        self.0.remove(&receiver);
    }

    /// The selection of a receiver, if it has a selector.
    pub(super) fn get(&self, receiver: ReceiverId) -> Option<&Selection> {
        self.0.get(&receiver).map(|(_, selection)| selection)
    }

    /// All of these receivers, with their sub-queues.
    pub(super) fn receivers(&self) -> impl Iterator<Item = (ReceiverId, SubQueue)> {
        self.0.iter().map(|(receiver, (sub_queue, _))| (*receiver, *sub_queue))
    }

    /// Records that messages are under examination by the owner of a receiver.
    pub(super) fn show(&mut self, receiver: ReceiverId, numbers: &[SequenceNumber], messages: &Messages) {
        if let Some((_, selection)) = self.0.get_mut(&receiver) {
            selection.show(numbers, messages);
        }
    }

    /// Records the result of an examination.
    pub(super) fn examined(&mut self, receiver: ReceiverId, matching: &[SequenceNumber]) {
        if let Some((_, selection)) = self.0.get_mut(&receiver) {
            selection.examined(matching);
        }
    }

    /// Records a delivery to a receiver.
    pub(super) fn delivered(&mut self, receiver: ReceiverId, number: SequenceNumber) {
        if let Some((_, selection)) = self.0.get_mut(&receiver) {
            selection.delivered(number);
        }
    }

    /// Records that a message was added to a sub-queue or unlocked there.
    pub(super) fn became_available(&mut self, sub_queue: SubQueue, number: SequenceNumber) {
        for (read, selection) in self.0.values_mut() {
            if *read == sub_queue {
                selection.became_available(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;

    fn backlog(count: u64) -> Messages {
        let mut messages = Messages::default();
        (1..=count).for_each(|number| {
            messages.put(SequenceNumber(number), Record::new(Timestamp(0), None, 1));
        });
        messages
    }

    #[test]
    fn a_long_backlog_is_shown_once() {
        let mut messages = backlog(1000);
        let mut selection = Selection::default();
        let mut shown = Vec::new();
        loop {
            let numbers = selection.to_show(&messages, Timestamp(1));
            if numbers.is_empty() {
                break;
            }
            assert!(numbers.len() <= EXAMINED_COUNT_MAX);
            selection.show(&numbers, &messages);
            selection.examined(&[]);
            shown.extend(numbers);
        }
        assert_eq!(shown, (1..=1000).map(SequenceNumber).collect::<Vec<_>>());
        assert!(selection.is_dry(&messages));
        messages.put(SequenceNumber(1001), Record::new(Timestamp(0), None, 1));
        assert_eq!(selection.to_show(&messages, Timestamp(1)), [SequenceNumber(1001)]);
    }

    #[test]
    fn many_returned_messages_are_examined_from_the_first_on() {
        let messages = backlog(2 * AGAIN_MAX as u64);
        let mut selection = Selection { next: SequenceNumber(1_000_000), ..Selection::default() };
        for number in (2..=AGAIN_MAX as u64 + 2).rev() {
            selection.became_available(SequenceNumber(number));
        }
        assert!(selection.again.is_empty());
        let first = selection.to_show(&messages, Timestamp(1)).first().copied();
        assert_eq!((selection.next, first), (SequenceNumber(2), Some(SequenceNumber(2))));
    }

    #[test]
    fn a_batch_is_bounded_in_bytes() {
        let mut messages = Messages::default();
        for number in 1..=4 {
            messages.put(SequenceNumber(number), Record::new(Timestamp(0), None, 600_000));
        }
        assert_eq!(Selection::default().to_show(&messages, Timestamp(1)), [SequenceNumber(1)]);
    }
}
