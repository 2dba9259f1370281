//! Commands whose answers are outstanding.

use std::sync::Arc;

use peeklock_engine::ReceiverId;
use peeklock_engine::runtime::Response;

use super::attach::Opening;
use super::entities::Entity;
use super::holds::Creating;
use super::transactions::{Asked, Committing};
use super::{ConnectionHandler, ReplyTo, management};
use crate::endpoint::{Connection, IncomingId, LinkId};
use crate::wire::performative::DeliveryState;

/// A command whose answer is outstanding.
pub(super) enum Pending {
    /// A transfer's messages; `delivery` is `None` when it was sent settled.
    Send { delivery: Option<IncomingId>, bytes: usize },
    /// Transfers with one message each; none was sent settled.
    SendEach { deliveries: Vec<IncomingId> },
    /// A receiver link's attach.
    Open { link: LinkId, opening: Box<Opening> },
    /// A disposition over consecutive deliveries.
    Settle { link: LinkId, first: u32, count: usize, reply: DeliveryState },
    /// The removal of messages that are sent next on a link (receive-and-delete).
    Removal { link: LinkId, receiver: ReceiverId, count: usize },
    /// The creation of the entity that an attach requested.
    Create { link: LinkId, creating: Box<Creating> },
    /// The deletion of a subscription, on which the end of a link waits.
    Unsubscribe { link: LinkId },
    /// The next page of a link that browses.
    Page { link: LinkId, answer_bytes: usize },
    /// The check whether an operation of a transaction would succeed.
    Provisional(Box<Asked>),
    /// The commit of a transaction.
    Commit(Box<Committing>),
    /// A management request; `sends` is whether it concerns messages being sent to the entity.
    Management {
        reply_to: Box<ReplyTo>,
        entity: Arc<Entity>,
        sends: bool,
        finish: management::Finish,
        bytes: usize,
        answer_bytes: usize,
    },
}

impl ConnectionHandler {
    pub(super) fn request_started(&mut self, bytes: usize) {
        self.unanswered.messages += 1;
        self.unanswered.bytes += bytes;
    }

    pub(super) fn request_finished(&mut self, bytes: usize) {
        self.unanswered.messages = self.unanswered.messages.saturating_sub(1);
        self.unanswered.bytes = self.unanswered.bytes.saturating_sub(bytes);
    }

    /// Handles the answer to a command.
    pub(super) fn answered(&mut self, tag: u64, response: Response, connection: &mut Connection) {
        let Some(pending) = usize::try_from(tag).ok().and_then(|tag| self.pending.try_remove(tag)) else {
            return;
        };
        match pending {
            Pending::Send { delivery, bytes } => self.sent(delivery, bytes, response, connection),
            Pending::SendEach { deliveries } => self.sent_each(deliveries, response, connection),
            Pending::Open { link, opening } => self.receiver_opened(link, *opening, response, connection),
            Pending::Settle { link, first, count, reply } => {
                self.settled(link, first, count, &reply, response, connection);
            }
            Pending::Removal { link, receiver, count } => {
                self.removed(link, receiver, count, response, connection);
            }
            Pending::Create { link, creating } => self.created(link, *creating, response, connection),
            Pending::Unsubscribe { link } => self.unsubscribed(link, response, connection),
            Pending::Page { link, answer_bytes } => self.page(link, answer_bytes, response, connection),
            Pending::Provisional(asked) => self.provisional(*asked, response, connection),
            Pending::Commit(committing) => self.committed(*committing, response, connection),
            Pending::Management { reply_to, entity, sends, finish, bytes, answer_bytes } => {
                self.request_finished(bytes);
                self.unanswered.answer_bytes = self.unanswered.answer_bytes.saturating_sub(answer_bytes);
                let result = finish(response, &mut self.encoder);
                let result = result.map_err(|fault| entity.named(fault, sends, &self.config.namespace));
                self.respond(&reply_to, &result, connection);
            }
        }
    }
}
