//! Duplicate detection in the model: the sent messages.

use super::{ENTITY, Model, Rule};
use crate::{EntityOptions, MessageKey, NewMessage, SequenceNumber};

/// An accepted message.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    key: Option<MessageKey>,
    session: Option<Box<str>>,
    at: u64,
    window_ms: u64,
    number: SequenceNumber,
}

impl Model {
    fn window_ms(&self) -> u64 {
        match &self.options {
            EntityOptions::Queue(queue) => queue.duplicate_detection_history_time_window_ms,
            EntityOptions::Topic(topic) => topic.duplicate_detection_history_time_window_ms,
        }
    }

    /// Removes messages that were accepted before the window.
    pub(super) fn forget(&mut self) {
        let (now, window_ms) = (self.turn.now, self.window_ms());
        let late = u64::from(self.turn.breaks(Rule::TheWindowEndsAtItsInstant));
        let at_once = self.turn.keeps(Rule::ANewWindowCountsAtOnce);
        self.remembered.retain(|one| one.at + if at_once { window_ms } else { one.window_ms } + late > now);
        if self.turn.breaks(Rule::WhatIsGoneIsRemembered) {
            let is_there = |number| self.queues[&ENTITY].messages.contains_key(&number);
            self.remembered.retain(|one| is_there(one.number.0));
        }
    }

    /// The number of the original if this message is a duplicate.
    pub(super) fn original_of(&self, new: &NewMessage) -> Option<SequenceNumber> {
        if new.message_key.is_none() && self.turn.keeps(Rule::NoIdIsLikeNoOther) {
            return None;
        }
        let any_case = |key: Option<MessageKey>| {
            key.map(|key| if key == MessageKey::of("A") { MessageKey::of("a") } else { key })
        };
        let same = |one: &&Remembered| {
            let exactly = self.turn.keeps(Rule::IdsMatchExactly);
            let same_id =
                one.key == new.message_key || (!exactly && any_case(one.key) == any_case(new.message_key));
            same_id && (one.session == new.session_id || self.turn.keeps(Rule::IdsAreOneForAllSessions))
        };
        self.remembered.iter().find(same).map(|one| one.number)
    }

    pub(super) fn remember(&mut self, new: &NewMessage, number: SequenceNumber) {
        if !self.options.requires_duplicate_detection() {
            return;
        }
        self.remembered.push(Remembered {
            key: new.message_key,
            session: new.session_id.clone(),
            at: self.turn.now,
            window_ms: self.window_ms(),
            number,
        });
    }

    pub(super) fn send_one(&mut self, new: &NewMessage, original: Option<SequenceNumber>) -> SequenceNumber {
        if let Some(number) = original.filter(|_| self.turn.keeps(Rule::ADuplicateIsDropped)) {
            if self.turn.breaks(Rule::ADuplicateDoesNotProlongTheWindow) {
                let now = self.turn.now;
                self.remembered.iter_mut().filter(|one| one.number == number).for_each(|one| one.at = now);
            }
            let unused = SequenceNumber(self.queues[&ENTITY].next_number);
            return if self.turn.keeps(Rule::ADuplicateGetsTheNumberOfItsOriginal) { number } else { unused };
        }
        let copies = self.messages().len();
        let number = self.store(new);
        let is_scheduled = new.scheduled_enqueue_time.is_some_and(|at| at.0 > self.turn.now);
        let was_wanted = self.messages().len() > copies;
        if (is_scheduled && self.turn.breaks(Rule::ScheduledMessagesAreRemembered))
            || (!was_wanted && self.turn.breaks(Rule::WhatNobodyWantsIsRemembered))
        {
            return number;
        }
        self.remember(new, number);
        if new.message_key.is_some() && self.options.requires_duplicate_detection() {
            self.topic_number_stored = self.queues[&ENTITY].next_number;
        }
        number
    }
}
