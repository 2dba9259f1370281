//! Receiver links: credit to the engine, messages to the peer, dispositions back.

use std::iter;
use std::sync::Arc;

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Delivery, Lock, LockToken, ReceiverId, Refusal, Settlement, SubQueue};
use smallvec::SmallVec;

use super::delivery::DeliveryFormat;
use super::entities::Entity;
use super::errors::Fault;
use super::receiver::{Grant, Receiver, UNSETTLED_MAX, Window};
use super::settlement::{self, RequestedSettlement};
use super::{
    CLOSED_RECEIVERS_MAX, COMPLETIONS_MAX, Completions, ConnectionHandler, Link, Pending, lock_token,
};
use crate::endpoint::{Connection, DeliveryTag, LinkId, Outgoing, OutgoingId};
use crate::wire::performative::DeliveryState;

/// The settlement, or a new state, of consecutive deliveries of a link by the peer.
pub(super) struct Disposition {
    pub(super) link: LinkId,
    /// Id of the first delivery.
    pub(super) first: u32,
    /// The tags of all of them, in order.
    pub(super) tags: SmallVec<[DeliveryTag; 1]>,
    /// Whether the peer has settled them, so that it expects no answer.
    pub(super) settled: bool,
}

impl Disposition {
    /// The deliveries, in order.
    pub(super) fn ids(&self) -> impl Iterator<Item = OutgoingId> {
        let first = OutgoingId { link: self.link, delivery_id: self.first };
        first.onwards().take(self.tags.len())
    }
}

impl ConnectionHandler {
    pub(super) fn window(&self) -> Window {
        Window::share(self.receivers.len(), self.room_bytes)
    }

    pub(super) fn credit(&mut self, link: LinkId, limit: u64, drain: bool, connection: &mut Connection) {
        let id = match self.links.get(&link) {
            Some(Link::Receiver(id)) => *id,
            Some(Link::Browser(_)) => return self.credit_browser(link, limit, drain, connection),
            // A link for responses: those that exist are queued.
            Some(_) if drain => return self.answer_drain(link, connection),
            _ => return,
        };
        let window = self.window();
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        if let Some(grant) = receiver.set_credit(limit, drain, window) {
            self.grant(id, grant);
        }
    }

    pub(super) fn grant(&mut self, id: ReceiverId, Grant { limit, drain }: Grant) {
        if drain {
            self.request_started(0);
        }
        if let Some(receiver) = self.receivers.get(&id) {
            self.outbox.add(&receiver.entity.partition, None, Command::Credit { receiver: id, limit, drain });
        }
    }

    pub(super) fn deliver(&mut self, mut delivery: Box<Delivery>, connection: &mut Connection) {
        let received = &mut delivery.message;
        let Some(lock) = received.lock else { return };
        let withdraw_at = self.withdraw_at(lock);
        let Some(receiver) = self.receivers.get_mut(&delivery.receiver) else {
            return self.give_back(delivery.receiver, lock);
        };
        receiver.handed_over(lock.token, received.content.len(), withdraw_at);
        if receiver.deletes {
            // The peer gets no lock token.
            received.lock = None;
        } else {
            self.unsettled += 1;
        }
        if !receiver.listed {
            receiver.listed = true;
            self.busy.push(delivery.receiver);
        }
        let (link, settled) = (receiver.link, receiver.deletes);
        self.idle.used(link, self.now);
        let origin = receiver.entity.origin();
        let payload = self.encoder.encode(received, DeliveryFormat::Link, origin).unwrap_or_else(|error| {
            // The message was checked when it was sent; if it is unreadable now, its stored bytes are sent as they are.
            tracing::error!(sequence_number = received.view.sequence_number.0, %error, "stored message unreadable");
            SmallVec::from_iter([received.content.clone()])
        });
        // A message received and deleted has no lock token: azure-sdk-for-python, live test
        // `test_message_backcompat_receive_and_delete_databody`.
        let tag = (!settled).then(|| lock_token::to_tag(lock.token));
        connection.send(link, Outgoing { tag, settled, message_format: 0, payload });
        if self.unsettled > UNSETTLED_MAX {
            let error = self.tracker().error(&Fault::TooMuchUnsettled(UNSETTLED_MAX));
            connection.detach(link, Some(error));
            self.detached(link);
        }
    }

    /// Releases a message for a receiver that was closed in the meantime.
    fn give_back(&mut self, receiver: ReceiverId, lock: Lock) {
        let closed = self.closed_receivers.iter().find(|(closed, _)| *closed == receiver);
        if let Some(entity) = closed.map(|(_, entity)| Arc::clone(entity)) {
            self.release(&entity, SmallVec::from_iter([lock.token]));
        }
    }

    pub(super) fn drained(&mut self, id: ReceiverId, connection: &mut Connection) {
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let link = receiver.link;
        if receiver.drained() {
            self.answer_drain(link, connection);
        } else if !receiver.listed {
            receiver.listed = true;
            self.busy.push(id);
        }
        self.request_finished(0);
    }

    /// Removes a receiver and its outstanding deliveries.
    pub(super) fn remove_receiver(&mut self, id: ReceiverId) -> Option<Receiver> {
        let receiver = self.receivers.remove(&id)?;
        if let Some(session) = &receiver.session {
            let key = (receiver.entity.queue, Arc::clone(session));
            if self.sessions.get(&key) == Some(&id) {
                self.sessions.remove(&key);
            }
        }
        self.unsettled = self.unsettled.saturating_sub(receiver.unsettled);
        self.watched.messages_out = self.watched.messages_out.saturating_add(receiver.messages());
        for _ in 0..receiver.drains_in_flight() {
            self.request_finished(0);
        }
        Some(receiver)
    }

    /// Handles a receiver that its partition closed: lost session, deleted entity, restarted partition.
    pub(super) fn receiver_closed(&mut self, id: ReceiverId, refusal: Refusal, connection: &mut Connection) {
        // Earlier settlements of the peer come first.
        self.submit_completions();
        let window = self.window();
        let Some(mut receiver) = self.remove_receiver(id) else {
            return self.watcher_closed(id, refusal, connection);
        };
        self.links.remove(&receiver.link);
        self.holds.remove(&receiver.link);
        let (messages, _) = connection.transmitted(receiver.link);
        receiver.transmitted(messages, window);
        let is_session_lost = refusal == Refusal::SessionLockLost;
        let error = self.tracker().error(&receiver.entity.fault(refusal));
        connection.detach(receiver.link, Some(error));
        // Another receiver may have taken the session over, with the locks of all messages not yet sent.
        if is_session_lost {
            self.give_back_untransmitted(id, receiver);
        }
    }

    /// Closes a receiver whose link has ended. Locks of messages that the peer may have received stay until they
    /// expire, so that it can still settle over `$management`; messages never sent are released at once.
    pub(super) fn close_receiver(&mut self, id: ReceiverId) {
        let Some(receiver) = self.remove_receiver(id) else { return };
        self.tell(&receiver.entity.partition, Command::CloseReceiver { receiver: id });
        // The session's lock ends with its receiver, and all message locks under it.
        if receiver.entity.has_sessions() {
            return;
        }
        self.give_back_untransmitted(id, receiver);
    }

    /// Releases the messages that a closed receiver's link has not sent, including those still to arrive.
    fn give_back_untransmitted(&mut self, id: ReceiverId, receiver: Receiver) {
        let tokens: SmallVec<[LockToken; 1]> = receiver.untransmitted().collect();
        if !tokens.is_empty() {
            self.release(&receiver.entity, tokens);
        }
        if self.closed_receivers.len() >= CLOSED_RECEIVERS_MAX {
            self.closed_receivers.pop_front();
        }
        self.closed_receivers.push_back((id, receiver.entity));
    }

    pub(super) fn release(&mut self, entity: &Entity, tokens: SmallVec<[LockToken; 1]>) {
        let settlement = Settlement::Release;
        self.tell(&entity.partition, Command::Settle { queue: entity.queue, tokens, settlement });
    }

    pub(super) fn disposition(
        &mut self,
        disposition: Disposition,
        state: Option<DeliveryState>,
        connection: &mut Connection,
    ) {
        let Disposition { link, first, ref tags, settled } = disposition;
        let Some(Link::Receiver(id)) = self.links.get(&link) else { return };
        if settled {
            self.forget_unsettled(*id, tags.len());
        } else if matches!(state, Some(DeliveryState::Accepted)) {
            return self.complete(link, first, tags);
        }
        if self.transactions.have_no_deliveries() {
            return self.apply_disposition(disposition, state, connection);
        }
        let others = self.already_in_transactions(disposition, state.as_ref(), connection);
        // The last one gets the state itself, the others a copy.
        let states = iter::repeat_n(state, others.len());
        for (other, state) in others.into_iter().zip(states) {
            self.apply_disposition(other, state, connection);
        }
    }

    /// Handles a disposition of deliveries that are part of no transaction, or one that makes them part of another.
    fn apply_disposition(
        &mut self,
        disposition: Disposition,
        state: Option<DeliveryState>,
        connection: &mut Connection,
    ) {
        let Disposition { link, first, ref tags, settled } = disposition;
        let count = tags.len();
        self.submit_completions();
        if let Some(DeliveryState::Transactional { txn_id, outcome }) = state {
            let outcome = outcome.map(|outcome| *outcome);
            return self.settle_in_transaction(disposition, &txn_id, outcome, connection);
        }
        let requested = settlement::read(state, settled);
        let Some(Link::Receiver(id)) = self.links.get(&link) else { return };
        let Some(receiver) = self.receivers.get(id) else { return };
        let entity = Arc::clone(&receiver.entity);
        match requested {
            Ok(RequestedSettlement::Wait) => {}
            Ok(RequestedSettlement::Apply { settlement, reply }) => {
                let tokens = tags.iter().copied().map(lock_token::from_tag).collect();
                let command = Command::Settle { queue: entity.queue, tokens, settlement };
                if settled {
                    self.tell(&entity.partition, command);
                } else {
                    self.ask(&entity.partition, command, Pending::Settle { link, first, count, reply });
                }
            }
            Err(fault) if !settled => {
                let error = self.tracker().error(&fault);
                let reply = DeliveryState::Rejected(Some(error));
                self.settle_deliveries(OutgoingId { link, delivery_id: first }, count, &reply, connection);
            }
            Err(fault) => tracing::debug!(%fault, "settled disposition ignored"),
        }
    }

    /// Completes deliveries, joined with preceding ones: the SDKs send a frame for each.
    fn complete(&mut self, link: LinkId, first: u32, tags: &[DeliveryTag]) {
        let tokens = tags.iter().copied().map(lock_token::from_tag);
        if let Some(joined) = &mut self.completions
            && joined.link == link
            && joined.tokens.len() < COMPLETIONS_MAX
            && u32::try_from(joined.tokens.len()).is_ok_and(|count| joined.first.wrapping_add(count) == first)
        {
            // Usually one; `extend` prepares for many.
            tokens.for_each(|token| joined.tokens.push(token));
            return;
        }
        self.submit_completions();
        self.completions = Some(Completions { link, first, tokens: tokens.collect() });
    }

    /// Submits the joined completions.
    pub(super) fn submit_completions(&mut self) {
        let Some(Completions { link, first, tokens }) = self.completions.take() else { return };
        let Some(Link::Receiver(id)) = self.links.get(&link) else { return };
        let Some(receiver) = self.receivers.get(id) else { return };
        let partition = receiver.entity.partition.clone();
        let (count, reply) = (tokens.len(), DeliveryState::Accepted);
        let queue = receiver.entity.queue;
        let command = Command::Settle { queue, tokens, settlement: Settlement::Complete };
        self.ask(&partition, command, Pending::Settle { link, first, count, reply });
    }

    pub(super) fn settled(
        &mut self,
        link: LinkId,
        first: u32,
        count: usize,
        reply: &DeliveryState,
        response: Response,
        connection: &mut Connection,
    ) {
        let failures = match response {
            Response::Settled(failures) => failures,
            _ => return,
        };
        if failures.is_empty() {
            let first = OutgoingId { link, delivery_id: first };
            return self.settle_deliveries(first, count, reply, connection);
        }
        let receiver = match self.links.get(&link) {
            Some(Link::Receiver(id)) => self.receivers.get(id),
            _ => None,
        };
        let sub_queue = receiver.map_or(SubQueue::Main, |receiver| receiver.entity.address.sub_queue);
        let fault = |refusal: &Refusal| settlement::fault(refusal.clone(), sub_queue);
        let tracker = self.tracker();
        // The peer chooses how many deliveries one disposition covers, and all of them may fail.
        let found = |index: usize| failures.binary_search_by_key(&index, |failure| failure.index).ok();
        let state = |index: usize| match found(index).and_then(|place| failures.get(place)) {
            Some(failure) => DeliveryState::Rejected(Some(tracker.error(&fault(&failure.refusal)))),
            None => reply.clone(),
        };
        let first = OutgoingId { link, delivery_id: first };
        for (index, delivery) in first.onwards().take(count).enumerate() {
            self.settle_deliveries(delivery, 1, &state(index), connection);
        }
    }

    /// Settles consecutive deliveries, except those that the peer has settled meanwhile.
    pub(super) fn settle_deliveries(
        &mut self,
        first: OutgoingId,
        count: usize,
        state: &DeliveryState,
        connection: &mut Connection,
    ) {
        let settled = connection.settle_consecutive(first, count, state);
        if let Some(Link::Receiver(id)) = self.links.get(&first.link) {
            let id = *id;
            self.forget_unsettled(id, settled);
        }
    }

    fn forget_unsettled(&mut self, id: ReceiverId, count: usize) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            let count = count.min(receiver.unsettled);
            receiver.unsettled -= count;
            self.unsettled = self.unsettled.saturating_sub(count);
        }
    }

    /// Moves the windows of links that wrote something, and requests the removal of messages that can be sent next.
    pub(super) fn process_receivers(&mut self, connection: &mut Connection) {
        if self.busy.is_empty() {
            return;
        }
        let window = self.window();
        let mut busy = std::mem::take(&mut self.busy);
        busy.retain(|id| {
            let Some(receiver) = self.receivers.get_mut(id) else { return false };
            let (messages, _) = connection.transmitted(receiver.link);
            let grant = receiver.transmitted(messages, window);
            receiver.listed = receiver.needs_attention();
            let (listed, deletes) = (receiver.listed, receiver.deletes);
            if let Some(grant) = grant {
                self.grant(*id, grant);
            }
            self.withdraw_excess(*id, connection);
            if deletes {
                self.remove_next(*id, connection);
            }
            listed
        });
        self.busy = busy;
    }
}

/// A tag for browsed messages and responses, which need no settlement: any 16 bytes work (N and Java read a GUID).
pub(super) fn number_tag(number: u64) -> DeliveryTag {
    u128::from(number).to_be_bytes()
}
