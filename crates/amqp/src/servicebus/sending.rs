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

/// A complete delivery from the peer.
#[derive(Debug, Clone)]
pub(super) struct Transfer {
    /// The link on which it arrived.
    pub(super) link: LinkId,
    /// Its id, by which it is answered; `None` when it was sent settled.
    pub(super) delivery: Option<IncomingId>,
    pub(super) message_format: u32,
    /// Names the transaction that it belongs to, if any.
    pub(super) state: Option<Box<DeliveryState>>,
    pub(super) payload: Bytes,
}

impl Transfer {
    /// The transaction that it belongs to.
    pub(super) fn txn_id(&self) -> Option<&Bytes> {
        match self.state.as_deref() {
            Some(DeliveryState::Transactional { txn_id, .. }) => Some(txn_id),
            _ => None,
        }
    }
}

impl ConnectionHandler {
    /// Handles a complete delivery.
    pub(super) fn message(&mut self, transfer: &Transfer, connection: &mut Connection) {
        let Err(fault) = self.try_message(transfer, connection) else { return };
        // A sender of settled deliveries gets no outcome: it would continue and lose every message.
        if transfer.delivery.is_none() && fault == Fault::Throttled {
            let error = self.tracker().error(&fault);
            connection.detach(transfer.link, Some(error));
            self.detached(transfer.link);
        }
        self.refuse(transfer, &fault, connection);
    }

    fn try_message(&mut self, transfer: &Transfer, connection: &mut Connection) -> Result<(), Fault> {
        match self.links.get(&transfer.link) {
            Some(Link::Sender(sender)) => {
                let sender = self.with_present_destination(sender);
                self.watched.messages_in += 1;
                self.transfer(&sender, transfer, connection)
            }
            Some(Link::Relay { session }) => {
                let session = *session;
                self.watched.messages_in += 1;
                let sender = self.relay_target(session, transfer.message_format, &transfer.payload)?;
                self.transfer(&sender, transfer, connection)
            }
            Some(Link::CbsRequests { session }) => {
                let session = *session;
                self.cbs_request(session, transfer, connection)
            }
            Some(Link::ManagementRequests { session, target }) => {
                let (session, target) = (*session, target.clone());
                self.management_request(session, &target, transfer, connection)
            }
            Some(Link::Coordinator) => self.control(transfer, connection),
            // Only links that receive get messages, and those exist until they are detached.
            Some(
                Link::Responses { .. } | Link::Receiver(_) | Link::Browser(_) | Link::Subscription { .. },
            )
            | None => Err(Fault::Internal),
        }
    }

    /// Handles messages for an entity, in a transaction or not.
    fn transfer(
        &mut self,
        sender: &Sender,
        transfer: &Transfer,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let Some(txn_id) = transfer.txn_id() else { return self.send(sender, transfer) };
        let mut messages = SmallVec::new();
        let messages = self.read(&sender.entity, transfer, &mut messages).map(|()| messages);
        self.send_in_transaction(txn_id, sender, transfer, messages, connection);
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

    fn send(&mut self, sender: &Sender, transfer: &Transfer) -> Result<(), Fault> {
        let mut messages = SmallVec::new();
        self.read(&sender.entity, transfer, &mut messages)?;
        let (delivery, bytes) = (transfer.delivery, transfer.payload.len());
        if delivery.is_none() {
            self.request_started(bytes);
        }
        if sender.requested_via().is_some() {
            self.send_via(sender, messages, delivery, bytes);
        } else if let Some(delivery) = delivery {
            self.send_joined(&sender.entity, messages, delivery, bytes);
        } else {
            let partition = &sender.entity.partition;
            self.ask(partition, Command::Send { messages }, Pending::Send { delivery, bytes });
        }
        Ok(())
    }

    /// Reads the messages of a transfer, if it is valid and permitted, into a list: they are expensive to move.
    fn read(
        &mut self,
        entity: &Entity,
        transfer: &Transfer,
        messages: &mut SmallVec<[NewMessage; 1]>,
    ) -> Result<(), Fault> {
        let Transfer { message_format, ref payload, .. } = *transfer;
        check_size(entity, message_format, payload.len())?;
        let (random, blocks) = (&mut self.random, &mut self.copy_blocks);
        let next_id = &mut || random.random();
        read_transfer(message_format, payload, entity.wanted(), next_id, blocks, messages)?;
        self.check_rates(entity, messages.len())
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

    /// [`Self::reject`] for a delivery that may belong to a transaction, which can't be committed any more then.
    pub(super) fn refuse(&mut self, transfer: &Transfer, fault: &Fault, connection: &mut Connection) {
        let Some(txn_id) = transfer.txn_id() else {
            return self.reject(transfer.delivery, fault, connection);
        };
        self.fail_transaction(txn_id, fault);
        self.answer_transfer(txn_id, transfer.delivery, Err(fault.clone()), connection);
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
