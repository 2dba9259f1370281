//! Attaching links: resolves the node, checks authorization, and builds the answer.

use std::sync::Arc;

use peeklock_engine::runtime::Response;
use peeklock_engine::{
    AcceptedSession, Command, ReceiveMode, ReceiverId, ReceiverOptions, Right, SessionRequest, session_key,
};

use super::answer;
use super::authorization::Need;
use super::entities::Entity;
use super::errors::Fault;
use super::kept_attach::KeptAttach;
use super::receiver::Receiver;
use super::resolve::Node;
use super::selector_filter::SelectorFilter;
use super::session_filter::{self, SessionFilter};
use super::subscribing::{is_consumer, is_durable};
use super::transactions::{ManagementTarget, Sender};
use super::{ConnectionHandler, Link, Pending, ResponseLink};
use crate::endpoint::{Connection, LinkId};
use crate::wire::performative::{Attach, Role, SenderSettleMode, Target, Terminus};

/// Credit of links on which we receive, granted at once: without any, JS gives up a second after attach.
pub(super) const INCOMING_CREDIT: u32 = 1000;

/// Largest request to `$cbs`, in bytes.
const TOKEN_REQUEST_BYTES_MAX: u64 = 256 * 1024;

/// Allowance for the request around the messages of a schedule operation, in bytes.
const REQUEST_ENVELOPE_BYTES: u64 = 64 * 1024;

/// Longest address of the target of a link for responses that is kept, in bytes.
const RESPONSE_ADDRESS_BYTES_MAX: usize = 4_096;

const CBS_NODE: &str = "$cbs";

/// The answer to a receiver's attach while the engine opens the receiver.
pub(super) struct Opening {
    reply: KeptAttach,
    /// The largest message that the receiver accepts, in bytes; `None` for any.
    message_bytes_max: Option<u64>,
    /// The requested session.
    filter: Option<SessionFilter>,
}

impl ConnectionHandler {
    pub(super) fn attach(&mut self, link: LinkId, session: u16, attach: Attach, connection: &mut Connection) {
        if let Some(attach) = self.await_token(link, session, attach) {
            self.answer_attach(link, session, attach, connection);
        }
    }

    pub(super) fn answer_attach(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) {
        let result = match attach.role {
            Role::Sender => self.attach_sender(link, session, attach, connection),
            Role::Receiver => self.attach_receiver(link, session, attach, connection),
        };
        if let Err(fault) = result {
            let error = self.tracker().error(&fault);
            connection.refuse_attach(link, error);
        }
    }

    /// Attaches a link on which the peer sends.
    fn attach_sender(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let address = match &attach.target {
            Some(Target::Node(terminus)) if terminus.dynamic => {
                return self.attach_dynamic(link, session, attach);
            }
            Some(Target::Node(Terminus { address: Some(address), .. })) => address.clone(),
            Some(Target::Coordinator(_)) => {
                return self.attach_coordinator(link, session, attach, connection);
            }
            Some(Target::Node(_)) | None => return self.attach_relay(link, session, attach, connection),
        };
        let (kind, message_bytes_max) = match self.resolve(&address)? {
            Node::Cbs => (Link::CbsRequests { session }, TOKEN_REQUEST_BYTES_MAX),
            Node::Management(entity) => {
                self.authorization.permit(&entity.resource, Need::Any, &entity.uri)?;
                let destination = self.transfer_destination(&attach, &entity)?.map(Arc::new);
                self.enter_session(session, &entity, Role::Sender)?;
                self.watch(link, &entity);
                let receiving = destination.as_ref().map_or(&entity, |sender| &sender.entity);
                let limit = receiving.max_message_size_bytes.saturating_add(REQUEST_ENVELOPE_BYTES);
                let target = ManagementTarget { entity, destination };
                (Link::ManagementRequests { session, target }, limit)
            }
            Node::Entity(entity) => return self.attach_to_entity(link, session, attach, entity, connection),
        };
        self.links.insert(link, kind);
        let reply = Attach { max_message_size: Some(message_bytes_max), ..answer::to_sender(attach, None) };
        connection.accept_attach(link, reply, INCOMING_CREDIT);
        Ok(())
    }

    /// Attaches a link on which the peer sends to an entity.
    pub(super) fn attach_to_entity(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        entity: Arc<Entity>,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        self.authorization.permit(&entity.resource, Need::Right(Right::Send), &entity.uri)?;
        entity.check_send_allowed()?;
        entity.check_enabled_for_sending(&self.config.namespace)?;
        let destination = self.transfer_destination(&attach, &entity)?;
        let root = self.enter_session(session, &entity, Role::Sender)?;
        self.watch_sender(link, &entity);
        let (kind, is_temporary) = (entity.kind, entity.is_temporary);
        let sender = destination.unwrap_or_else(|| Sender::new(entity, root));
        let message_bytes_max = sender.entity.max_message_size_bytes;
        self.links.insert(link, Link::Sender(sender));
        let temporary = answer::temporary_capabilities(is_temporary, attach.target.as_ref());
        let mut reply =
            Attach { max_message_size: Some(message_bytes_max), ..answer::to_sender(attach, Some(kind)) };
        if let Some(Target::Node(target)) = &mut reply.target {
            target.capabilities.extend(temporary);
        }
        answer::limit_batches(&mut reply, message_bytes_max);
        connection.accept_attach(link, reply, INCOMING_CREDIT);
        Ok(())
    }

    /// Attaches a link on which the peer receives.
    fn attach_receiver(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let Some(source) = &attach.source else { return self.attach_unsubscribing(link, attach, connection) };
        if source.dynamic {
            return self.attach_dynamic(link, session, attach);
        }
        let address = source.address.clone().ok_or_else(|| {
            not_implemented("The anonymous terminus can't be a source: give the entity's address.")
        })?;
        match self.resolve(&address)? {
            Node::Cbs => self.attach_responses(link, session, None, attach, connection),
            Node::Management(entity) => {
                self.authorization.permit(&entity.resource, Need::Any, &entity.uri)?;
                self.enter_session(session, &entity, Role::Receiver)?;
                self.watch(link, &entity);
                self.attach_responses(link, session, Some(entity), attach, connection);
            }
            Node::Entity(entity) => {
                return self.attach_from_entity(link, session, attach, entity, connection);
            }
        }
        Ok(())
    }

    /// Attaches a link on which the peer receives from an entity.
    fn attach_from_entity(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        entity: Arc<Entity>,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let Some(source) = &attach.source else { return Err(Fault::Internal) };
        self.authorization.permit(&entity.resource, Need::Right(Right::Listen), &entity.uri)?;
        if is_consumer(source, &entity) {
            return self.attach_consumer(link, session, &entity, attach);
        }
        entity.check_receive_allowed()?;
        self.check_owned(&entity)?;
        // Durable JMS consumers use "copy" too: each subscription has its copies.
        let browses = source.distribution_mode.as_deref() == Some("copy") && !is_durable(source);
        let filter = SessionFilter::find(&source.filter)?;
        if filter.is_some() {
            entity.check_session_allowed()?;
        }
        let selector = SelectorFilter::find(&source.filter)?;
        if browses {
            return self.attach_browser(link, entity, attach, (filter, selector), connection);
        }
        if filter.is_some() && selector.is_some() {
            return Err(not_implemented("A receiver of a session with a selector is not supported."));
        }
        self.enter_session(session, &entity, Role::Receiver)?;
        self.open_receiver(link, entity, attach, (filter, selector))
    }

    fn attach_responses(
        &mut self,
        link: LinkId,
        session: u16,
        entity: Option<Arc<Entity>>,
        attach: Attach,
        connection: &mut Connection,
    ) {
        let target = match &attach.target {
            Some(Target::Node(terminus)) => {
                terminus.address.clone().filter(|address| address.len() <= RESPONSE_ADDRESS_BYTES_MAX)
            }
            _ => None,
        };
        let name = attach.name.clone();
        let node = entity.as_ref().map_or_else(|| CBS_NODE.into(), |entity| entity.node.clone());
        self.response_links.push(ResponseLink { link, session, node, target, name, sent: 0 });
        self.links.insert(link, Link::Responses { entity });
        let reply = answer::to_reader_of_responses(attach);
        connection.accept_attach(link, Attach { initial_delivery_count: Some(0), ..reply }, 0);
        self.carry_out_early(connection);
    }

    pub(super) fn open_receiver(
        &mut self,
        link: LinkId,
        entity: Arc<Entity>,
        attach: Attach,
        (filter, selector): (Option<SessionFilter>, Option<SelectorFilter>),
    ) -> Result<(), Fault> {
        let mode = match attach.snd_settle_mode {
            SenderSettleMode::Settled => ReceiveMode::ReceiveAndDelete,
            // A generic client's default is mixed: unsettled is the safe interpretation.
            SenderSettleMode::Unsettled | SenderSettleMode::Mixed => ReceiveMode::PeekLock,
        };
        let partition = entity.partition.clone();
        let options = ReceiverOptions { source: entity.source(), mode };
        let session = filter.as_ref().map(|filter| SessionRequest {
            id: filter.id.clone(),
            wait_until: session_filter::wait_until(self.entities.now(), &attach.properties),
            lock: filter.lock,
        });
        let max_message_size = Some(entity.max_message_size_bytes);
        let message_bytes_max = answer::message_bytes_max(&attach);
        let reply = answer::to_receiver(attach, entity.node_kind());
        let mut reply = Attach { initial_delivery_count: Some(0), max_message_size, ..reply };
        if let Some(held) = self.holds.get(&link) {
            held.confirm(&mut reply);
        }
        if let Some(filter) = &selector {
            filter.confirm(&mut reply);
        }
        let reply = self.keep_attach(reply)?;
        let receiver = self.entities.next_receiver_id(&entity.partition);
        let mut opened = Receiver::new(link, entity, mode);
        let selects = selector.is_some();
        opened.selector = selector.map(|filter| filter.selector);
        self.receivers.insert(receiver, opened);
        self.links.insert(link, Link::Receiver(receiver));
        let pending = Pending::Open { link, opening: Box::new(Opening { reply, message_bytes_max, filter }) };
        self.ask(&partition, Command::OpenReceiver { receiver, options, session }, pending);
        if selects {
            self.tell(&partition, Command::Select { receiver });
        }
        Ok(())
    }

    pub(super) fn receiver_opened(
        &mut self,
        link: LinkId,
        opening: Opening,
        response: Response,
        connection: &mut Connection,
    ) {
        let Opening { reply, message_bytes_max, filter } = opening;
        let reply = self.release_attach(reply);
        // Otherwise the peer has detached, and the engine was sent a command to close the receiver.
        let Some(&Link::Receiver(receiver)) = self.links.get(&link) else { return };
        let Some(opened) = self.receivers.get(&receiver) else { return };
        let entity = Arc::clone(&opened.entity);
        if opened.deletes {
            connection.gate(link);
        }
        let Some(mut reply) = reply else { return };
        let mut accept = |reply| {
            connection.accept_attach(link, reply, 0);
            connection.limit_deliveries(link, message_bytes_max);
        };
        let fault = match (response, filter) {
            (Response::Opened(Ok(None)), None) => return accept(reply),
            (Response::Opened(Ok(Some(session))), Some(filter)) => {
                filter.confirm(&session, &mut reply);
                self.hold_session(receiver, session);
                return accept(reply);
            }
            (Response::Opened(Err(refusal)), _) => {
                self.remove_receiver(receiver);
                entity.fault(refusal)
            }
            // The receiver opened is not the one requested.
            _ => {
                self.close_receiver(receiver);
                Fault::Internal
            }
        };
        self.links.remove(&link);
        self.holds.remove(&link);
        let error = self.tracker().error(&fault);
        connection.refuse_attach(link, error);
    }

    fn hold_session(&mut self, id: ReceiverId, session: AcceptedSession) {
        if let Some(receiver) = self.receivers.get_mut(&id) {
            let key: Arc<str> = session_key(&session.id).into();
            receiver.session = Some(Arc::clone(&key));
            self.sessions.insert((receiver.entity.queue, key), id);
        }
    }
}

pub(super) fn not_implemented(text: &str) -> Fault {
    Fault::NotImplemented(text.to_owned())
}
