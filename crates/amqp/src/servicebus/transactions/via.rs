//! Send via: a link that is attached to one entity and sends to another by way of it. Older clients of Service Bus and JMS
//! ask for it with a property of their attach; it holds with and without a transaction. What the destination does not take
//! goes to the transfer dead-letter queue of the entity in between.

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

/// Link property: the entity that messages are for.
const TRANSFER_DESTINATION: &str = "com.microsoft:transfer-destination-address";

/// A link on which messages come.
#[derive(Debug, Clone)]
pub(in crate::servicebus) struct Sender {
    /// Where messages go.
    pub(in crate::servicebus) entity: Arc<Entity>,
    pub(super) via: Option<Via>,
}

/// The entity by way of which messages go to another.
#[derive(Debug, Clone)]
pub(super) struct Via {
    pub(super) root: Arc<Root>,
    /// What the link is attached to, if the client asked for this way: outside transactions it holds as well.
    pub(super) asked: Option<Arc<Entity>>,
}

/// A link on which requests to a management node come.
#[derive(Debug, Clone)]
pub(in crate::servicebus) struct ManagementTarget {
    /// Whose node it is.
    pub(in crate::servicebus) entity: Arc<Entity>,
    /// Where scheduled messages go, if elsewhere.
    pub(in crate::servicebus) destination: Option<Arc<Sender>>,
}

impl Sender {
    /// A link attached to the entity on a session whose transactions go by way of `root`, if that is another one.
    pub(in crate::servicebus) fn new(entity: Arc<Entity>, root: Option<Arc<Root>>) -> Self {
        Self { entity, via: root.map(|root| Via { root, asked: None }) }
    }

    /// The top-level entity of its work in a transaction.
    pub(super) fn root(&self) -> &Arc<str> {
        self.via.as_ref().map_or(&self.entity.root, |via| &via.root.key)
    }

    /// The entity in between that the client asked for: it takes the right to send there as well.
    pub(in crate::servicebus) fn asked_via(&self) -> Option<&Arc<Entity>> {
        self.via.as_ref().and_then(|via| via.asked.as_ref())
    }
}

impl ConnectionHandler {
    /// The destination that an attach to `entity` names.
    ///
    /// # Errors
    /// Destinations that are no entity to which messages can be sent, that the peer may not send to, or where `entity` can't
    /// be on the way.
    pub(in crate::servicebus) fn transfer_destination(
        &self,
        attach: &Attach,
        entity: &Arc<Entity>,
    ) -> Result<Option<Sender>, Fault> {
        let Some(address) = destination(attach)? else { return Ok(None) };
        let send = Need::Right(Right::Send);
        self.authorization.permit(&entity.resource, send, &entity.uri)?;
        entity.check_takes()?;
        let Node::Entity(destination) = self.resolve(&address)? else {
            return Err(Fault::NotAllowed("Messages can only be transferred to a queue or topic."));
        };
        self.authorization.permit(&destination.resource, send, &destination.uri)?;
        destination.check_takes()?;
        let root = roots::find(&*self.entities, entity)
            .ok_or_else(|| Fault::EntityNotFound { uri: entity.uri.clone() })?;
        let via = Via { root, asked: Some(Arc::clone(entity)) };
        Ok(Some(Sender { entity: destination, via: Some(via) }))
    }

    /// Sends by way of another entity, outside any transaction: one step that stores the messages at their destination or
    /// in the transfer dead-letter queue.
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
        let tag = self.pending.insert(Pending::Send { delivery, bytes });
        step.commit(self.outbox.return_address(), u64::try_from(tag).unwrap_or(u64::MAX));
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
