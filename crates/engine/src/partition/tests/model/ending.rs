//! How locks and stays end, in the model.

use std::sync::Arc;

use super::{Message, Model, Rule};
use crate::{DeadLetter, LockToken, MessageState, Properties, Refusal, Settlement, SubQueue, Timestamp};

impl Model {
    fn locked_by(&self, token: LockToken) -> Option<u64> {
        let locked = |message: &Message, _| message.lock.is_some_and(|lock| lock.token == token);
        self.numbers_where(locked).pop()
    }

    pub(super) fn settle(&mut self, token: LockToken, settlement: &Settlement) -> Result<(), Refusal> {
        let number = self.locked_by(token).ok_or(Refusal::MessageLockLost)?;
        let message = self.messages.get_mut(&number).unwrap();
        match settlement {
            Settlement::Complete => {
                self.messages.remove(&number);
            }
            Settlement::Abandon { modify } => {
                self.modify(number, modify);
                self.fail(number, self.keeps(Rule::AbandonCounts));
            }
            Settlement::Release => {
                let counts = self.broken == Some(Rule::ReleaseDoesNotCount);
                if message.view.state == MessageState::Deferred
                    && self.broken == Some(Rule::ReleasedDeferredStayDeferred)
                {
                    message.view.state = MessageState::Active;
                }
                self.unlock(number, counts, false);
            }
            Settlement::Defer { modify } => {
                message.lock = None;
                message.view.state = MessageState::Deferred;
                message.view.delivery_count += u32::from(self.broken != Some(Rule::DeferCounts));
                self.modify(number, modify);
            }
            Settlement::DeadLetter { why, modify } => {
                if message.view.sub_queue != SubQueue::Main
                    && self.broken != Some(Rule::DeadLettersCanNotBeDeadLettered)
                {
                    return Err(Refusal::AlreadyDeadLettered);
                }
                self.modify(number, modify);
                self.bury(number, Arc::clone(why));
            }
        }
        Ok(())
    }

    fn modify(&mut self, number: u64, modify: &Properties) {
        let merges = self.keeps(Rule::ModifiedPropertiesAreMerged);
        let view = &mut self.messages.get_mut(&number).unwrap().view;
        if modify.is_empty() {
            return;
        }
        let mut modified = view.modified.as_deref().cloned().filter(|_| merges).unwrap_or_default();
        for property in modify {
            match modified.iter_mut().find(|known| known.name == property.name) {
                Some(known) => known.value = property.value.clone(),
                None => modified.push(property.clone()),
            }
        }
        view.modified = Some(Arc::new(modified));
    }

    pub(super) fn fail(&mut self, number: u64, counts: bool) {
        self.unlock(number, counts, true);
    }

    /// Ends a lock: is it overdue, did it fail too often, or does it go back?
    fn unlock(&mut self, number: u64, counts: bool, failed: bool) {
        let maximum = self.options.max_delivery_count;
        let description = format!("Message could not be consumed after {maximum} delivery attempts.");
        let message = self.messages.get_mut(&number).unwrap();
        message.lock = None;
        message.view.delivery_count += u32::from(counts);
        let message = message.clone();
        let overdue = message.expires_at() <= self.now
            && self.keeps(Rule::EndOfLockExpires)
            && self.can_expire(&message);
        let limited =
            message.view.sub_queue == SubQueue::Main || !self.keeps(Rule::NoMaximumInTheDeadLetterQueue);
        let slack = u32::from(!self.keeps(Rule::TheNthFailureDeadLetters));
        let exhausted = failed && limited && message.view.delivery_count >= maximum + slack;
        let maximum_first = !self.keeps(Rule::ExpiryComesBeforeTheMaximum);
        if overdue && !(maximum_first && exhausted) {
            self.expire(number);
        } else if exhausted {
            self.bury(number, reason("MaxDeliveryCountExceeded", &description));
        }
    }

    fn can_expire(&self, message: &Message) -> bool {
        message.is_active_in(SubQueue::Main)
            || (message.view.state == MessageState::Deferred
                && message.view.sub_queue == SubQueue::Main
                && !self.keeps(Rule::DeferredNeverExpire))
            || (message.is_active_in(SubQueue::DeadLetter) && !self.keeps(Rule::DeadLettersNeverExpire))
    }

    pub(super) fn expire_overdue(&mut self) {
        let overdue = self.numbers_where(|message, now| {
            message.lock.is_none() && self.can_expire(message) && message.expires_at() <= now
        });
        for number in overdue {
            self.expire(number);
        }
    }

    fn expire(&mut self, number: u64) {
        if self.options.dead_lettering_on_message_expiration {
            self.bury(number, reason("TTLExpiredException", "The message expired and was dead lettered."));
        } else {
            self.messages.remove(&number);
        }
    }

    fn bury(&mut self, number: u64, why: Arc<DeadLetter>) {
        let message = self.messages.get_mut(&number).unwrap();
        message.lock = None;
        message.view.sub_queue = SubQueue::DeadLetter;
        message.view.state = MessageState::Active;
        message.view.dead_letter = Some(why);
    }

    pub(super) fn renew(&mut self, tokens: &[LockToken]) -> Result<Vec<Timestamp>, Refusal> {
        if tokens.is_empty() {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        let numbers: Option<Vec<u64>> = tokens.iter().map(|token| self.locked_by(*token)).collect();
        let numbers = numbers.ok_or(Refusal::MessageLockLost)?;
        let from_now = self.keeps(Rule::RenewalCountsFromNow);
        let renew = |number: &u64| {
            let lock = self.messages.get_mut(number).unwrap().lock.as_mut().unwrap();
            let start = if from_now { Timestamp(self.now) } else { lock.locked_until };
            lock.locked_until = start.plus_ms(self.options.lock_duration_ms);
            lock.locked_until
        };
        Ok(numbers.iter().map(renew).collect())
    }
}

fn reason(reason: &str, description: &str) -> Arc<DeadLetter> {
    Arc::new(DeadLetter { reason: Some(reason.into()), description: Some(description.into()) })
}
