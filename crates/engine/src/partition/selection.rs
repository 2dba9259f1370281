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

/// A receiver with a selector.
#[derive(Debug)]
struct Selecting {
    /// The sub-queue that it reads.
    sub_queue: SubQueue,
    selection: Selection,
    /// Whether it is among the marked ones.
    is_marked: bool,
}

impl Selecting {
    fn mark(&mut self, receiver: ReceiverId, marked: &mut Vec<ReceiverId>) {
        if !std::mem::replace(&mut self.is_marked, true) {
            marked.push(receiver);
        }
    }
}

/// All receivers with a selector of a queue or subscription. Those that a change concerns are marked: only they can have
/// something to deliver or to examine. So the cost of a change does not grow with the number of the others.
#[derive(Debug, Default)]
pub(super) struct Selections {
    receivers: BTreeMap<ReceiverId, Selecting>,
    marked: Vec<ReceiverId>,
}

impl Selections {
    /// Adds a receiver with a selector.
    pub(super) fn add(&mut self, receiver: ReceiverId, sub_queue: SubQueue) {
        let selection = Selection::default();
        self.receivers.entry(receiver).or_insert(Selecting { sub_queue, selection, is_marked: false });
        self.mark(receiver);
    }

    /// Whether a receiver has a selector.
    pub(super) fn has(&self, receiver: ReceiverId) -> bool {
        self.receivers.contains_key(&receiver)
    }

    /// Removes a receiver.
    pub(super) fn remove(&mut self, receiver: ReceiverId) {
        self.receivers.remove(&receiver);
    }

    /// The selection of a receiver, if it has a selector.
    pub(super) fn get(&self, receiver: ReceiverId) -> Option<&Selection> {
        self.receivers.get(&receiver).map(|selecting| &selecting.selection)
    }

    /// Marks a receiver, if it has a selector.
    pub(super) fn mark(&mut self, receiver: ReceiverId) {
        if let Some(selecting) = self.receivers.get_mut(&receiver) {
            selecting.mark(receiver, &mut self.marked);
        }
    }

    /// Takes the marked receivers, in no order; they are not marked any more.
    pub(super) fn take_marked(&mut self) -> Vec<ReceiverId> {
        for receiver in &self.marked {
            if let Some(selecting) = self.receivers.get_mut(receiver) {
                selecting.is_marked = false;
            }
        }
        std::mem::take(&mut self.marked)
    }

    /// Records that messages are under examination by the owner of a receiver.
    pub(super) fn show(&mut self, receiver: ReceiverId, numbers: &[SequenceNumber], messages: &Messages) {
        if let Some(selecting) = self.receivers.get_mut(&receiver) {
            selecting.selection.show(numbers, messages);
        }
    }

    /// Records the result of an examination.
    pub(super) fn examined(&mut self, receiver: ReceiverId, matching: &[SequenceNumber]) {
        if let Some(selecting) = self.receivers.get_mut(&receiver) {
            selecting.selection.examined(matching);
            selecting.mark(receiver, &mut self.marked);
        }
    }

    /// Records a delivery to a receiver.
    pub(super) fn delivered(&mut self, receiver: ReceiverId, number: SequenceNumber) {
        if let Some(selecting) = self.receivers.get_mut(&receiver) {
            selecting.selection.delivered(number);
        }
    }

    /// Records that a message was added to a sub-queue or unlocked there.
    pub(super) fn became_available(&mut self, sub_queue: SubQueue, number: SequenceNumber) {
        self.each(sub_queue, |selection| {
            selection.became_available(number);
            true
        });
    }

    /// Records that an available message was locked: it may have held back a later match.
    pub(super) fn locked(&mut self, sub_queue: SubQueue) {
        self.each(sub_queue, |selection| !selection.matching.is_empty());
    }

    /// Records that an available message was removed: if it had expired, it may have held back an examination.
    pub(super) fn removed(&mut self, sub_queue: SubQueue) {
        self.each(sub_queue, |_| true);
    }

    /// Changes the selections of a sub-queue, and marks the receivers for which `change` returns true.
    fn each(&mut self, sub_queue: SubQueue, change: impl Fn(&mut Selection) -> bool) {
        for (receiver, selecting) in &mut self.receivers {
            if selecting.sub_queue == sub_queue && change(&mut selecting.selection) {
                selecting.mark(*receiver, &mut self.marked);
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
    fn an_answer_concerns_its_receiver_and_a_message_all_of_its_sub_queue() {
        let mut selections = Selections::default();
        (1..=1000).for_each(|id| selections.add(ReceiverId(id), SubQueue::Main));
        selections.add(ReceiverId(1001), SubQueue::DeadLetter);
        assert_eq!(selections.take_marked().len(), 1001);
        selections.became_available(SubQueue::Main, SequenceNumber(1));
        selections.removed(SubQueue::Main);
        assert_eq!(selections.take_marked(), (1..=1000).map(ReceiverId).collect::<Vec<_>>());
        let messages = backlog(1);
        selections.show(ReceiverId(7), &[SequenceNumber(1)], &messages);
        selections.examined(ReceiverId(7), &[SequenceNumber(1)]);
        assert_eq!(selections.take_marked(), [ReceiverId(7)]);
        selections.locked(SubQueue::Main);
        assert_eq!(
            selections.take_marked(),
            [ReceiverId(7)],
            "it has a match that an earlier message held back"
        );
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
