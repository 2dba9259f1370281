//! The end of locks and the removal of messages, in the model.

use std::sync::Arc;

use super::message::Message;
use super::queue::Queue;
use super::{Rule, Turn, sql};
use crate::{DeadLetter, LockToken, MessageState, Properties, Refusal, Settlement, SubQueue, Timestamp};

const HEADER_BYTES_MAX: usize = 65_536;
/// A shorter header counts as empty.
const HEADER_BYTES_COUNTED_MIN: u32 = 4096;

impl Queue {
    fn locked_by(&self, token: LockToken) -> Option<u64> {
        self.numbers_where(|message| message.lock.is_some_and(|lock| lock.token == token)).pop()
    }

    /// The refusal for a lock that does not exist.
    fn lock_lost(&self, turn: &Turn) -> Refusal {
        if self.options.requires_session && turn.keeps(Rule::ALockInASessionIsLostWithIt) {
            Refusal::SessionLockLost
        } else {
            Refusal::MessageLockLost
        }
    }

    /// Message locks expire by themselves, except those of sessions.
    pub(super) fn end_locks(&mut self, turn: &Turn) {
        let grace = u64::from(turn.breaks(Rule::ALockEndsAtItsInstant));
        let lost = self.numbers_where(|message| {
            let ends = message.lock.is_some_and(|lock| lock.locked_until.0 + grace <= turn.now);
            ends && !self.is_in_session(message)
        });
        for number in lost {
            self.lose(turn, number, turn.keeps(Rule::LockEndCounts));
        }
    }

    pub(super) fn settle(
        &mut self,
        turn: &Turn,
        token: LockToken,
        settlement: &Settlement,
    ) -> Result<(), Refusal> {
        let number = self.locked_by(token).ok_or_else(|| self.lock_lost(turn))?;
        let message = self.messages.get_mut(&number).unwrap();
        let is_dead = message.view.sub_queue != SubQueue::Main;
        let (modify, why): (&[_], _) = match settlement {
            Settlement::Complete | Settlement::Release => (&[], None),
            Settlement::Abandon { modify }
            | Settlement::Postpone { modify, .. }
            | Settlement::Defer { modify } => (modify, None),
            Settlement::DeadLetter { why, modify } => (modify, Some(why)),
        };
        if why.is_some() && is_dead && turn.keeps(Rule::DeadLettersCanNotBeDeadLettered) {
            return Err(Refusal::AlreadyDeadLettered);
        }
        let merged = merge(turn, message, modify);
        if (why.is_some() || !modify.is_empty())
            && header_bytes(turn, message, &merged, why.map(|why| &**why)) > HEADER_BYTES_MAX
            && turn.keeps(Rule::ALargeHeaderDeadLetters)
        {
            if is_dead && turn.keeps(Rule::DeadLettersKeepTheirLockWhenTooLarge) {
                return Err(Refusal::InvalidArgument(String::new()));
            }
            let text = "The size quota for this stream has been exceeded.";
            self.bury(number, reason("HeaderSizeExceeded", text));
            return Ok(());
        }
        if !modify.is_empty() {
            message.view.modified = Some(Arc::new(merged));
        }
        match settlement {
            Settlement::Complete => {
                self.messages.remove(&number);
            }
            Settlement::Abandon { .. } => self.fail(turn, number, turn.keeps(Rule::AbandonCounts)),
            Settlement::Postpone { until, .. } => {
                self.fail(turn, number, turn.keeps(Rule::AbandonCounts));
                self.hold_back(turn, number, *until, is_dead);
            }
            Settlement::Release => {
                if turn.breaks(Rule::ReleasedDeferredStayDeferred) {
                    message.view.state = MessageState::Active;
                }
                self.unlock(turn, number, turn.breaks(Rule::ReleaseDoesNotCount), false);
            }
            Settlement::Defer { .. } => {
                message.lock = None;
                message.view.state = MessageState::Deferred;
                let counts = turn.keeps(Rule::DeferCounts) && counted(turn, message);
                message.view.delivery_count += u32::from(counts);
                if turn.keeps(Rule::TheLastDeferralDeadLetters) && self.is_exhausted(turn, number) {
                    self.exhaust(number);
                }
            }
            Settlement::DeadLetter { why, .. } => self.bury(number, Arc::clone(why)),
        }
        Ok(())
    }

    /// Unless it was moved, removed or deferred.
    fn hold_back(&mut self, turn: &Turn, number: u64, until: Timestamp, was_dead: bool) {
        let Some(message) = self.messages.get_mut(&number) else { return };
        let is_dead = message.view.sub_queue != SubQueue::Main;
        let is_active = message.view.state == MessageState::Active;
        if until.0 > turn.now && is_active && is_dead == was_dead && turn.keeps(Rule::APostponedMessageWaits)
        {
            message.held_until = Some(until.0);
        }
    }

    /// Makes messages available whose hold-back time has passed.
    pub(super) fn free_held_back(&mut self, turn: &Turn) {
        let grace = u64::from(turn.breaks(Rule::APostponedMessageComesAtItsInstant));
        for message in self.messages.values_mut() {
            message.held_until = message.held_until.filter(|until| *until + grace > turn.now);
        }
    }

    pub(super) fn fail(&mut self, turn: &Turn, number: u64, counts: bool) {
        self.unlock(turn, number, counts, true);
    }

    /// Ends an expired lock: a failed delivery, unless the message never reached its receiver.
    pub(super) fn lose(&mut self, turn: &Turn, number: u64, counts: bool) {
        if self.messages[&number].counts || turn.breaks(Rule::WhatNeverLeftDoesNotCount) {
            self.fail(turn, number, counts);
        } else {
            self.unlock(turn, number, false, false);
        }
    }

    /// Ends a lock: the message has expired, reached the maximum delivery count, or is available again.
    pub(super) fn unlock(&mut self, turn: &Turn, number: u64, counts: bool, failed: bool) {
        let message = self.messages.get_mut(&number).unwrap();
        message.lock = None;
        message.view.delivery_count += u32::from(counts && counted(turn, message));
        let message = message.clone();
        let overdue =
            message.is_over(turn.now) && turn.keeps(Rule::EndOfLockExpires) && can_expire(turn, &message);
        let exhausted = failed && self.is_exhausted(turn, number);
        let maximum_first = turn.breaks(Rule::ExpiryComesBeforeTheMaximum);
        if overdue && !(maximum_first && exhausted) {
            self.expire(number);
        } else if exhausted {
            self.exhaust(number);
        }
    }

    /// Whether the maximum delivery count is reached.
    fn is_exhausted(&self, turn: &Turn, number: u64) -> bool {
        let view = &self.messages[&number].view;
        let limited = view.sub_queue == SubQueue::Main || turn.breaks(Rule::NoMaximumInTheDeadLetterQueue);
        let slack = u32::from(turn.breaks(Rule::TheNthFailureDeadLetters));
        limited && view.delivery_count >= self.options.max_delivery_count + slack
    }

    fn exhaust(&mut self, number: u64) {
        let maximum = self.options.max_delivery_count;
        let description = format!("Message could not be consumed after {maximum} delivery attempts.");
        self.bury(number, reason("MaxDeliveryCountExceeded", &description));
    }

    pub(super) fn expire_overdue(&mut self, turn: &Turn) {
        let overdue = self.numbers_where(|message| {
            message.lock.is_none()
                && message.held_until.is_none()
                && can_expire(turn, message)
                && message.is_over(turn.now)
        });
        for number in overdue {
            self.expire(number);
        }
    }

    /// Ends those of the requested messages that have expired; they are not found any more.
    pub(super) fn expire_found(&mut self, turn: &Turn, found: &mut [Option<u64>]) {
        for number in found {
            if let Some(over) = number.take_if(|number| self.messages[number].is_over(turn.now)) {
                self.expire(over);
            }
        }
    }

    pub(super) fn expire(&mut self, number: u64) {
        if self.options.dead_lettering_on_message_expiration {
            self.bury(number, reason("TTLExpiredException", "The message expired and was dead lettered."));
        } else {
            self.messages.remove(&number);
        }
    }

    fn bury(&mut self, number: u64, why: Arc<DeadLetter>) {
        bury(self.messages.get_mut(&number).unwrap(), why);
    }

    pub(super) fn renew(&mut self, turn: &Turn, tokens: &[LockToken]) -> Result<Vec<Timestamp>, Refusal> {
        let mut numbers = Vec::new();
        for token in tokens {
            let number = self.locked_by(*token).ok_or_else(|| self.lock_lost(turn))?;
            if self.is_in_session(&self.messages[&number]) && turn.keeps(Rule::OnlySessionsRenewTheirLocks) {
                return Err(Refusal::InvalidArgument(String::new()));
            }
            numbers.push(number);
        }
        let from_now = turn.keeps(Rule::RenewalCountsFromNow);
        let renew = |number: &u64| {
            let lock = self.messages.get_mut(number).unwrap().lock.as_mut().unwrap();
            let start = if from_now { Timestamp(turn.now) } else { lock.locked_until };
            lock.locked_until = start.plus_ms(self.options.lock_duration_ms);
            lock.locked_until
        };
        Ok(numbers.iter().map(renew).collect())
    }
}

/// Whether failed deliveries are counted in the message's sub-queue.
fn counted(turn: &Turn, message: &Message) -> bool {
    message.view.sub_queue == SubQueue::Main || turn.breaks(Rule::DeadLettersKeepTheirCount)
}

fn can_expire(turn: &Turn, message: &Message) -> bool {
    message.is_active_in(SubQueue::Main)
        || (message.view.state == MessageState::Deferred
            && message.view.sub_queue == SubQueue::Main
            && turn.breaks(Rule::DeferredNeverExpire))
        || (message.is_active_in(SubQueue::DeadLetter) && turn.breaks(Rule::DeadLettersNeverExpire))
}

pub(super) fn bury(message: &mut Message, why: Arc<DeadLetter>) {
    message.lock = None;
    message.view.sub_queue = SubQueue::DeadLetter;
    message.view.state = MessageState::Active;
    message.view.dead_letter = Some(why);
}

/// A message's changed properties after a further change.
fn merge(turn: &Turn, message: &Message, modify: &[crate::Property]) -> Properties {
    let before = message.view.modified.as_deref().filter(|_| turn.keeps(Rule::ModifiedPropertiesAreMerged));
    let mut merged = before.cloned().unwrap_or_default();
    for property in modify {
        match merged.iter_mut().find(|known| known.name == property.name) {
            Some(known) => known.value = property.value.clone(),
            None => merged.push(property.clone()),
        }
    }
    merged
}

pub(super) fn header_bytes(
    turn: &Turn,
    message: &Message,
    modified: &Properties,
    why: Option<&DeadLetter>,
) -> usize {
    let counts =
        message.header_bytes >= HEADER_BYTES_COUNTED_MIN || turn.breaks(Rule::AShortHeaderCountsAsNone);
    let sent = if counts { message.header_bytes as usize } else { 0 };
    let changed: usize = modified.iter().map(|property| property.name.len() + property.value.len()).sum();
    let texts = why.into_iter().flat_map(|why| [&why.reason, &why.description]);
    let by_actions = message.view.changes.as_deref().map_or(0, sql::bytes);
    sent + changed + by_actions + texts.flatten().map(|text| text.len()).sum::<usize>()
}

pub(super) fn reason(reason: &str, description: &str) -> Arc<DeadLetter> {
    Arc::new(DeadLetter { reason: Some(reason.into()), description: Some(description.into()) })
}
