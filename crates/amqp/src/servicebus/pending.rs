//! Commands under way to the engine.

use peeklock_engine::ReceiverId;

use super::attach::Opening;
use super::holds::Creating;
use super::transactions::{Asked, Committing};
use super::{ReplyTo, management};
use crate::endpoint::{IncomingId, LinkId};
use crate::wire::performative::DeliveryState;

/// A command whose answer is awaited.
pub(super) enum Pending {
    /// A transfer's messages; `delivery` is `None` when it came settled.
    Send { delivery: Option<IncomingId>, bytes: usize },
    /// A receiver link's attach.
    Open { link: LinkId, opening: Box<Opening> },
    /// A disposition over consecutive deliveries.
    Settle { link: LinkId, first: u32, count: usize, reply: DeliveryState },
    /// The removal of messages that leave on a link next (receive-and-delete).
    Removal { link: LinkId, receiver: ReceiverId, count: usize },
    /// What an attach asked for.
    Create { link: LinkId, creating: Box<Creating> },
    /// The deletion of a subscription for which the end of a link waits.
    Unsubscribe { link: LinkId },
    /// The next page of a link that browses.
    Page { link: LinkId, answer_bytes: usize },
    /// Whether work of a transaction could be carried out.
    Provisional(Box<Asked>),
    /// The commit of a transaction.
    Commit(Box<Committing>),
    /// A management request.
    Management { reply_to: Box<ReplyTo>, finish: management::Finish, bytes: usize, answer_bytes: usize },
}
