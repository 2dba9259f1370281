//! Transactions of one connection (AMQP part 4).
//!
//! A link to the coordinator declares them and ends them (`control`). Work comes on the other links of the connection
//! (`work`): each piece is asked for provisionally, which changes nothing, and is then kept in a joint step of the engine; its
//! commit carries out all of it or nothing. What one transaction may consist of is decided in `table`, which entities it may
//! span in `roots`, which messages of a partitioned entity in `one_partition`, and what has to wait for a commit under way in `order`.

mod control;
mod forgotten;
mod one_partition;
mod order;
mod roots;
mod table;
mod via;
mod weight;
mod work;

use peeklock_engine::runtime::{Mailbox, PartitionHandle};
use peeklock_engine::{Command, NewMessage, QueueId};
use smallvec::SmallVec;

pub(super) use control::Committing;
pub(super) use via::{ManagementTarget, Sender};
pub(super) use work::{Asked, Part, Request};

use super::{ConnectionHandler, Fault};
use crate::endpoint::{IncomingId, LinkId};
use order::Order;
use roots::Roots;
use table::Table;

/// Work that takes effect as a whole or not at all; dropped, it never happened. The engine's is the real one; tests put
/// others behind it.
pub trait JointStep: Send {
    /// Adds a command for an entity that was asked for provisionally.
    fn add(&mut self, entity: &PartitionHandle, command: Command);

    /// Adds messages that go to `target` by way of `via`, whose transfer dead-letter queue gets what the target does not
    /// take.
    fn add_transfer(&mut self, via: &Place, target: &Place, messages: SmallVec<[NewMessage; 1]>);

    /// Carries it out; the answer comes to the mailbox as [`peeklock_engine::runtime::Response::Done`].
    fn commit(self: Box<Self>, mailbox: Mailbox, tag: u64);
}

/// A queue or topic.
#[derive(Debug, Clone)]
pub struct Place {
    /// Where commands go.
    pub partition: PartitionHandle,
    /// Names it.
    pub queue: QueueId,
}

/// What one connection knows of transactions.
#[derive(Default)]
pub(super) struct Transactions {
    table: Table,
    roots: Roots,
    order: Order,
    /// Links to the coordinator.
    coordinators: usize,
}

/// A transaction: random, because an id of one connection must mean nothing on another.
type TxnId = [u8; 16];

/// A discharge that waits for its answer.
#[derive(Debug)]
struct Discharge {
    /// `None` when it came settled.
    delivery: Option<IncomingId>,
    fail: bool,
}

/// Deliveries of one link whose settlement is part of a transaction: consecutive ids that wait for the commit.
#[derive(Debug)]
struct Staged {
    link: LinkId,
    first: u32,
    count: usize,
    /// The state to be repeated when they are settled.
    reply: crate::wire::performative::DeliveryState,
}

impl Transactions {
    /// Bytes of messages kept until the peer ends their transaction.
    pub(super) fn kept_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Bytes of messages under way with commits.
    pub(super) fn committing_bytes(&self) -> usize {
        self.order.bytes()
    }

    /// Events that wait for a commit.
    pub(super) fn waiting(&self) -> usize {
        self.order.waiting()
    }

    /// When a transaction has to be rolled back next.
    pub(super) fn deadline(&self) -> Option<crate::endpoint::NowMs> {
        self.table.deadline()
    }
}

impl ConnectionHandler {
    /// Rolls back every transaction that holds messages: memory is short.
    pub(super) fn give_up_transactions(&mut self) {
        self.transactions.table.fail_all(&Fault::Refused(peeklock_engine::Refusal::MemoryShort));
    }

    /// An AMQP session has ended, its links before it.
    pub(super) fn session_ended(&mut self, session: u16) {
        self.transactions.roots.end(session);
    }

    /// The connection is over: what was not committed is rolled back.
    pub(super) fn end_transactions(&mut self) {
        let table = std::mem::take(&mut self.transactions.table);
        self.give_back_forgotten(table.into_forgotten());
    }

    /// Rolls back the transactions whose time is over.
    pub(super) fn expire_transactions(&mut self, now: crate::endpoint::NowMs) {
        let forgotten = self.transactions.table.expire(now);
        self.give_back_forgotten(forgotten);
    }
}
