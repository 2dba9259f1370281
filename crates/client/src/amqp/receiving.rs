//! Receivers, and settlement of their messages.

use std::time::Duration;

use bytes::Bytes;
use peeklock_amqp::endpoint::{IncomingId, LinkId};
use peeklock_wire::performative::{
    Attach, DeliveryState, Error, ReceiverSettleMode, Role, SenderSettleMode, Tag, Target,
};
use peeklock_wire::{Fields, Value};

use super::connection::{Client, PATIENCE};
use super::links::{link, node};
use super::sending::accepted;
use super::transactions::TransactionId;
use crate::{ClientError, Message};

/// How a receiver gets messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Locked until they are settled.
    PeekLock,
    /// Deleted before they are sent.
    ReceiveAndDelete,
}

/// A received message.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub(super) id: IncomingId,
    pub(super) tag: Tag,
    pub(super) is_settled: bool,
    /// The encoded message.
    pub payload: Bytes,
}

/// The outcome of a locked message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Processed: the message is deleted.
    Complete,
    /// Available again; counts as a failed delivery.
    Abandon,
    /// Available again; does not count as a delivery.
    Release,
    /// Deferred: can only be received by its sequence number.
    Defer,
    /// Moved to the dead-letter queue, with reason and description.
    DeadLetter(String, String),
}

impl Outcome {
    fn state(&self) -> DeliveryState {
        let modified = |delivery_failed, undeliverable_here| DeliveryState::Modified {
            delivery_failed,
            undeliverable_here,
            message_annotations: Fields::new(),
        };
        match self {
            Self::Complete => DeliveryState::Accepted,
            Self::Release => DeliveryState::Released,
            Self::Abandon => modified(true, false),
            Self::Defer => modified(true, true),
            Self::DeadLetter(reason, description) => DeliveryState::Rejected(Some(Error {
                condition: "com.microsoft:dead-letter".into(),
                description: None,
                info: vec![
                    ("DeadLetterReason".into(), Value::from(reason.as_str())),
                    ("DeadLetterErrorDescription".into(), Value::from(description.as_str())),
                ],
            })),
        }
    }
}

impl Delivery {
    /// The message.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn message(&self) -> Result<Message, ClientError> {
        Message::decode(&self.payload)
    }

    /// The delivery without its payload, for later settlement: a body may be large.
    #[must_use]
    pub fn without_payload(self) -> Self {
        Self { payload: Bytes::new(), ..self }
    }

    /// The lock token in the SDKs' form.
    #[must_use]
    pub fn lock_token(&self) -> Option<uuid::Uuid> {
        let tag: [u8; 16] = self.tag.as_slice().try_into().ok()?;
        // In the byte order of a .NET GUID.
        Some(uuid::Uuid::from_bytes_le(tag))
    }
}

/// The attach of a receiver.
pub(super) fn receiver_link(address: &str, mode: Mode) -> Attach {
    let target = Target::Node(node(&format!("receiver-{}", uuid::Uuid::new_v4())));
    let mut attach = link(Role::Receiver, Some(node(address)), Some(target));
    match mode {
        Mode::PeekLock => {
            attach.snd_settle_mode = SenderSettleMode::Unsettled;
            attach.rcv_settle_mode = ReceiverSettleMode::Second;
        }
        Mode::ReceiveAndDelete => attach.snd_settle_mode = SenderSettleMode::Settled,
    }
    attach
}

impl Client {
    /// Attaches a receiver to a queue, subscription or sub-queue, without credit yet.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn receiver(&mut self, address: &str, mode: Mode) -> Result<LinkId, ClientError> {
        self.authorize(address).await?;
        self.attach(self.session, receiver_link(address, mode)).await
    }

    /// Receives up to `most` messages: waits for the first up to `wait`, then takes those available. Fewer mean that no
    /// more are available at present, or that no more arrived in time.
    ///
    /// # Errors
    /// The link or the connection ends.
    pub async fn receive(
        &mut self,
        link: LinkId,
        most: u32,
        wait: Duration,
    ) -> Result<Vec<Delivery>, ClientError> {
        self.renew_tokens().await?;
        self.links.get(link).is_drained = false;
        if !wait.is_zero() {
            self.endpoint.set_credit(link, most, false);
            let came = self.until("waiting for a message", wait, |client| {
                let link = client.links.get(link);
                (!link.deliveries.is_empty() || link.end.is_some()).then_some(())
            });
            match came.await {
                Ok(()) | Err(ClientError::TimeOut(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let waiting = u32::try_from(self.links.get(link).deliveries.len()).unwrap_or(u32::MAX);
        self.drain(link, most.saturating_sub(waiting)).await?;
        Ok(self.links.get(link).deliveries.drain(..).collect())
    }

    /// Requests the available messages and waits until the broker reports the end of the drain.
    async fn drain(&mut self, link: LinkId, credit: u32) -> Result<(), ClientError> {
        self.links.get(link).is_drained = false;
        self.endpoint.set_credit(link, credit, true);
        let drained = self.until("waiting for the end of a drain", PATIENCE, |client| {
            let link = client.links.get(link);
            match &link.end {
                Some(end) => Some(Err(ClientError::Refused(end.clone()))),
                None => link.is_drained.then_some(Ok(())),
            }
        });
        drained.await?
    }

    /// Settles messages and waits until that is durable. All are tried; the first refusal is returned.
    ///
    /// # Errors
    /// A lock was lost, or another refusal.
    pub async fn settle(&mut self, deliveries: &[Delivery], outcome: &Outcome) -> Result<(), ClientError> {
        self.settle_as(deliveries, &outcome.state()).await
    }

    /// [`Self::settle`] in a transaction: takes effect with its commit.
    ///
    /// # Errors
    /// See [`Self::settle`].
    pub async fn settle_in(
        &mut self,
        deliveries: &[Delivery],
        outcome: &Outcome,
        transaction: &TransactionId,
    ) -> Result<(), ClientError> {
        self.settle_as(deliveries, &transaction.state(Some(outcome.state()))).await
    }

    async fn settle_as(&mut self, deliveries: &[Delivery], state: &DeliveryState) -> Result<(), ClientError> {
        for delivery in deliveries {
            self.endpoint.update_incoming(delivery.id, state.clone());
        }
        let mut first_refusal = Ok(());
        for delivery in deliveries {
            let answer = self.settlement(delivery.id).await?;
            let is_dead_letter = matches!(state, DeliveryState::Rejected(_));
            let checked = match answer {
                // The answer to dead-lettering has the outcome's own type, without an error.
                Some(DeliveryState::Rejected(None)) if is_dead_letter => Ok(()),
                Some(DeliveryState::Rejected(error)) => accepted(Some(DeliveryState::Rejected(error))),
                Some(state @ DeliveryState::Transactional { .. }) => accepted(Some(state)),
                _ => Ok(()),
            };
            if first_refusal.is_ok() {
                first_refusal = checked;
            }
        }
        first_refusal
    }

    async fn settlement(&mut self, id: IncomingId) -> Result<Option<DeliveryState>, ClientError> {
        let answered = self.until("waiting for a settlement", PATIENCE, |client| {
            let link = client.links.get(id.link);
            match (link.settled.remove(&id.delivery_id), &link.end) {
                (Some(state), _) => Some(Ok(state)),
                (None, Some(end)) => Some(Err(ClientError::Refused(end.clone()))),
                (None, None) => None,
            }
        });
        answered.await?
    }

    /// Drops deliveries whose settlement in a transaction is committed.
    pub fn forget(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.endpoint.settle_incoming(delivery.id, DeliveryState::Accepted);
        }
    }
}
