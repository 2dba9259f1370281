//! Things that exist as long as a link: a temporary entity, or a consumer of a subscription.

use peeklock_engine::Refusal;
use peeklock_engine::runtime::Response;

use super::authorization::Need;
use super::entities::{Entity, Hold, Kind};
use super::errors::Fault;
use super::kept_attach::KeptAttach;
use super::resolve::Node;
use super::selector_filter::SelectorFilter;
use super::{ConnectionHandler, Pending};
use crate::endpoint::{Connection, LinkId};
use crate::wire::Str;
use crate::wire::performative::{Attach, Role, Target};

/// Temporary entities and consumers of clients' subscriptions that one connection may have.
pub(super) const HOLDS_MAX: usize = 1_000;

/// Keeps a link's temporary entity or subscription in existence until it is dropped.
pub(super) struct Held {
    /// The path of the created entity, as used for authorization; `None` until it exists.
    path: Option<Box<str>>,
    /// Source fields that are in effect on this link in addition to the usual ones.
    confirmed: Option<Confirmed>,
    _hold: Hold,
}

/// Source fields in effect on a consumer of a client's subscription.
pub(super) struct Confirmed {
    pub(super) durable: u32,
    pub(super) expiry_policy: Option<Str>,
    pub(super) capabilities: Vec<Str>,
    pub(super) selector: Option<SelectorFilter>,
}

/// An attach that waits until the requested entity is created.
pub(super) struct Creating {
    pub(super) session: u16,
    pub(super) attach: KeptAttach,
    /// The address of the entity to create.
    pub(super) address: String,
    /// The error if the entity does not exist: the client may not create it.
    pub(super) missing: Option<Fault>,
}

impl Held {
    /// Writes the fields in effect into the answer to the attach.
    pub(super) fn confirm(&self, reply: &mut Attach) {
        let Some(Confirmed { durable, expiry_policy, capabilities, selector }) = &self.confirmed else {
            return;
        };
        let source = reply.source.get_or_insert_default();
        source.durable = *durable;
        source.expiry_policy.clone_from(expiry_policy);
        source.capabilities.clone_from(capabilities);
        if let Some(selector) = selector {
            selector.confirm(reply);
        }
    }
}

impl ConnectionHandler {
    /// Checks that the tier of the namespace allows holds and that the connection may have one more.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`], [`Fault::TooManyHeld`].
    pub(super) fn check_holds(&self) -> Result<(), Fault> {
        if self.config.tier != peeklock_engine::Tier::Premium {
            return Err(Fault::NotAllowed(
                "Temporary queues and topics and the subscriptions of JMS need a namespace of the Premium tier.",
            ));
        }
        if self.holds.len() >= HOLDS_MAX {
            return Err(Fault::TooManyHeld(HOLDS_MAX));
        }
        Ok(())
    }

    /// Waits for the entity that a link requested; `create` requests it, with the tag of the answer.
    pub(super) fn hold(
        &mut self,
        link: LinkId,
        confirmed: Option<Confirmed>,
        creating: Creating,
        create: impl FnOnce(&mut Self, u64) -> Hold,
    ) {
        let tag = self.expect(Pending::Create { link, creating: Box::new(creating) });
        let hold = create(self, tag);
        self.holds.insert(link, Held { path: None, confirmed, _hold: hold });
    }

    /// Answers the attach when the requested entity exists or was refused.
    pub(super) fn created(
        &mut self,
        link: LinkId,
        creating: Creating,
        response: Response,
        connection: &mut Connection,
    ) {
        let Creating { session, attach, address, missing } = creating;
        let attach = self.release_attach(attach);
        // Otherwise the peer has detached meanwhile.
        if !self.holds.contains_key(&link) {
            return;
        }
        let entered = match response {
            Response::Done(Ok(())) => self.enter_created(link, session, attach, address, connection),
            Response::Done(Err(Refusal::EntityDeleted)) => {
                let uri = self.uri(&address);
                Err(missing.unwrap_or(Fault::EntityNotFound { uri }))
            }
            Response::Done(Err(refusal)) => Err(Fault::Refused(refusal)),
            _ => Err(Fault::Internal),
        };
        if let Err(fault) = entered {
            self.holds.remove(&link);
            let error = self.tracker().error(&fault);
            connection.refuse_attach(link, error);
        }
    }

    fn enter_created(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Option<Attach>,
        address: String,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let mut attach = attach.ok_or(Fault::Internal)?;
        let Node::Entity(entity) = self.resolve(&address)? else { return Err(Fault::Internal) };
        if let Some(held) = self.holds.get_mut(&link) {
            held.path = Some(entity.resource.path().into());
        }
        let name: Str = address.into();
        if let (Role::Receiver, Some(source)) = (attach.role, &mut attach.source) {
            if source.dynamic {
                self.enter_session(session, &entity, Role::Receiver)?;
                source.address = Some(name);
            }
            return self.open_receiver(link, entity, attach, (None, None));
        }
        if let Some(Target::Node(target)) = &mut attach.target {
            target.address = Some(name);
        }
        self.attach_to_entity(link, session, attach, entity, connection)
    }

    /// Checks that the peer may receive from an entity: a temporary one must belong to this connection.
    ///
    /// # Errors
    /// [`Fault::NotAllowed`].
    pub(super) fn check_owned(&self, entity: &Entity) -> Result<(), Fault> {
        let path = Some(entity.resource.path());
        if !entity.is_temporary || self.holds.values().any(|held| held.path.as_deref() == path) {
            return Ok(());
        }
        Err(Fault::NotAllowed(
            "Only the connection that created a temporary queue, topic or subscription may receive from it.",
        ))
    }

    /// Checks the right to create entities.
    ///
    /// # Errors
    /// [`Fault::Unauthorized`].
    pub(super) fn check_manages(&self, resource: &peeklock_access::Resource, uri: &str) -> Result<(), Fault> {
        self.authorization.permit(resource, Need::Right(peeklock_engine::Right::Manage), uri)
    }
}

/// The kind of temporary node that capabilities request, if any.
pub(super) fn temporary_kind(capabilities: &[Str]) -> Option<Kind> {
    let has = |name: &str| capabilities.iter().any(|capability| **capability == *name);
    match (has(TEMPORARY_QUEUE), has(TEMPORARY_TOPIC)) {
        (true, false) => Some(Kind::Queue),
        (false, true) => Some(Kind::Topic),
        _ => None,
    }
}

/// Capabilities of a terminus with which JMS clients name kinds of nodes.
pub(super) const TEMPORARY_QUEUE: &str = "temporary-queue";
pub(super) const TEMPORARY_TOPIC: &str = "temporary-topic";
