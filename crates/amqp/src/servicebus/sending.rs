//! Sender links: transfers become `Send` commands, answers become dispositions once the messages are durable.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, NewMessage, Refusal};
use rand::RngExt;
use smallvec::SmallVec;

use super::answer::BATCH_BYTES_MAX;
use super::entities::Entity;
use super::errors::Fault;
use super::submission::{BATCH_MESSAGE_FORMAT, read_transfer};
use super::transactions::Sender;
use super::{ConnectionHandler, Link, Pending};
use crate::endpoint::{Connection, IncomingId, LinkId};
use crate::wire::performative::DeliveryState;

impl ConnectionHandler {
    /// Handles a complete delivery; `delivery` is `None` when it was sent settled.
    pub(super) fn message(
        &mut self,
        link: LinkId,
        delivery: Option<IncomingId>,
        message_format: u32,
        state: Option<Box<DeliveryState>>,
        payload: Bytes,
        connection: &mut Connection,
    ) {
        let result = match self.links.get(&link) {
            Some(Link::Sender(sender)) => {
                let sender = sender.clone();
                self.watched.messages_in += 1;
                self.transfer(&sender, delivery, message_format, (state.as_deref(), &payload), connection)
            }
            Some(Link::Relay { session }) => {
                let session = *session;
                self.watched.messages_in += 1;
                self.relay_target(session, message_format, &payload).and_then(|sender| {
                    self.transfer(&sender, delivery, message_format, (state.as_deref(), &payload), connection)
                })
            }
            Some(Link::CbsRequests { session }) => {
                let session = *session;
                self.cbs_request(session, delivery, &payload, connection)
            }
            Some(Link::ManagementRequests { session, target }) => {
                let (session, target) = (*session, target.clone());
                let transfer = (delivery, state.as_deref());
                self.management_request(session, &target, transfer, &payload, connection)
            }
            Some(Link::Coordinator) => self.control(link, delivery, &payload, connection),
            // Only links that receive get messages, and those exist until they are detached.
            Some(
                Link::Responses { .. } | Link::Receiver(_) | Link::Browser(_) | Link::Subscription { .. },
            )
            | None => Err(Fault::Internal),
        };
        if let Err(fault) = result {
            // A sender of settled deliveries gets no outcome: it would continue and lose every message.
            if delivery.is_none() && fault == Fault::Throttled {
                let error = self.tracker().error(&fault);
                connection.detach(link, Some(error));
                self.detached(link);
            }
            self.refuse(delivery, state.as_deref(), &fault, connection);
        }
    }

    /// Handles messages for an entity, in a transaction or not.
    fn transfer(
        &mut self,
        sender: &Sender,
        delivery: Option<IncomingId>,
        message_format: u32,
        (state, payload): (Option<&DeliveryState>, &Bytes),
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let Some(DeliveryState::Transactional { txn_id, .. }) = state else {
            return self.send(sender, delivery, message_format, payload);
        };
        let messages = self.read(&sender.entity, message_format, payload);
        self.send_in_transaction(txn_id, sender, (delivery, payload.len()), messages, connection);
        Ok(())
    }

    /// Checks that the rates of connection, entity and identity allow this many messages now.
    ///
    /// # Errors
    /// [`Fault::Throttled`].
    pub(super) fn check_rates(&self, entity: &Entity, messages: usize) -> Result<(), Fault> {
        if self.bucket.is_none() && entity.buckets.is_empty() {
            return Ok(());
        }
        let now_ms = self.entities.now().0;
        let mut buckets = self.bucket.iter().chain(entity.buckets.iter().map(|bucket| &**bucket));
        if buckets.all(|bucket| bucket.take(now_ms, messages)) { Ok(()) } else { Err(Fault::Throttled) }
    }

    fn send(
        &mut self,
        sender: &Sender,
        delivery: Option<IncomingId>,
        message_format: u32,
        payload: &Bytes,
    ) -> Result<(), Fault> {
        let messages = self.read(&sender.entity, message_format, payload)?;
        let bytes = payload.len();
        if delivery.is_none() {
            self.request_started(bytes);
        }
        if sender.asked_via().is_some() {
            self.send_via(sender, messages, delivery, bytes);
        } else {
            let partition = &sender.entity.partition;
            self.ask(partition, Command::Send { messages }, Pending::Send { delivery, bytes });
        }
        Ok(())
    }

    /// The messages of a transfer, if it is valid and permitted.
    fn read(
        &mut self,
        entity: &Entity,
        message_format: u32,
        payload: &Bytes,
    ) -> Result<SmallVec<[NewMessage; 1]>, Fault> {
        check_size(entity, message_format, payload.len())?;
        let (random, blocks) = (&mut self.random, &mut self.copy_blocks);
        let messages =
            read_transfer(message_format, payload, entity.wanted(), &mut || random.random(), blocks)?;
        self.check_rates(entity, messages.len())?;
        Ok(messages)
    }

    pub(super) fn sent(
        &mut self,
        delivery: Option<IncomingId>,
        bytes: usize,
        response: Response,
        connection: &mut Connection,
    ) {
        let fault = match response {
            Response::Sent(Ok(_)) | Response::Done(Ok(())) => None,
            Response::Sent(Err(refusal)) | Response::Done(Err(refusal)) => Some(Fault::Refused(refusal)),
            _ => Some(Fault::Internal),
        };
        match (fault, delivery) {
            (None, Some(delivery)) => connection.settle_incoming(delivery, DeliveryState::Accepted),
            (Some(fault), Some(_)) => self.reject(delivery, &fault, connection),
            (fault, None) => {
                self.request_finished(bytes);
                if let Some(fault) = fault {
                    let fault = fault.to_string();
                    tracing::warn!(
                        fault = &*crate::wire::loggable(&fault),
                        "a message sent pre-settled was refused; its sender can't be notified"
                    );
                }
            }
        }
    }

    /// [`Self::reject`] for a delivery with this state: if it belongs to a transaction, that can't be committed any more.
    pub(super) fn refuse(
        &mut self,
        delivery: Option<IncomingId>,
        state: Option<&DeliveryState>,
        fault: &Fault,
        connection: &mut Connection,
    ) {
        let Some(DeliveryState::Transactional { txn_id, .. }) = state else {
            return self.reject(delivery, fault, connection);
        };
        self.fail_transaction(txn_id, fault);
        self.answer_transfer(txn_id, delivery, Err(fault.clone()), connection);
    }

    /// Answers a delivery with a rejection, never with another outcome: N treats any other as a rejection without a
    /// reason.
    pub(super) fn reject(
        &mut self,
        delivery: Option<IncomingId>,
        fault: &Fault,
        connection: &mut Connection,
    ) {
        let error = self.tracker().error(fault);
        if let Some(delivery) = delivery {
            connection.settle_incoming(delivery, DeliveryState::Rejected(Some(error)));
        }
    }
}

/// A batch is limited as a whole: clients fill batches up to the link's limit for them.
fn check_size(entity: &Entity, message_format: u32, size: usize) -> Result<(), Fault> {
    let limit_bytes = entity.max_message_size_bytes;
    let size_bytes = u64::try_from(size).unwrap_or(u64::MAX);
    if message_format == BATCH_MESSAGE_FORMAT && size_bytes > limit_bytes.min(BATCH_BYTES_MAX) {
        return Err(Fault::BatchTooLarge { size_bytes, limit_bytes: limit_bytes.min(BATCH_BYTES_MAX) });
    }
    if message_format == 0 && size_bytes > limit_bytes {
        return Err(Refusal::MessageTooLarge { size_bytes, limit_bytes }.into());
    }
    Ok(())
}
