//! Routes effects to their mailboxes.

use super::browse::Browse;
use super::commits::CommitNumber;
use super::lane::Ready;
use super::traces::Names;
use super::{Actor, OwnedPartition, PendingReply};
use crate::command::AnswerKind;
use crate::runtime::answer::Waiter;
use crate::runtime::catalogue::deletion::Ended;
use crate::runtime::{Output, Response};
use crate::{
    Command, Delivery, Effect, End, Lock, MessageView, QueueId, Received, ReceiverId, Refusal, Reply,
    RequestId, Settlement, ViewWithLock,
};

impl Actor {
    /// Routes an effect; it is sent at once if nothing holds it up.
    pub(super) fn route(&mut self, after: CommitNumber, effect: Effect) {
        match effect {
            Effect::Reply { request, reply } => self.route_reply(after, request, reply),
            Effect::Deliver { receiver, view, lock, departing } => {
                let after = self.delivery_after(after, &view, departing.is_some());
                let content = self.cache.get(view.body);
                let cold = content.is_none();
                let message = Received { view, content: content.unwrap_or_default(), lock };
                let delivery = Box::new(Delivery { receiver, message, departing, share: None });
                if cold {
                    self.lane.push_cold(after, delivery);
                } else if self.may_leave(after) {
                    self.deliver(delivery);
                } else {
                    self.lane.push(after, delivery);
                }
            }
            Effect::Examine { receiver, views } => self.route_examination(after, receiver, views),
            Effect::Drained { receiver } if self.may_leave(after) => self.drained(receiver),
            Effect::Drained { receiver } => self.lane.push_drained(after, receiver),
            Effect::ReceiverClosed { receiver, refusal } => self.notify_closed(receiver, refusal),
            Effect::Ended(end) => self.end(end),
        }
    }

    /// The commit that a delivery depends on, at most `latest`. A session's message depends on all earlier commits: after a
    /// power failure, an earlier message would otherwise be delivered behind it. A message on its way to another entity
    /// leaves in the order of commits.
    fn delivery_after(&self, latest: CommitNumber, view: &MessageView, is_departing: bool) -> CommitNumber {
        if is_departing || self.owned.partition.has_sessions(view.queue) {
            latest
        } else {
            self.commits.delivery_after(view.body)
        }
    }

    /// Whether a delivery may leave now, with none waiting before it.
    fn may_leave(&self, after: CommitNumber) -> bool {
        self.lane.is_empty()
            && after <= self.commits.durable()
            && !self.tenancy.is_away()
            && self.tenancy.delivers()
    }

    fn route_reply(&mut self, after: CommitNumber, request: RequestId, reply: Reply) {
        let slot = usize::try_from(request.0).ok();
        let Some(waiter) = slot.and_then(|slot| self.waiters.try_remove(slot)) else { return };
        match reply.without_messages() {
            Ok(response) => {
                if let (AnswerKind::Opened { receiver }, Response::Opened(Err(_))) = (waiter.kind, &response)
                {
                    self.receivers.remove(&receiver);
                }
                // Replies that became durable just now may still wait; this one must not overtake them.
                let is_durable = after <= self.commits.durable();
                if is_durable && self.replies.is_empty() && !self.tenancy.is_away() {
                    self.answer(&waiter, response);
                } else {
                    self.replies.push_back(PendingReply { after, is_proven: !is_durable, waiter, response });
                }
            }
            Err(views) => self.route_received(after, waiter, views),
        }
    }

    /// Queues messages for the owner of a receiver to examine, once their bodies are loaded.
    fn route_examination(&mut self, after: CommitNumber, receiver: ReceiverId, views: Vec<MessageView>) {
        let Some(mailbox) = self.receivers.get(&receiver).cloned() else { return };
        let waiter = Waiter { mailbox, tag: 0, kind: AnswerKind::Examination { receiver } };
        self.route_received(after, waiter, views.into_iter().map(|view| (view, None)).collect());
    }

    fn route_received(&mut self, after: CommitNumber, waiter: Waiter, views: Vec<ViewWithLock>) {
        let mut browse = Browse::new(waiter, Vec::with_capacity(views.len()), after);
        for (view, lock) in views {
            let content = self.cache.get(view.body);
            if content.is_none() {
                browse.awaiting.push_back(browse.messages.len());
            }
            browse.messages.push(Received { view, content: content.unwrap_or_default(), lock });
        }
        self.browses.push(browse);
    }

    /// Sends everything that depends only on durable commits, if the lease allows output.
    pub(super) fn release(&mut self) {
        let durable = self.note_durable();
        if !self.tenancy.check() || self.tenancy.is_away() {
            return self.send_outgoing();
        }
        while self.replies.front().is_some_and(|reply| reply.after <= durable) {
            if let Some(reply) = self.replies.pop_front() {
                self.answer(&reply.waiter, reply.response);
            }
        }
        while self.tenancy.delivers()
            && let Some(ready) = self.lane.pop(durable)
        {
            match ready {
                Ready::Delivery(delivery) => self.deliver(delivery),
                Ready::Unreadable(delivery, reason) => self.set_aside(&delivery, reason),
                Ready::Drained(receiver) => self.drained(receiver),
            }
        }
        while let Some(browse) = self.browses.pop(durable) {
            self.answer_browse(browse);
        }
        self.send_outgoing();
    }

    /// Sends the same before all waiting requests are refused. Without the right to send, only those replies are sent whose
    /// commit proves that the shard was ours: refused clients would repeat an operation that succeeded.
    pub(super) fn release_before_refusing(&mut self) {
        if self.tenancy.check() {
            // Held-back replies were valid when they were decided and still are.
            self.tenancy.output_released();
            return self.release();
        }
        let durable = self.note_durable();
        let is_proven = |reply: &mut PendingReply| reply.is_proven && reply.after <= durable;
        let proven =
            self.replies.iter_mut().position(|reply| !is_proven(reply)).unwrap_or(self.replies.len());
        for PendingReply { waiter, response, .. } in self.replies.drain(..proven) {
            self.outgoing.put(&waiter.mailbox, waiter.output(response));
        }
        while let Some(browse) = self.browses.pop_taken(durable) {
            self.answer_browse(browse);
        }
        self.send_outgoing();
    }

    fn answer(&mut self, waiter: &Waiter, response: Response) {
        self.outgoing.put(&waiter.mailbox, waiter.output(response));
    }

    /// Sends the collected outputs. Receivers whose mailbox is closed are closed, and the messages in their deliveries are
    /// released.
    fn send_outgoing(&mut self) {
        self.outgoing.send();
        for output in self.outgoing.take_undeliverable() {
            let Output::Delivery(delivery) = output else { continue };
            let receiver = delivery.receiver;
            if self.receivers.remove(&receiver).is_some() {
                self.internal.push_back(Command::CloseReceiver { receiver });
            }
            self.give_back(&delivery.message);
        }
    }

    /// Counts the durable commits and returns the number of the last one.
    fn note_durable(&mut self) -> CommitNumber {
        let durable = self.commits.durable();
        self.tallies.durable(durable);
        let OwnedPartition { name, partition, .. } = &self.owned;
        self.traces.durable(durable, Names { entity: name, partition });
        durable
    }

    /// Sends a message to its receiver; if the receiver is gone, the lock is released at once for other receivers.
    fn deliver(&mut self, delivery: Box<Delivery>) {
        let receiver = delivery.receiver;
        let Some(mailbox) = self.receivers.get(&receiver) else {
            self.give_back(&delivery.message);
            return;
        };
        if mailbox.is_full() {
            self.give_back(&delivery.message);
            return self.close_receiver(receiver, Refusal::MemoryShort);
        }
        self.tallies.delivered(self.now, &delivery);
        if delivery.departing.is_none() {
            let OwnedPartition { name, partition, .. } = &self.owned;
            self.traces.delivered(&delivery.message, Some(receiver), Names { entity: name, partition });
        }
        self.outgoing.put(mailbox, Output::Delivery(delivery));
    }

    pub(super) fn give_back(&mut self, message: &Received) {
        if let Some(lock) = message.lock {
            self.settle(message.view.queue, lock, Settlement::Release);
        }
    }

    fn settle(&mut self, queue: QueueId, lock: Lock, settlement: Settlement) {
        let tokens = std::iter::once(lock.token).collect();
        self.internal.push_back(Command::Settle { queue, tokens, settlement });
    }

    fn drained(&mut self, receiver: ReceiverId) {
        if let Some(mailbox) = self.receivers.get(&receiver) {
            self.outgoing.put(mailbox, Output::Drained { receiver });
        }
    }

    /// Reports that the partition has ended: the catalogue deletes its stored state and stops this actor.
    fn end(&self, end: End) {
        let mut subscriptions = self.owned.partition.subscription_ids();
        // What the store has of these is deleted with the entity if it refuses their own deletion.
        subscriptions.extend(self.commits.removed_subscriptions());
        // Without a catalogue, the namespace is about to be dropped.
        let _ = self.shared.ended.send(Ended { id: self.owned.id, subscriptions, end });
    }

    /// Notifies the owner of a receiver that the partition has already closed.
    fn notify_closed(&mut self, receiver: ReceiverId, refusal: Refusal) {
        if let Some(mailbox) = self.receivers.remove(&receiver) {
            self.outgoing.put(&mailbox, Output::ReceiverClosed { receiver, refusal });
        }
    }

    fn close_receiver(&mut self, receiver: ReceiverId, refusal: Refusal) {
        let Some(mailbox) = self.receivers.remove(&receiver) else { return };
        self.outgoing.put(&mailbox, Output::ReceiverClosed { receiver, refusal });
        self.internal.push_back(Command::CloseReceiver { receiver });
    }
}
