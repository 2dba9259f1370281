//! Attaching links: which node, whether it may, and what the peer sees in return.

use std::sync::Arc;

use peeklock_engine::runtime::{EntityRef, Response};
use peeklock_engine::{Command, ReceiveMode, ReceiverOptions, Refusal, SubQueue};

use super::address::{self, Address, AddressError, EntityAddress};
use super::authorization::{Right, excerpt};
use super::entities::Entity;
use super::errors::Fault;
use super::receiver::Receiver;
use super::{Broker, Link, Pending, ResponseLink};
use crate::endpoint::{Connection, LinkId};
use crate::wire::Str;
use crate::wire::performative::{Attach, Role, SenderSettleMode, Target, Terminus};

/// Credit of links on which we receive, granted at once: JS gives up a second after attach without any.
const INCOMING_CREDIT: u32 = 1000;

/// Largest request to `$cbs`, in bytes.
const TOKEN_REQUEST_BYTES_MAX: u64 = 256 * 1024;

/// Room for the request around the messages of a schedule operation, in bytes.
const REQUEST_ENVELOPE_BYTES: u64 = 64 * 1024;

const SESSION_FILTER: &str = "com.microsoft:session-filter";
const CBS_NODE: &str = "$cbs";

/// A node found.
enum Node {
    Cbs,
    Management(Arc<Entity>),
    Entity(Arc<Entity>),
}

impl Broker {
    pub(super) fn attach(&mut self, link: LinkId, session: u16, attach: Attach, connection: &mut Connection) {
        let result = match attach.role {
            Role::Sender => self.attach_sender(link, session, attach, connection),
            Role::Receiver => self.attach_receiver(link, session, attach, connection),
        };
        if let Err(fault) = result {
            let error = self.tracker().error(&fault);
            connection.refuse_attach(link, error);
        }
    }

    /// The peer sends, we receive.
    fn attach_sender(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let terminus = match &attach.target {
            Some(Target::Node(terminus)) => terminus,
            Some(Target::Coordinator(_)) => return Err(not_implemented("Transactions are not supported.")),
            None => return Err(not_implemented("A sender without a target is not supported.")),
        };
        let address = static_address(terminus)?;
        let (kind, message_bytes_max) = match self.resolve(&address)? {
            Node::Cbs => (Link::CbsRequests { session }, TOKEN_REQUEST_BYTES_MAX),
            Node::Management(entity) => {
                let limit = entity.options.max_message_size_bytes().saturating_add(REQUEST_ENVELOPE_BYTES);
                (Link::ManagementRequests { session, entity }, limit)
            }
            Node::Entity(entity) => {
                if entity.address.sub_queue != SubQueue::Main {
                    return Err(Fault::NotAllowed("Messages can't be sent to a dead-letter queue directly."));
                }
                self.authorization.permit(&entity.address, Right::Send, &entity.uri)?;
                let limit = entity.options.max_message_size_bytes();
                (Link::Sender(entity), limit)
            }
        };
        self.links.insert(link, kind);
        let reply = Attach { max_message_size: Some(message_bytes_max), ..echo(attach) };
        connection.accept_attach(link, reply, INCOMING_CREDIT);
        Ok(())
    }

    /// The peer receives, we send.
    fn attach_receiver(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let Some(source) = &attach.source else {
            return Err(not_implemented("A receiver without a source is not supported."));
        };
        let address = static_address(source)?;
        match self.resolve(&address)? {
            Node::Cbs => self.attach_responses(link, session, CBS_NODE.into(), attach, connection),
            Node::Management(entity) => {
                self.attach_responses(link, session, entity.node.clone(), attach, connection);
            }
            Node::Entity(entity) => {
                check_source(source)?;
                self.authorization.permit(&entity.address, Right::Listen, &entity.uri)?;
                self.open_receiver(link, entity, attach);
            }
        }
        Ok(())
    }

    fn attach_responses(
        &mut self,
        link: LinkId,
        session: u16,
        node: Box<str>,
        attach: Attach,
        connection: &mut Connection,
    ) {
        let target = match &attach.target {
            Some(Target::Node(terminus)) => terminus.address.clone(),
            _ => None,
        };
        let name = attach.name.clone();
        self.response_links.push(ResponseLink { link, session, node, target, name, sent: 0 });
        self.links.insert(link, Link::Responses);
        connection.accept_attach(link, Attach { initial_delivery_count: Some(0), ..echo(attach) }, 0);
    }

    fn open_receiver(&mut self, link: LinkId, entity: Arc<Entity>, attach: Attach) {
        let mode = match attach.snd_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            // A generic client's default is mixed: unsettled is the safe reading.
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        };
        let receiver = self.entities.next_receiver_id();
        let partition = entity.partition.clone();
        let options = ReceiverOptions { source: entity.source(), mode };
        let max_message_size = Some(entity.options.max_message_size_bytes());
        let reply = Attach { initial_delivery_count: Some(0), max_message_size, ..echo(attach) };
        self.receivers.insert(receiver, Receiver::new(link, entity));
        self.links.insert(link, Link::Receiver(receiver));
        let pending = Pending::Open { link, reply: Box::new(reply) };
        self.ask(&partition, Command::OpenReceiver { receiver, options, session: None }, pending);
    }

    pub(super) fn receiver_opened(
        &mut self,
        link: LinkId,
        reply: Attach,
        response: Response,
        connection: &mut Connection,
    ) {
        let fault = match response {
            Response::Opened(Ok(_)) => return connection.accept_attach(link, reply, 0),
            Response::Opened(Err(refusal)) => Fault::Refused(refusal),
            _ => Fault::Internal,
        };
        if let Some(Link::Receiver(receiver)) = self.links.remove(&link) {
            self.remove_receiver(receiver);
        }
        let error = self.tracker().error(&fault);
        connection.refuse_attach(link, error);
    }

    /// Finds what an address names: as written first, percent-decoded second.
    fn resolve(&self, written: &str) -> Result<Node, Fault> {
        let parsed = match address::parse(written) {
            Ok(Address::Cbs) => return Ok(Node::Cbs),
            Ok(Address::Entity(address)) => self.lookup(written, address),
            Err(AddressError::TooLong) => return Err(self.not_found(written)),
            Err(AddressError::Empty | AddressError::UnknownSubQueue) => None,
        };
        let entity = parsed.or_else(|| {
            let decoded = address::percent_decoded(written)?;
            match address::parse(&decoded) {
                Ok(Address::Entity(address)) => self.lookup(written, address),
                _ => None,
            }
        });
        match entity {
            Some(entity) if entity.address.management => Ok(Node::Management(entity)),
            Some(entity) => Ok(Node::Entity(entity)),
            None => Err(self.not_found(written)),
        }
    }

    fn lookup(&self, written: &str, address: EntityAddress) -> Option<Arc<Entity>> {
        if address.subscription.is_some() {
            return None;
        }
        let EntityRef { partition, queue, options } = self.entities.entity(&address.name)?;
        let node = format!("{}/$management", address.key()).into();
        Some(Arc::new(Entity { address, node, uri: self.uri(written), partition, queue, options }))
    }

    fn not_found(&self, written: &str) -> Fault {
        Fault::EntityNotFound { uri: self.uri(written) }
    }

    fn uri(&self, written: &str) -> String {
        let written = excerpt(written);
        if written.contains("://") {
            written.to_owned()
        } else {
            format!("sb://{}/{}", self.hostname, written.trim_start_matches('/'))
        }
    }
}

/// The peer's attach turned into ours: termini, settle modes and name as they came, since P learns its session from
/// the address and N takes over the modes it reads.
fn echo(attach: Attach) -> Attach {
    let mut source = attach.source.unwrap_or_default();
    // Filters in place are none of the peer's: a session filter is refused before.
    source.filter.clear();
    Attach {
        source: Some(source),
        target: Some(attach.target.unwrap_or_else(|| Target::Node(Terminus::default()))),
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        ..attach
    }
}

fn static_address(terminus: &Terminus) -> Result<Str, Fault> {
    if terminus.dynamic {
        return Err(not_implemented("Dynamic nodes are not supported."));
    }
    terminus
        .address
        .clone()
        .ok_or_else(|| not_implemented("The anonymous terminus is not supported: give the entity's address."))
}

/// Refuses sources that ask for what a queue does not do.
fn check_source(source: &Terminus) -> Result<(), Fault> {
    if source.filter.iter().any(|(key, _)| &**key == SESSION_FILTER) {
        return Err(Fault::Refused(Refusal::SessionNotSupported));
    }
    // Serving a browser like a consumer would take away what it only wanted to see.
    if source.distribution_mode.as_deref() == Some("copy") {
        return Err(not_implemented(
            "Browsing with distribution-mode copy is not supported: peek over $management.",
        ));
    }
    Ok(())
}

fn not_implemented(text: &str) -> Fault {
    Fault::NotImplemented(text.to_owned())
}
