//! Resolves addresses to nodes.

use std::sync::Arc;

use peeklock_access::{EntityNode, ResolvedNode, Resource};
use peeklock_budget::throttle::Bucket;
use peeklock_engine::{Right, SubQueue};

use super::ConnectionHandler;
use super::authorization::{Need, excerpt};
use super::entities::{Entity, Kind};
use super::errors::Fault;

/// A resolved node.
pub(super) enum Node {
    Cbs,
    Management(Arc<Entity>),
    Entity(Arc<Entity>),
}

impl ConnectionHandler {
    /// Resolves an address.
    pub(super) fn resolve(&self, written: &str) -> Result<Node, Fault> {
        let entity = match ResolvedNode::of(written) {
            Ok(ResolvedNode::Cbs) => return Ok(Node::Cbs),
            Ok(ResolvedNode::Entity(address)) => self.lookup(written, address),
            _ => None,
        };
        match entity {
            Some(entity) if entity.address.management => Ok(Node::Management(entity)),
            Some(entity) => Ok(Node::Entity(entity)),
            None => Err(self.not_found(written)),
        }
    }

    /// Finds the entity of an address; `written` is the address as the peer wrote it.
    pub(super) fn lookup(&self, written: &str, address: EntityNode) -> Option<Arc<Entity>> {
        let uri = self.uri(written);
        let mut entity = match &address.subscription {
            Some(name) => {
                let found = self.entities.subscription(&address.name, name)?;
                Entity::subscription(address, uri, found)
            }
            None => {
                let found = self.entities.entity(&address.name)?;
                Entity::new(address, uri, found)
            }
        };
        entity.buckets = self.buckets(&entity);
        // The dead letters of a topic's messages are those of its subscriptions.
        let exists = entity.kind != Kind::Topic || entity.address.sub_queue != SubQueue::DeadLetter;
        exists.then(|| Arc::new(entity))
    }

    /// The rate limits for an entity on this connection.
    fn buckets(&self, entity: &Entity) -> Vec<Arc<Bucket>> {
        let throttles = &self.throttles;
        let identity = throttles
            .limits_identities()
            .then(|| self.authorization.principal(&entity.resource, Right::Send))
            .flatten()
            .and_then(|principal| throttles.identity(principal));
        throttles.entity(&entity.address.name).into_iter().chain(identity).collect()
    }

    /// The error for a missing entity: whether a name exists is reported only to authorized peers.
    pub(super) fn not_found(&self, written: &str) -> Fault {
        let (uri, resource) = (self.uri(written), Resource::of(written).unwrap_or_default());
        match self.authorization.permit(&resource, Need::Any, &uri) {
            Ok(()) => Fault::EntityNotFound { uri },
            Err(fault) => fault,
        }
    }

    /// An address for error texts: a URL with Service Bus's scheme, whatever the client's.
    pub(super) fn uri(&self, written: &str) -> String {
        let written = excerpt(written);
        match written.split_once("://") {
            Some((_, rest)) => format!("sb://{rest}"),
            None => format!("sb://{}/{}", self.hostname, written.trim_start_matches('/')),
        }
    }
}
