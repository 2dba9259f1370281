//! Send via: a link that is attached to one entity and sends to another by way of it. Older clients of Service Bus and
//! JMS request it with a property of their attach; it applies with and without a transaction. Messages that the
//! destination refuses go to the transfer dead-letter queue of the entity in between.

use std::sync::Arc;

use peeklock_engine::{NewMessage, Right};
use smallvec::SmallVec;

use super::roots::{self, Root};
use crate::endpoint::IncomingId;
use crate::servicebus::authorization::Need;
use crate::servicebus::entities::Entity;
use crate::servicebus::pending::Pending;
use crate::servicebus::resolve::Node;
use crate::servicebus::{ConnectionHandler, Fault};
use crate::wire::performative::Attach;
use crate::wire::{Str, Value};

/// Link property: the destination of messages.
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";

/// A link on which messages are received.
#[derive(Debug, Clone)]
pub(in crate::servicebus) struct Sender {
    /// The destination of messages.
    pub(in crate::servicebus) entity: Arc<Entity>,
    pub(super) via: Option<Via>,
}

/// The entity by way of which messages are sent to another.
#[derive(Debug, Clone)]
pub(super) struct Via {
    pub(super) root: Arc<Root>,
    /// The entity that the link is attached to, if the client requested send via: it then applies outside transactions
    /// as well.
    pub(super) asked: Option<Arc<Entity>>,
}

/// A link on which requests to a management node are received.
#[derive(Debug, Clone)]
pub(in crate::servicebus) struct ManagementTarget {
    /// The entity of the node.
    pub(in crate::servicebus) entity: Arc<Entity>,
    /// The destination of scheduled messages, if it is another entity.
    pub(in crate::servicebus) destination: Option<Arc<Sender>>,
}

impl Sender {
    /// A link attached to the entity on a session whose transactions are sent by way of `root`, if that is another
    /// entity.
    pub(in crate::servicebus) fn new(entity: Arc<Entity>, root: Option<Arc<Root>>) -> Self {
        Self { entity, via: root.map(|root| Via { root, asked: None }) }
    }

    /// The top-level entity of its operations in a transaction.
    pub(super) fn root(&self) -> &Arc<str> {
        self.via.as_ref().map_or(&self.entity.root, |via| &via.root.key)
    }

    /// The entity in between if the client requested it: the right to send there is needed as well.
    pub(in crate::servicebus) fn requested_via(&self) -> Option<&Arc<Entity>> {
        self.via.as_ref().and_then(|via| via.asked.as_ref())
    }
}

impl ConnectionHandler {
    /// The destination that an attach to `entity` names.
    ///
    /// # Errors
    /// Destinations to which messages can't be sent or the peer may not send, or an `entity` that can't be in between.
    pub(in crate::servicebus) fn transfer_destination(
        &self,
        attach: &Attach,
        entity: &Arc<Entity>,
    ) -> Result<Option<Sender>, Fault> {
        let Some(address) = destination(attach)? else { return Ok(None) };
        let send = Need::Right(Right::Send);
        self.authorization.permit(&entity.resource, send, &entity.uri)?;
        entity.check_send_allowed()?;
        let Node::Entity(destination) = self.resolve(&address)? else {
            return Err(Fault::NotAllowed("Messages can only be transferred to a queue or topic."));
        };
        self.authorization.permit(&destination.resource, send, &destination.uri)?;
        destination.check_send_allowed()?;
        let root = roots::find(&*self.entities, entity)
            .ok_or_else(|| Fault::EntityNotFound { uri: entity.uri.clone() })?;
        let via = Via { root, asked: Some(Arc::clone(entity)) };
        Ok(Some(Sender { entity: destination, via: Some(via) }))
    }

    /// The sender for a message that arrives now: a requested destination is found by its name, so one that was deleted and
    /// created again gets messages (inferred). A missing one stays, and refuses them.
    pub(in crate::servicebus) fn with_present_destination(&self, sender: &Sender) -> Sender {
        let Sender { entity, via } = sender;
        let is_other = sender.requested_via().is_some()
            && self.entities.entity(&entity.address.name).is_some_and(|found| found.queue != entity.queue);
        let found = is_other.then(|| self.lookup(&entity.uri, entity.address.clone())).flatten();
        Sender { entity: found.unwrap_or_else(|| Arc::clone(entity)), via: via.clone() }
    }

    /// Sends by way of another entity, outside any transaction: one step that stores the messages at their destination
    /// or in the transfer dead-letter queue.
    pub(in crate::servicebus) fn send_via(
        &mut self,
        sender: &Sender,
        messages: SmallVec<[NewMessage; 1]>,
        delivery: Option<IncomingId>,
        bytes: usize,
    ) {
        let Some(via) = &sender.via else { return };
        let mut step = self.entities.begin_transaction();
        step.add_transfer(&via.root.place, &sender.entity.place(), messages);
        let tag = self.expect(Pending::Send { delivery, bytes });
        step.commit(self.outbox.return_address(), tag);
    }
}

/// The address in an attach's properties.
fn destination(attach: &Attach) -> Result<Option<Str>, Fault> {
    match attach.properties.iter().find(|(key, _)| &**key == TRANSFER_DESTINATION) {
        None | Some((_, Value::Null)) => Ok(None),
        Some((_, Value::String(address) | Value::Symbol(address))) => Ok(Some(address.clone())),
        Some(_) => Err(Fault::Argument(format!("{TRANSFER_DESTINATION} must be a string."))),
    }
}
