//! Forwarding in a queue: the only receiver of its messages is the forwarder, in [`ReceiveMode::Forward`]. Its locks do not
//! end; it settles them in a joint step with the target.

use std::sync::Arc;

use super::super::locks::LockedMessage;
use super::super::record::Record;
use super::super::step::{Step, TIMERS_PER_CALL_MAX};
use crate::event::Event;
use crate::{
    Departing, Effect, Lock, LockToken, QueueId, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions,
    Refusal, SequenceNumber, SubQueue, Timestamp,
};

/// The refusal of a receiver on a forwarding queue (semantics §14.1).
const IS_FORWARDED: Refusal =
    Refusal::NotAllowed("Cannot create a receiver on an entity with auto-forwarding enabled.");

impl Step<'_> {
    /// Checks whether forwarding allows a receiver to be opened; forwarders need no session.
    pub(super) fn check_forwarding(&self, options: ReceiverOptions) -> Result<(), Refusal> {
        let queue = self.readable(options.source)?;
        let sub_queue = options.source.sub_queue;
        if options.mode != ReceiveMode::Forward && queue.policy.forwards(sub_queue) {
            return Err(IS_FORWARDED);
        }
        // A forwarder that is about to end still holds messages: the next one must not start before these are released.
        if queue.forwarders.get(sub_queue).is_some() { Err(Refusal::Unavailable) } else { Ok(()) }
    }

    /// Locks a message for a forwarder and delivers it.
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
            counts: false,
        });
        let departing = Departing {
            source: QueuePath { queue, sub_queue },
            is_copy: queue != self.state().entity.id,
            content_bytes: record.content_bytes(),
            session_id: record.session_id().map(|id| Arc::clone(id.text())),
            header_bytes: record.extra().map_or(0, |extra| extra.header_bytes),
        };
        let lock = Some(Lock { token, locked_until: until });
        self.effect(Effect::Deliver { receiver, view, lock, departing: Some(Box::new(departing)) });
    }

    /// Releases all messages of a forwarder that ends, in one step, so that the order stays.
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

    fn is_held_by_forwarder(&self, receiver: ReceiverId, held: &LockedMessage) -> bool {
        let queue = self.state().queue(held.queue);
        queue.is_some_and(|queue| *queue.forwarders.get(held.sub_queue) == Some(receiver))
    }

    /// Closes receivers of queues that forward from now on.
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

    /// Removes tombstones of forwarded messages that a crash of an earlier version left behind.
    pub(in crate::partition) fn remove_tombstones(&mut self) {
        for _ in 0..TIMERS_PER_CALL_MAX {
            let Some(((queue, number), (body, _))) = self.state().tombstones.first_key_value() else {
                return;
            };
            let (queue, number, body) = (*queue, *number, *body);
            let body = Some(body).filter(|body| self.state().is_last_reference(*body));
            self.emit(Event::TombstoneRemoved { queue, number, body });
        }
    }
}
