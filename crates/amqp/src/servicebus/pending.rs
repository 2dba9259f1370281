//! Commands whose answers are outstanding.

use peeklock_engine::ReceiverId;

use super::attach::Opening;
use super::holds::Creating;
use super::transactions::{Asked, Committing};
use super::{ReplyTo, management};
use crate::endpoint::{IncomingId, LinkId};
use crate::wire::performative::DeliveryState;

/// A command whose answer is outstanding.
pub(super) enum Pending {
    /// A transfer's messages; `delivery` is `None` when it was sent settled.
    Send { delivery: Option<IncomingId>, bytes: usize },
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
    /// A management request.
    Management { reply_to: Box<ReplyTo>, finish: management::Finish, bytes: usize, answer_bytes: usize },
}
