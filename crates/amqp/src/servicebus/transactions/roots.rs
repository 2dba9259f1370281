//! The top-level entity to which the links of an AMQP session belong.
//!
//! Clients that allow transactions across entities put all links on one session and attach the coordinator first (.NET
//! and Java with cross-entity transactions enabled, JMS). The entity attached next is the session's root: messages to
//! other entities in a transaction are sent by way of it, and receiving from another entity is refused, as in Service
//! Bus. Other sessions may mix entities.

use std::collections::HashMap;
use std::sync::Arc;

use super::Place;
use crate::servicebus::entities::Entity;
use crate::servicebus::{ConnectionHandler, Fault};
use crate::wire::performative::Role;

/// Service Bus's own wording: clients show it to users, who search for it.
pub(super) const SPANS_ENTITIES: &str =
    "Local transactions cannot span multiple top-level entities such as queue or topic.";

/// The entity by way of which a session's transactions send to others.
#[derive(Debug, Clone)]
pub(in crate::servicebus) struct Root {
    /// See [`Entity::root`].
    pub(super) key: Arc<str>,
    /// For a subscription, the place of its topic.
    pub(super) place: Place,
}

/// How a session is used.
#[derive(Debug)]
enum Use {
    /// An entity's link was attached before any coordinator's.
    Plain,
    /// A coordinator's link was attached first.
    CrossEntity(Option<Arc<Root>>),
}

/// The AMQP sessions of a connection on which a link to an entity or coordinator was attached, by channel.
#[derive(Debug, Default)]
pub(super) struct Roots(HashMap<u16, Use>);

impl Roots {
    /// Records the attach of a coordinator's link.
    pub(super) fn coordinate(&mut self, session: u16) {
        self.0.entry(session).or_insert(Use::CrossEntity(None));
    }

    /// Removes an ended session.
    pub(super) fn end(&mut self, session: u16) {
        self.0.remove(&session);
    }
}

impl ConnectionHandler {
    /// Records the attach of a link to an entity, on which the peer has this role: returns the root by way of which its
    /// transactions are sent, if that is another entity.
    ///
    /// # Errors
    /// [`SPANS_ENTITIES`] for a link that receives from an entity other than the root's.
    pub(in crate::servicebus) fn enter_session(
        &mut self,
        session: u16,
        entity: &Entity,
        role: Role,
    ) -> Result<Option<Arc<Root>>, Fault> {
        let entered = self.transactions.roots.0.entry(session).or_insert(Use::Plain);
        match entered {
            Use::Plain => Ok(None),
            Use::CrossEntity(root @ None) => {
                *root = find(&*self.entities, entity);
                Ok(None)
            }
            Use::CrossEntity(Some(root)) if root.key == entity.root => Ok(None),
            Use::CrossEntity(Some(_)) if role == Role::Receiver => Err(Fault::NotAllowed(SPANS_ENTITIES)),
            Use::CrossEntity(Some(root)) => Ok(Some(Arc::clone(root))),
        }
    }
}

/// The top-level entity that an entity belongs to.
pub(super) fn find(entities: &dyn crate::servicebus::Entities, entity: &Entity) -> Option<Arc<Root>> {
    let found = entities.entity(&entity.address.name)?;
    let place = Place { partition: found.partition, queue: found.queue };
    Some(Arc::new(Root { key: Arc::clone(&entity.root), place }))
}
