//! A second opinion on what a queue does: the rules written down as plainly as possible, without regard to speed,
//! storage or the partition's own code. Each rule can be broken on purpose, to see that the comparison notices.

mod ending;
mod rule;

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::{
    BodyRef, Command, CreditLimit, Effect, Lock, LockToken, MessageState, MessageView, NewMessage,
    QueueOptions, ReceiveMode, ReceiverOptions, Refusal, Reply, RequestId, SequenceNumber, SettleFailure,
    SubQueue, Timestamp,
};

use super::rig::QUEUE;
pub(super) use rule::Rule;

#[derive(Debug, Clone)]
struct Message {
    view: MessageView,
    bytes: u64,
    scheduled_for: Option<u64>,
    lock: Option<Lock>,
}

impl Message {
    fn expires_at(&self) -> u64 {
        self.view.time_to_live_ms.map_or(u64::MAX, |ms| self.view.enqueued_at.0 + ms)
    }

    fn is_active_in(&self, sub_queue: SubQueue) -> bool {
        self.view.state == MessageState::Active && self.view.sub_queue == sub_queue
    }
}

#[derive(Debug)]
struct Receiver {
    options: ReceiverOptions,
    got: CreditLimit,
    limit: CreditLimit,
    draining: bool,
    /// Since when it waits to be served.
    since: u64,
}

impl Receiver {
    fn has_credit(&self) -> bool {
        self.got.messages < self.limit.messages
    }

    fn is_ready(&self) -> bool {
        self.has_credit() && self.got.bytes < self.limit.bytes
    }
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) options: QueueOptions,
    broken: Option<Rule>,
    now: u64,
    next_number: u64,
    messages: BTreeMap<u64, Message>,
    receivers: BTreeMap<u64, Receiver>,
    moment: u64,
    /// Names of locks about to be taken, learnt from the partition.
    tokens: Vec<LockToken>,
}

impl Model {
    pub(super) fn new(options: QueueOptions, broken: Option<Rule>) -> Self {
        Self {
            options,
            broken,
            now: 0,
            next_number: 1,
            messages: BTreeMap::new(),
            receivers: BTreeMap::new(),
            moment: 0,
            tokens: Vec::new(),
        }
    }

    /// What readers would see of all messages.
    pub(super) fn views(&self) -> Vec<MessageView> {
        self.messages.values().map(|message| message.view.clone()).collect()
    }

    pub(super) fn restart(&mut self) {
        self.receivers.clear();
        for message in self.messages.values_mut() {
            message.lock = None;
        }
    }

    /// What must come of a command. `tokens` are the names that the partition gave to new locks.
    pub(super) fn handle(&mut self, now: u64, command: Command, tokens: Vec<LockToken>) -> Vec<Effect> {
        self.now = now;
        self.tokens = tokens;
        self.tokens.reverse();
        self.let_time_pass();
        let mut effects = Vec::new();
        if let Some(reply) = self.carry_out(command) {
            effects.push(Effect::Reply { request: RequestId(1), reply });
        }
        if self
            .receivers
            .values()
            .any(|one| one.options.source.sub_queue == SubQueue::Main && one.has_credit())
            || !self.keeps(Rule::ExpiryNeedsAnActiveListener)
        {
            self.expire_overdue();
        }
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter, SubQueue::TransferDeadLetter] {
            self.serve(sub_queue, &mut effects);
        }
        self.finish_drains(&mut effects);
        effects
    }

    fn keeps(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    fn let_time_pass(&mut self) {
        let grace = u64::from(!self.keeps(Rule::ALockEndsAtItsInstant));
        let lost: Vec<u64> = self.numbers_where(|message, now| {
            message.lock.is_some_and(|lock| lock.locked_until.0 + grace <= now)
        });
        for number in lost {
            self.fail(number, self.keeps(Rule::LockEndCounts));
        }
        let mut due = self.numbers_where(|message, now| message.scheduled_for.is_some_and(|at| at <= now));
        due.sort_by_key(|number| (self.messages[number].scheduled_for, *number));
        for number in due {
            let mut message = self.messages.remove(&number).unwrap();
            message.scheduled_for = None;
            if self.keeps(Rule::ActivationGivesANewNumber) {
                message.view.sequence_number = SequenceNumber(self.next_number);
                self.next_number += 1;
            }
            if self.keeps(Rule::LifeStartsAtActivation) {
                message.view.enqueued_at = Timestamp(self.now);
            }
            message.view.state = MessageState::Active;
            message.view.time_to_live_ms = self.effective(message.view.time_to_live_ms);
            message.view.expires_at = Timestamp(message.expires_at());
            self.messages.insert(message.view.sequence_number.0, message);
        }
    }

    fn numbers_where(&self, test: impl Fn(&Message, u64) -> bool) -> Vec<u64> {
        let matching = self.messages.iter().filter(|(_, message)| test(message, self.now));
        matching.map(|(number, _)| *number).collect()
    }

    fn effective(&self, asked: Option<u64>) -> Option<u64> {
        match (asked, self.options.default_message_time_to_live_ms) {
            (Some(asked), Some(_)) if !self.keeps(Rule::TheDefaultCaps) => Some(asked),
            (Some(asked), Some(default)) => Some(asked.min(default)),
            (asked, default) => asked.or(default),
        }
    }

    fn carry_out(&mut self, command: Command) -> Option<Reply> {
        Some(match command {
            Command::Send { messages } => Reply::Sent(self.send(messages)),
            Command::CancelScheduled { numbers } => Reply::Done(self.cancel(&numbers)),
            Command::OpenReceiver { receiver, options, .. } => {
                Reply::Opened(self.open(receiver.0, options).map(|()| None))
            }
            Command::Credit { receiver, limit, drain } => {
                self.moment += 1;
                if let Some(receiver) = self.receivers.get_mut(&receiver.0) {
                    if !receiver.is_ready() {
                        receiver.since = self.moment;
                    }
                    (receiver.limit, receiver.draining) = (limit, drain);
                }
                return None;
            }
            Command::CloseReceiver { receiver } => {
                self.receivers.remove(&receiver.0);
                return None;
            }
            Command::Settle { tokens, settlement, .. } => {
                let mut failures = Vec::new();
                for (index, token) in tokens.into_iter().enumerate() {
                    if let Err(refusal) = self.settle(token, &settlement) {
                        failures.push(SettleFailure { index, refusal });
                    }
                }
                Reply::Settled(failures)
            }
            Command::RenewLocks { tokens, .. } => Reply::Renewed(self.renew(&tokens)),
            Command::ReceiveDeferred { numbers, source, mode, .. } => {
                Reply::Received(self.receive_deferred(&numbers, source.sub_queue, mode))
            }
            Command::Peek { from, count_max, bytes_max, source, .. } => {
                let mut bytes = 0;
                let wanted = self.messages.values().filter(|message| {
                    message.view.sub_queue == source.sub_queue && message.view.sequence_number >= from
                });
                let shown = wanted.enumerate().take_while(|(index, message)| {
                    bytes += message.bytes;
                    *index < count_max as usize && (*index == 0 || bytes <= bytes_max as u64)
                });
                Reply::Received(Ok(shown.map(|(_, message)| (message.view.clone(), None)).collect()))
            }
            Command::Tick => return None,
            other => panic!("{other:?} is no command of the model"),
        })
    }

    fn send(
        &mut self,
        messages: SmallVec<[NewMessage; 1]>,
    ) -> Result<SmallVec<[SequenceNumber; 1]>, Refusal> {
        if messages.is_empty() {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        let limit_bytes = self.options.max_message_size_bytes;
        if let Some(large) = messages.iter().find(|one| one.content.len() as u64 > limit_bytes) {
            return Err(Refusal::MessageTooLarge { size_bytes: large.content.len() as u64, limit_bytes });
        }
        let stored: u64 = self.messages.values().map(|message| message.bytes).sum();
        let sent: usize = messages.iter().map(|one| one.content.len()).sum();
        if stored + sent as u64 > self.options.max_size_bytes {
            return Err(Refusal::EntityFull { limit_bytes: self.options.max_size_bytes });
        }
        Ok(messages.into_iter().map(|one| self.store(&one)).collect())
    }

    fn store(&mut self, new: &NewMessage) -> SequenceNumber {
        let scheduled_for = new.scheduled_enqueue_time.map(|at| at.0).filter(|at| *at > self.now);
        let time_to_live_ms = self.effective(new.time_to_live_ms);
        let starts = scheduled_for.unwrap_or(self.now);
        let number = self.next_number;
        self.next_number += 1;
        let view = MessageView {
            queue: QUEUE,
            sequence_number: SequenceNumber(number),
            enqueued_at: Timestamp(self.now),
            expires_at: time_to_live_ms.map_or(Timestamp::NEVER, |ms| Timestamp(starts + ms)),
            time_to_live_ms,
            delivery_count: 0,
            state: if scheduled_for.is_some() { MessageState::Scheduled } else { MessageState::Active },
            sub_queue: SubQueue::Main,
            dead_letter: None,
            modified: None,
            body: BodyRef(number),
        };
        let bytes = new.content.len() as u64;
        self.messages.insert(number, Message { view, bytes, scheduled_for, lock: None });
        SequenceNumber(number)
    }

    fn cancel(&mut self, numbers: &[SequenceNumber]) -> Result<(), Refusal> {
        check(numbers)?;
        for number in numbers {
            if self.messages.get(&number.0).is_none_or(|message| message.scheduled_for.is_none()) {
                return Err(Refusal::MessageNotFound(number.0));
            }
            if !self.keeps(Rule::CancellingIsAllOrNothing) {
                self.messages.remove(&number.0);
            }
        }
        for number in numbers {
            self.messages.remove(&number.0);
        }
        Ok(())
    }

    fn open(&mut self, receiver: u64, options: ReceiverOptions) -> Result<(), Refusal> {
        if self.receivers.contains_key(&receiver) {
            return Err(Refusal::InvalidArgument(String::new()));
        }
        let (got, limit) = (CreditLimit::default(), CreditLimit::default());
        self.receivers.insert(receiver, Receiver { options, got, limit, draining: false, since: 0 });
        Ok(())
    }

    fn receive_deferred(
        &mut self,
        numbers: &[SequenceNumber],
        sub_queue: SubQueue,
        mode: ReceiveMode,
    ) -> Result<Vec<(MessageView, Option<Lock>)>, Refusal> {
        check(numbers)?;
        let mut received = Vec::new();
        let is_there = |message: &Message| {
            message.view.state == MessageState::Deferred
                && message.view.sub_queue == sub_queue
                && message.lock.is_none()
        };
        let missing = numbers.iter().find(|number| !self.messages.get(&number.0).is_some_and(is_there));
        for number in numbers {
            if missing.is_some() && self.keeps(Rule::ReceivingDeferredIsAllOrNothing) {
                break;
            }
            if Some(number) != missing && self.messages.get(&number.0).is_some_and(is_there) {
                received.push(self.hand_out(number.0, mode));
            }
        }
        missing.map_or(Ok(received), |number| Err(Refusal::MessageNotFound(number.0)))
    }

    fn hand_out(&mut self, number: u64, mode: ReceiveMode) -> (MessageView, Option<Lock>) {
        let view = self.messages[&number].view.clone();
        if mode == ReceiveMode::ReceiveAndDelete {
            self.messages.remove(&number);
            return (view, None);
        }
        let token = self.tokens.pop().unwrap_or(LockToken(0));
        let locked_until = Timestamp(self.now + self.options.lock_duration_ms);
        let lock = Some(Lock { token, locked_until });
        self.messages.get_mut(&number).unwrap().lock = lock;
        (view, lock)
    }

    /// As long as there is a message and a receiver for it: the first message to the one who waits longest.
    fn serve(&mut self, sub_queue: SubQueue, effects: &mut Vec<Effect>) {
        loop {
            let turns = self.keeps(Rule::ReceiversTakeTurns);
            let ready = self.receivers.iter().filter(|(_, receiver)| {
                let crossing = self.keeps(Rule::TheCrossingMessageIsDelivered)
                    || receiver.got.bytes + 2 <= receiver.limit.bytes;
                receiver.options.source.sub_queue == sub_queue && receiver.is_ready() && crossing
            });
            let next = ready.min_by_key(|(id, one)| (if turns { one.since } else { 0 }, **id));
            let Some((receiver, mode)) = next.map(|(id, one)| (*id, one.options.mode)) else { return };
            let available =
                self.numbers_where(|message, _| message.is_active_in(sub_queue) && message.lock.is_none());
            let Some(number) = available.first().copied() else { return };
            let bytes = self.messages[&number].bytes;
            let (view, lock) = self.hand_out(number, mode);
            self.moment += 1;
            let served = self.receivers.get_mut(&receiver).unwrap();
            served.got.messages += 1;
            served.got.bytes += bytes;
            served.since = self.moment;
            effects.push(Effect::Deliver { receiver: crate::ReceiverId(receiver), view, lock });
        }
    }

    fn finish_drains(&mut self, effects: &mut Vec<Effect>) {
        for (id, receiver) in &mut self.receivers {
            let sub_queue = receiver.options.source.sub_queue;
            let mut all = self.messages.values();
            let dry = !all.any(|message| message.is_active_in(sub_queue) && message.lock.is_none());
            if receiver.draining && (dry || !receiver.has_credit()) {
                receiver.draining = false;
                if self.broken != Some(Rule::ADrainVoidsCredit) {
                    receiver.limit.messages = receiver.got.messages;
                }
                effects.push(Effect::Drained { receiver: crate::ReceiverId(*id) });
            }
        }
    }
}

fn check(numbers: &[SequenceNumber]) -> Result<(), Refusal> {
    let distinct: std::collections::BTreeSet<_> = numbers.iter().collect();
    if numbers.is_empty() || distinct.len() < numbers.len() {
        return Err(Refusal::InvalidArgument(String::new()));
    }
    Ok(())
}
