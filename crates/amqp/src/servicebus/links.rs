//! The links of a connection: their purposes and their end.

use std::sync::Arc;

use peeklock_access::Resource;
use peeklock_engine::{LockToken, ReceiverId};
use smallvec::SmallVec;

use super::ConnectionHandler;
use super::browsing::Browser;
use super::entities::Entity;
use super::envelope::Dialect;
use super::transactions::{ManagementTarget, Sender};
use crate::endpoint::LinkId;
use crate::wire::Str;

/// The purpose of a link, created by its attach.
pub(super) enum Link {
    /// We receive requests to `$cbs`.
    CbsRequests { session: u16 },
    /// We receive requests to an entity's management node.
    ManagementRequests { session: u16, target: ManagementTarget },
    /// We send responses: of `$cbs`, or of an entity's management node.
    Responses { entity: Option<Arc<Entity>> },
    /// We receive messages for an entity.
    Sender(Sender),
    /// We send messages of an entity.
    Receiver(ReceiverId),
    /// We send messages of an entity without locking them.
    Browser(Box<Browser>),
    /// We receive messages that each name their destination.
    Relay { session: u16 },
    /// A durable subscription of a topic that is deleted when the peer closes the link; no messages flow.
    Subscription { name: String, topic: Resource, uri: String },
    /// We receive requests to declare and discharge transactions.
    Coordinator,
}

/// A link that carries responses.
pub(super) struct ResponseLink {
    pub(super) link: LinkId,
    pub(super) session: u16,
    /// See [`Entity::node`].
    pub(super) node: Box<str>,
    /// The address of its target, a tie-break between links of one session.
    pub(super) target: Option<Str>,
    pub(super) name: Str,
    /// Responses sent on it.
    pub(super) sent: u64,
}

/// The destination of a response and the request it answers.
pub(super) struct ReplyTo {
    pub(super) session: u16,
    pub(super) node: Box<str>,
    pub(super) dialect: Dialect,
    pub(super) reply_to: Option<Str>,
    pub(super) correlation_id: crate::wire::Value,
}

/// Consecutive deliveries of one link that the peer accepts one by one, joined into one command.
pub(super) struct Completions {
    pub(super) link: LinkId,
    pub(super) first: u32,
    pub(super) tokens: SmallVec<[LockToken; 1]>,
}

impl ConnectionHandler {
    pub(super) fn detached(&mut self, link: LinkId) {
        self.submit_completions();
        self.unwatch(link);
        if let Some(receiver) = self.forget_link(link) {
            self.close_receiver(receiver);
        }
    }

    /// Removes a link; returns its receiver, if any, which the caller has to close.
    pub(super) fn forget_link(&mut self, link: LinkId) -> Option<ReceiverId> {
        self.holds.remove(&link);
        self.awaited.forget(link);
        match self.links.remove(&link)? {
            Link::Receiver(receiver) => Some(receiver),
            Link::Responses { .. } => {
                self.response_links.retain(|candidate| candidate.link != link);
                None
            }
            Link::Coordinator => {
                self.coordinator_detached(link);
                None
            }
            Link::Browser(browser) => {
                self.watched.messages_out = self.watched.messages_out.saturating_add(browser.sent);
                None
            }
            Link::CbsRequests { .. }
            | Link::ManagementRequests { .. }
            | Link::Sender(_)
            | Link::Relay { .. }
            | Link::Subscription { .. } => None,
        }
    }

    pub(super) fn close(&mut self) {
        self.submit_completions();
        let mut receivers: Vec<ReceiverId> = self.receivers.keys().copied().collect();
        // In the order in which they were opened: so it is the same in each run who gets a session that they held.
        receivers.sort_unstable();
        for receiver in receivers {
            self.close_receiver(receiver);
        }
        for link in self.watchers.links() {
            self.unwatch(link);
        }
        self.links.clear();
        self.holds.clear();
        self.response_links.clear();
        self.early.clear();
        self.awaited.clear();
        self.end_transactions();
    }
}
