//! Senders.

use bytes::Bytes;
use peeklock_amqp::endpoint::{LinkId, OutgoingId};
use peeklock_wire::performative::{DeliveryState, Role, Target};

use super::connection::{Client, PATIENCE};
use super::links::{link, node};
use super::requests::outgoing;
use super::transactions::TransactionId;
use crate::ClientError;
use crate::error::answer;

/// A sent message without an outcome yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the message may be refused"]
pub struct Sending(OutgoingId);

impl Client {
    /// Attaches a sender to a queue or topic.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn sender(&mut self, entity: &str) -> Result<LinkId, ClientError> {
        self.authorize(entity).await?;
        let source = node(&format!("sender-{}", uuid::Uuid::new_v4()));
        let attach = link(Role::Sender, Some(source), Some(Target::Node(node(entity))));
        self.attach(self.session, attach).await
    }

    /// Queues an encoded message; [`Self::outcome`] waits for its outcome.
    ///
    /// # Errors
    /// The link has ended.
    pub fn send(
        &mut self,
        link: LinkId,
        message: Bytes,
        transaction: Option<&TransactionId>,
    ) -> Result<Sending, ClientError> {
        self.send_encoded(link, message, transaction)
    }

    pub(super) fn send_encoded(
        &mut self,
        link: LinkId,
        message: Bytes,
        transaction: Option<&TransactionId>,
    ) -> Result<Sending, ClientError> {
        let (number, _) = self.endpoint.transmitted(link);
        let outgoing = outgoing(message, number);
        let sent = match transaction {
            None => self.endpoint.send(link, outgoing),
            Some(transaction) => self.endpoint.send_with_state(link, outgoing, transaction.state(None)),
        };
        match (sent, &self.links.get(link).end) {
            (Some(id), _) => Ok(Sending(id)),
            (None, Some(end)) => Err(ClientError::Refused(end.clone())),
            (None, None) => Err(ClientError::Argument("the link is gone".to_owned())),
        }
    }

    /// Waits for the outcome of a message: accepted means that it is durable.
    ///
    /// # Errors
    /// A refusal of the broker.
    pub async fn outcome(&mut self, Sending(id): Sending) -> Result<(), ClientError> {
        self.state_of(id).await.and_then(accepted)
    }

    /// Waits for the state of a sent delivery.
    pub(super) async fn state_of(&mut self, id: OutgoingId) -> Result<Option<DeliveryState>, ClientError> {
        let state = self.until("waiting for the outcome of a message", PATIENCE, |client| {
            let link = client.links.get(id.link);
            match (link.outcomes.remove(&id.delivery_id), &link.end) {
                (Some(state), _) => Some(Ok(state)),
                (None, Some(end)) => Some(Err(ClientError::Refused(end.clone()))),
                (None, None) => None,
            }
        });
        state.await?
    }

    /// The delivery of a sent message.
    pub(super) fn id_of(Sending(id): Sending) -> OutgoingId {
        id
    }
}

/// Checks that an outcome, also in a transactional state, is acceptance.
pub(super) fn accepted(state: Option<DeliveryState>) -> Result<(), ClientError> {
    match state {
        Some(DeliveryState::Transactional { outcome, .. }) => match outcome.map(|outcome| *outcome) {
            Some(DeliveryState::Rejected(error)) => Err(ClientError::Refused(answer(error))),
            _ => Ok(()),
        },
        Some(DeliveryState::Rejected(error)) => Err(ClientError::Refused(answer(error))),
        Some(DeliveryState::Released) => Err(ClientError::refused("amqp:released", "the message came back")),
        Some(DeliveryState::Modified { .. }) => {
            Err(ClientError::refused("amqp:modified", "the message came back"))
        }
        _ => Ok(()),
    }
}
