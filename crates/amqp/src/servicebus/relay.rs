//! The anonymous relay: a link without a target, whose messages each name their destination in the property `to`
//! (AMQP's "Anonymous Terminus for Message Routing"). JMS clients reply on such links.

use bytes::Bytes;
use peeklock_engine::Right;
use peeklock_wire::message::Sections;

use super::answer;
use super::attach::INCOMING_CREDIT;
use super::authorization::Need;
use super::errors::Fault;
use super::resolve::Node;
use super::transactions::Sender;
use super::{ConnectionHandler, Link};
use crate::endpoint::{Connection, LinkId};
use crate::wire::performative::{Attach, Role};

impl ConnectionHandler {
    /// Attaches a link on which each message names its destination.
    pub(super) fn attach_relay(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        if self.authorization.is_unauthenticated() {
            return Err(Fault::Unauthorized { right: Need::Right(Right::Send).name(), uri: self.uri("") });
        }
        self.links.insert(link, Link::Relay { session });
        connection.accept_attach(link, answer::to_sender(attach, None), INCOMING_CREDIT);
        Ok(())
    }

    /// The destination of a message on such a link. Authorization is checked for each message.
    ///
    /// # Errors
    /// The message names no destination to which the peer may send.
    pub(super) fn relay_target(
        &mut self,
        session: u16,
        message_format: u32,
        payload: &Bytes,
    ) -> Result<Sender, Fault> {
        if message_format != 0 {
            return Err(Fault::NotImplemented(
                "A link without a target accepts no batches: its messages can have different destinations."
                    .to_owned(),
            ));
        }
        let properties = Sections::split(payload).and_then(|sections| sections.decode_properties());
        let properties = properties.map_err(|error| Fault::MalformedMessage(error.into_reason()))?;
        let Some(address) = properties.to else {
            return Err(Fault::Argument(
                "A message on a link without a target needs its destination in the property 'to'.".to_owned(),
            ));
        };
        let Node::Entity(entity) = self.resolve(&address)? else {
            return Err(Fault::NotAllowed("Messages can only be sent to a queue or topic."));
        };
        self.authorization.permit(&entity.resource, Need::Right(Right::Send), &entity.uri)?;
        entity.check_send_allowed()?;
        entity.check_enabled_for_sending(&self.config.namespace)?;
        let root = self.enter_session(session, &entity, Role::Sender)?;
        Ok(Sender::new(entity, root))
    }
}
