//! `Forward`, at the target, and what the source learns of it: `Departed`, `HoldForForwarder`, `Probe`.
//!
//! A forwarder is a receiver in [`ReceiveMode::Forward`]: it alone reads where messages go on, its locks have no end, and
//! it says by itself what became of each message.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::locks::Held;
use super::super::record::Record;
use super::super::step::{Step, TIMERS_PER_CALL_MAX};
use crate::event::{Event, Removal};
use crate::{
    Departing, Departure, Effect, Lock, LockToken, QueueId, QueuePath, ReceiveMode, ReceiverId,
    ReceiverOptions, Refusal, Reply, RequestId, SequenceNumber, SettleFailure, SubQueue, Timestamp, Transfer,
};

/// What whoever wants to receive from a forwarding queue is told (semantics §14.1).
const IS_FORWARDED: Refusal =
    Refusal::NotAllowed("Cannot create a receiver on an entity with auto-forwarding enabled.");

impl Step<'_> {
    /// Takes over what fits; the rest is refused by position.
    pub(in crate::partition) fn forward(&mut self, request: Option<RequestId>, messages: Vec<Transfer>) {
        let mut failures = Vec::new();
        for (index, Transfer { message, departure }) in messages.into_iter().enumerate() {
            let one: SmallVec<[_; 1]> = SmallVec::from_iter([message]);
            match self.take_in(one) {
                Ok(_) => self.emit(Event::Departed(Box::new(departure))),
                Err(refusal) => failures.push(SettleFailure { index, refusal }),
            }
        }
        self.reply(request, Reply::Forwarded(failures));
    }

    /// Forgets what other entities have taken over. What was read back from the store may know nothing of it already.
    pub(in crate::partition) fn departed(&mut self, messages: Vec<(LockToken, Departure)>) {
        for (token, departure) in messages {
            let QueuePath { queue, sub_queue } = departure.source;
            let number = departure.number;
            let Some(record) = self.state().record(queue, sub_queue, number).cloned() else {
                if departure.shared && self.state().queue(queue).is_none() {
                    // Its subscription was deleted before the trace was left there.
                    self.emit(Event::TraceErased { queue, number, body: None });
                }
                continue;
            };
            let removal = Removal::Forwarded { token, traced: departure.shared };
            self.remove(queue, number, sub_queue, &record, removal);
        }
    }

    pub(in crate::partition) fn hold_for_forwarder(&mut self, receiver: ReceiverId, source: QueuePath) {
        if self.state().queue(source.queue).is_some() {
            self.emit(Event::ForwarderHeld { receiver, source });
        }
    }

    pub(in crate::partition) fn probe(&mut self, queue: QueueId) {
        if self.state().queue(queue).is_some() {
            self.emit(Event::Probed { queue });
        }
    }

    /// Whether a receiver may be opened as far as forwarding goes; whoever forwards needs no session.
    pub(super) fn check_forwarding(&self, options: ReceiverOptions) -> Result<(), Refusal> {
        let queue = self.readable(options.source.queue)?;
        let sub_queue = options.source.sub_queue;
        if options.mode != ReceiveMode::Forward && queue.policy.forwards(sub_queue) {
            return Err(IS_FORWARDED);
        }
        // A forwarder that is about to go still has messages in hand: the next one must not meet them either.
        if queue.forwarders.get(sub_queue).is_some() { Err(Refusal::Unavailable) } else { Ok(()) }
    }

    /// Locks a message for a forwarder and hands it over.
    pub(in crate::partition) fn hand_over(
        &mut self,
        receiver: ReceiverId,
        queue: QueueId,
        number: SequenceNumber,
        record: &Record,
    ) {
        let (view, sub_queue) = (record.view(queue, number), record.sub_queue());
        let token = self.new_token();
        let until = Timestamp::NEVER;
        self.emit(Event::Locked {
            queue,
            number,
            sub_queue,
            token,
            until,
            receiver: Some(receiver),
            in_session: false,
        });
        let departure = Departure {
            source: QueuePath { queue, sub_queue },
            number,
            entity: self.state().entity.id,
            body: view.body,
            content_bytes: record.content_bytes(),
            shared: !self.state().is_last_reference(view.body),
        };
        let departing = Departing {
            departure,
            session_id: record.session_id().map(Arc::clone),
            header_bytes: record.extra().map_or(0, |extra| extra.header_bytes),
        };
        let lock = Some(Lock { token, locked_until: until });
        self.effect(Effect::Deliver { receiver, view, lock, departing: Some(Box::new(departing)) });
    }

    /// A forwarder goes: what it had in hand is available again, in one step, so that the order stays.
    pub(super) fn release_all_of_forwarder(&mut self, receiver: ReceiverId) {
        if !self.state().is_forwarder(receiver) {
            return;
        }
        let locks = self.state().locks.endless();
        let here: Vec<LockToken> = locks
            .filter(|(_, held)| self.is_held_by_forwarder(receiver, held))
            .map(|(token, _)| token)
            .collect();
        for token in here {
            self.emit(Event::Released { token });
        }
    }

    fn is_held_by_forwarder(&self, receiver: ReceiverId, held: &Held) -> bool {
        let queue = self.state().queue(held.queue);
        queue.is_some_and(|queue| *queue.forwarders.get(held.sub_queue) == Some(receiver))
    }

    /// Closes receivers of what is forwarded from now on.
    pub(in crate::partition) fn detach_receivers(&mut self, id: QueueId) {
        let Some(queue) = self.state().queue(id).filter(|queue| queue.policy.is_forwarding()) else { return };
        if queue.policy.forwards(SubQueue::Main) {
            self.refuse_session_waiters(id, &IS_FORWARDED);
        }
        let Some(queue) = self.state().queue(id) else { return };
        for receiver in queue.receivers.others_than_forwarders(|sub_queue| queue.policy.forwards(sub_queue)) {
            self.leave_session(receiver);
            self.emit(Event::ReceiverClosed { receiver });
            self.effect(Effect::ReceiverClosed { receiver, refusal: IS_FORWARDED });
        }
    }

    /// Removes what a crash has left of messages that went elsewhere.
    pub(in crate::partition) fn erase_traces(&mut self) {
        for _ in 0..TIMERS_PER_CALL_MAX {
            let Some(((queue, number), (body, _))) = self.state().traces.first_key_value() else { return };
            let (queue, number, body) = (*queue, *number, *body);
            let body = Some(body).filter(|body| self.state().is_last_reference(*body));
            self.emit(Event::TraceErased { queue, number, body });
        }
    }
}
