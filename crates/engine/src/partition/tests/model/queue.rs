//! One queue or subscription of the model: its messages and receivers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::message::Message;
use super::selecting::Selected;
use super::session::{Session, Waiter};
use super::{Rule, Turn};
use crate::{
    CreditLimit, Effect, KeyPartition, Lock, LockToken, MessageState, MessageView, QueueId, QueueOptions,
    ReceiveMode, ReceiverId, ReceiverOptions, Refusal, SequenceNumber, SubQueue, Timestamp,
};

pub(super) type Taken = (MessageView, Option<Lock>);

#[derive(Debug, Clone)]
pub(super) struct Receiver {
    pub(super) options: ReceiverOptions,
    got: CreditLimit,
    limit: CreditLimit,
    draining: bool,
    /// Since when it waits to be served.
    since: u64,
    /// Its examination state, if it has a selector.
    pub(super) selected: Option<Selected>,
}

impl Receiver {
    pub(super) fn has_credit(&self) -> bool {
        self.got.messages < self.limit.messages
    }

    pub(super) fn is_ready(&self) -> bool {
        self.has_credit() && self.got.bytes < self.limit.bytes
    }
}

#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) id: QueueId,
    pub(super) options: QueueOptions,
    pub(super) next_number: u64,
    pub(super) messages: BTreeMap<u64, Message>,
    pub(super) receivers: BTreeMap<u64, Receiver>,
    pub(super) sessions: BTreeMap<Arc<str>, Session>,
    /// Receivers waiting for any session, in the order of arrival.
    pub(super) waiters: Vec<Waiter>,
    /// When a subscription was created.
    pub(super) created_at: u64,
    /// Time of the last use, and of the last use that survives a restart; zero if there was none.
    pub(super) used_at: u64,
    pub(super) used_at_stored: u64,
}

impl Queue {
    pub(super) fn new(id: QueueId, options: QueueOptions) -> Self {
        Self {
            id,
            options,
            next_number: 1,
            messages: BTreeMap::new(),
            receivers: BTreeMap::new(),
            sessions: BTreeMap::new(),
            waiters: Vec::new(),
            created_at: 0,
            used_at: 0,
            used_at_stored: 0,
        }
    }

    pub(super) fn numbers_where(&self, test: impl Fn(&Message) -> bool) -> Vec<u64> {
        self.messages.iter().filter(|(_, message)| test(message)).map(|(number, _)| *number).collect()
    }

    pub(super) fn effective(&self, turn: &Turn, asked: Option<u64>) -> Option<u64> {
        match (asked, self.options.default_message_time_to_live_ms) {
            (Some(asked), Some(_)) if turn.breaks(Rule::TheDefaultCaps) => Some(asked),
            (Some(asked), Some(default)) => Some(asked.min(default)),
            (asked, default) => asked.or(default),
        }
    }

    /// Adds a message with the next number.
    pub(super) fn add(&mut self, mut message: Message) -> SequenceNumber {
        let number = SequenceNumber(self.next_number);
        self.next_number += 1;
        message.view.queue = self.id;
        message.view.sequence_number = number;
        self.messages.insert(number.0, message);
        number
    }

    /// Scheduled messages that are due, in order of time.
    pub(super) fn due(&self, now: u64) -> Vec<u64> {
        let mut due = self.numbers_where(|message| message.scheduled_for.is_some_and(|at| at <= now));
        due.sort_by_key(|number| (self.messages[number].scheduled_for, *number));
        due
    }

    /// Makes a scheduled message available.
    pub(super) fn activate(&mut self, turn: &Turn, number: u64) {
        let mut message = self.messages.remove(&number).unwrap();
        let enqueued_at = message.view.enqueued_at.0;
        message.scheduled_for = None;
        message.view.state = MessageState::Active;
        let starts = if turn.keeps(Rule::LifeStartsAtActivation) { turn.now } else { enqueued_at };
        message.live(starts, self.effective(turn, message.view.time_to_live_ms));
        if turn.keeps(Rule::ActivationGivesANewNumber) {
            self.add(message);
        } else {
            self.messages.insert(number, message);
        }
    }

    pub(super) fn cancel(&mut self, turn: &Turn, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        check(numbers)?;
        let mut cancelled = Vec::new();
        for shown in numbers {
            let named = self.named(turn, *shown, Rule::CancellingTakesTheNumberThatWasShown);
            let named = named.filter(|number| self.messages[number].scheduled_for.is_some());
            let number = named.ok_or(Refusal::ScheduledNotFound(shown.0))?;
            if turn.breaks(Rule::CancellingIsAllOrNothing) {
                self.messages.remove(&number);
            }
            cancelled.push(number);
        }
        for number in cancelled {
            self.messages.remove(&number);
        }
        Ok(())
    }

    pub(super) fn open(&mut self, receiver: ReceiverId, options: ReceiverOptions) {
        let (got, limit) = (CreditLimit::default(), CreditLimit::default());
        let (draining, since, selected) = (false, 0, None);
        self.receivers.insert(receiver.0, Receiver { options, got, limit, draining, since, selected });
    }

    pub(super) fn set_credit(&mut self, turn: &mut Turn, id: ReceiverId, limit: CreditLimit, drain: bool) {
        let moment = turn.next_moment();
        if let Some(receiver) = self.receivers.get_mut(&id.0) {
            if !receiver.is_ready() {
                receiver.since = moment;
            }
            if receiver.draining {
                turn.effects.push(Effect::Drained { receiver: id });
            }
            (receiver.limit, receiver.draining) = (limit, drain);
        }
    }

    pub(super) fn receive_deferred(
        &mut self,
        turn: &Turn,
        numbers: &[SequenceNumber],
        options: ReceiverOptions,
        receiver: Option<ReceiverId>,
    ) -> Result<Vec<Taken>, Refusal> {
        let (sub_queue, mode) = (options.source.sub_queue, options.mode);
        let session = if self.options.requires_session && sub_queue == SubQueue::Main {
            Some(receiver.and_then(|one| self.held_by(one)).ok_or(Refusal::SessionLockLost)?)
        } else {
            None
        };
        let session = session.filter(|_| turn.keeps(Rule::DeferredBelongToTheirSession));
        let is_there = |message: &Message| {
            message.view.state == MessageState::Deferred
                && message.view.sub_queue == sub_queue
                && message.lock.is_none()
                && session.as_ref().is_none_or(|session| message.is_of(session))
        };
        let mut received = Vec::new();
        let mut found: Vec<Option<u64>> = numbers
            .iter()
            .map(|shown| self.named(turn, *shown, Rule::ReceivingTakesTheNumberThatWasShown))
            .map(|named| named.filter(|number| is_there(&self.messages[number])))
            .collect();
        if sub_queue == SubQueue::Main && turn.keeps(Rule::RequestedDeferredExpire) {
            self.expire_found(turn, &mut found);
        }
        let missing = numbers.iter().zip(&found).find(|(_, found)| found.is_none()).map(|(shown, _)| shown);
        for number in found.into_iter().flatten() {
            if missing.is_some() && turn.keeps(Rule::ReceivingDeferredIsAllOrNothing) {
                break;
            }
            if is_there(&self.messages[&number]) {
                received.push(self.hand_out(turn, number, mode));
            }
        }
        missing.map_or(Ok(received), |number| Err(Refusal::DeferredNotFound(number.0)))
    }

    pub(super) fn peek(
        &self,
        turn: &Turn,
        from: SequenceNumber,
        (count_max, bytes_max): (u32, usize),
        sub_queue: SubQueue,
        session: Option<&str>,
    ) -> Vec<Taken> {
        let session = session.filter(|_| turn.keeps(Rule::PeekingShowsOneSession));
        let wanted = self.messages.values().filter(|message| {
            message.view.sub_queue == sub_queue
                && if turn.keeps(Rule::BrowsingIsInOneOrder) {
                    message.view.sequence_number.0 >= from.0 % (1 << 48)
                } else {
                    message.view.shown_number() >= from
                }
                && session.is_none_or(|session| message.is_of(session))
        });
        let mut bytes = 0;
        let shown = wanted.enumerate().take_while(|(index, message)| {
            bytes += message.bytes;
            *index < count_max as usize && (*index == 0 || bytes <= bytes_max as u64)
        });
        shown.map(|(_, message)| (message.view.clone(), None)).collect()
    }

    /// Deletes the oldest available messages; with sessions, those of the receiver's session, or of all sessions without a
    /// holder.
    pub(super) fn delete_messages(
        &mut self,
        turn: &Turn,
        sub_queue: SubQueue,
        (count_max, until): (u32, Timestamp),
        receiver: Option<ReceiverId>,
    ) -> Result<u32, Refusal> {
        let in_sessions = self.options.requires_session && sub_queue == SubQueue::Main;
        let held = match receiver {
            Some(_) if !in_sessions => return Err(Refusal::SessionNotSupported),
            Some(receiver) => Some(self.held_by(receiver).ok_or(Refusal::SessionLockLost)?),
            None => None,
        };
        let grace = u64::from(turn.breaks(Rule::DeletingEndsAtItsInstant));
        let mut numbers = self.numbers_where(|message| {
            let is_there = message.view.sub_queue == sub_queue && message.scheduled_for.is_none();
            let is_free = message.lock.is_none() || turn.breaks(Rule::DeletingLeavesWhatIsLocked);
            let is_active =
                message.view.state == MessageState::Active || turn.breaks(Rule::DeletingLeavesWhatIsDeferred);
            let of_session = match &held {
                Some(session) => message.is_of(session) || turn.breaks(Rule::DeletingIsOfOneSession),
                None => self.session_end(message).is_none() || turn.breaks(Rule::DeletingLeavesHeldSessions),
            };
            let waits = message.held_until.is_some()
                || (in_sessions
                    && held.is_none()
                    && message.session().is_some_and(|id| self.first_in(&id).is_none()));
            is_there
                && is_free
                && is_active
                && !waits
                && of_session
                && message.view.enqueued_at.0 + grace <= until.0
        });
        if turn.breaks(Rule::TheOldestAreDeletedFirst) {
            numbers.reverse();
        }
        numbers.truncate(count_max as usize);
        numbers.iter().for_each(|number| drop(self.messages.remove(number)));
        Ok(u32::try_from(numbers.len()).unwrap())
    }

    pub(super) fn hand_out(&mut self, turn: &Turn, number: u64, mode: ReceiveMode) -> Taken {
        let view = self.messages[&number].view.clone();
        let token = turn.tokens.get(&(self.id.0, view.sequence_number)).copied().unwrap_or(LockToken(0));
        let session_end = self
            .session_end(&self.messages[&number])
            .filter(|_| turn.keeps(Rule::AMessageIsLockedWithItsSession));
        let locked_until = Timestamp(session_end.unwrap_or(turn.now + self.options.lock_duration_ms));
        let lock = Some(Lock { token, locked_until });
        let message = self.messages.get_mut(&number).unwrap();
        (message.lock, message.counts) = (lock, mode != ReceiveMode::ReceiveAndDelete);
        self.forget_verdicts(turn, number);
        (view, lock)
    }

    /// Whether a receiver has credit for a sub-queue.
    pub(super) fn is_listened_to(&self, sub_queue: SubQueue) -> bool {
        let here = |receiver: &&Receiver| receiver.options.source.sub_queue == sub_queue;
        self.receivers.values().filter(here).any(Receiver::has_credit)
    }

    /// Processes the queue after a command: expiry, deliveries, ends of drains.
    pub(super) fn look_after(&mut self, turn: &mut Turn) {
        if self.options.requires_session {
            self.process_sessions(turn);
        } else {
            if self.is_listened_to(SubQueue::Main) || turn.breaks(Rule::ExpiryNeedsAnActiveListener) {
                self.expire_overdue(turn);
            }
            self.serve(turn, SubQueue::Main);
        }
        for sub_queue in [SubQueue::DeadLetter, SubQueue::TransferDeadLetter] {
            self.serve(turn, sub_queue);
        }
        self.serve_selected(turn);
        self.finish_drains(turn);
    }

    /// Delivers the first message to the receiver that waits longest, as long as there are both.
    fn serve(&mut self, turn: &mut Turn, sub_queue: SubQueue) {
        loop {
            let turns = turn.keeps(Rule::ReceiversTakeTurns);
            let ready = self.receivers.iter().filter(|(_, receiver)| {
                let crossing = turn.keeps(Rule::TheCrossingMessageIsDelivered)
                    || receiver.got.bytes + 2 <= receiver.limit.bytes;
                let competes = receiver.selected.is_none() && receiver.options.source.sub_queue == sub_queue;
                competes && receiver.is_ready() && crossing
            });
            let next = ready.min_by_key(|(id, one)| (if turns { one.since } else { 0 }, **id));
            let Some(receiver) = next.map(|(id, _)| ReceiverId(*id)) else { return };
            let available = self.numbers_where(|message| message.is_available_in(sub_queue));
            let Some(number) = available.first().copied() else { return };
            self.deliver(turn, receiver, number);
        }
    }

    pub(super) fn deliver(&mut self, turn: &mut Turn, receiver: ReceiverId, number: u64) {
        let bytes = self.messages[&number].bytes;
        let (view, lock) = self.hand_out(turn, number, self.receivers[&receiver.0].options.mode);
        let served = self.receivers.get_mut(&receiver.0).unwrap();
        served.got.messages += 1;
        served.got.bytes += bytes;
        served.since = turn.next_moment();
        turn.effects.push(Effect::Deliver { receiver, view, lock, departing: None });
    }

    fn finish_drains(&mut self, turn: &mut Turn) {
        let mut receivers = std::mem::take(&mut self.receivers);
        for (id, receiver) in &mut receivers {
            let sub_queue = receiver.options.source.sub_queue;
            let dry = match &receiver.selected {
                Some(selected) => self.is_dry_for(sub_queue, selected),
                None => self.is_dry(ReceiverId(*id), sub_queue),
            };
            if receiver.draining && (dry || !receiver.is_ready()) {
                receiver.draining = false;
                if turn.keeps(Rule::ADrainVoidsCredit) {
                    receiver.limit.messages = receiver.got.messages;
                }
                turn.effects.push(Effect::Drained { receiver: ReceiverId(*id) });
            }
        }
        self.receivers = receivers;
    }

    /// Whether no message is left that a receiver could get.
    fn is_dry(&self, receiver: ReceiverId, sub_queue: SubQueue) -> bool {
        if self.waiters.iter().any(|waiter| waiter.receiver == receiver) {
            return false;
        }
        let session = self.held_by(receiver);
        if let Some(session) = &session {
            return self.first_in(session).is_none();
        }
        let mut available = self.messages.values().filter(|message| message.is_available_in(sub_queue));
        available.next().is_none()
    }

    /// Discards volatile state.
    pub(super) fn restart(&mut self, turn: &Turn) {
        self.receivers.clear();
        self.waiters.clear();
        for session in self.sessions.values_mut() {
            session.holder = None;
            if turn.breaks(Rule::SessionStatesSurviveARestart) {
                session.state = None;
            }
        }
        for message in self.messages.values_mut() {
            if turn.breaks(Rule::PartitionsSurviveARestart) {
                message.view.partition = KeyPartition::default();
            }
            message.lock = None;
            if turn.breaks(Rule::APostponementSurvivesARestart) {
                message.held_until = None;
            }
            if turn.breaks(Rule::ScheduledMessagesKeepTheirFacts) {
                message.rule_properties = None;
            }
            if turn.breaks(Rule::ChangesSurviveARestart) {
                message.view.changes = None;
            }
        }
        self.used_at = self.used_at_stored;
        if turn.breaks(Rule::ARestartIsNoUse) {
            self.used_at = 0;
        }
    }
}

/// Refuses an empty list, or one that contains a number twice.
pub(super) fn check(numbers: &[SequenceNumber]) -> Result<(), Refusal> {
    let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
    if numbers.is_empty() || distinct.len() < numbers.len() {
        return Err(Refusal::InvalidArgument(String::new()));
    }
    Ok(())
}
