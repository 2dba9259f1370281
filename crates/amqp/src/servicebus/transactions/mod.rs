//! Transactions of one connection (AMQP part 4).
//!
//! A link to the coordinator declares them and ends them (`control`). Operations arrive on the other links of the
//! connection (`work`): each is checked by a provisional command, which changes nothing, and is then kept in a joint
//! step of the engine, whose commit carries out all of them or none. Files: answers to the operations `answers`, the
//! limits of a transaction `table`, the entities it may span `roots`, the messages of a partitioned entity
//! `one_partition`, deliveries that the peer mentions again `deliveries`, events that wait for a commit in progress
//! `order`.

mod answers;
mod control;
mod deliveries;
mod one_partition;
mod order;
mod peer_settled;
mod roots;
mod table;
mod via;
mod weight;
mod work;

use bytes::Bytes;
use peeklock_engine::runtime::{Mailbox, PartitionHandle};
use peeklock_engine::{Command, NewMessage, QueueId};
use smallvec::SmallVec;

pub(super) use control::Committing;
pub(super) use via::{ManagementTarget, Sender};
pub(super) use work::{Asked, Part, Request};

use super::pending::Pending;
use super::{ConnectionHandler, Fault};
use crate::endpoint::{IncomingId, OutgoingId};
use order::Order;
use roots::Roots;
use table::Table;

/// A set of operations that takes effect as a whole or, if dropped, not at all. The engine implements it; tests have
/// other implementations.
pub trait JointStep: Send {
    /// Adds a command for an entity that was checked provisionally.
    fn add(&mut self, entity: &PartitionHandle, command: Command);

    /// Adds messages sent to `target` by way of `via`, whose transfer dead-letter queue gets the messages that the
    /// target refuses.
    fn add_transfer(&mut self, via: &Place, target: &Place, messages: SmallVec<[NewMessage; 1]>);

    /// Commits the step; the answer comes to the mailbox as [`peeklock_engine::runtime::Response::Done`].
    fn commit(self: Box<Self>, mailbox: Mailbox, tag: u64);
}

/// A queue or topic.
#[derive(Debug, Clone)]
pub struct Place {
    /// The partition that gets its commands.
    pub partition: PartitionHandle,
    /// Its id in commands.
    pub queue: QueueId,
}

/// State of transactions of one connection.
#[derive(Default)]
pub(super) struct Transactions {
    table: Table,
    roots: Roots,
    order: Order,
    /// Links to the coordinator.
    coordinators: usize,
}

/// A transaction id: random, because an id of one connection must be unknown on another.
type TxnId = [u8; 16];

/// A discharge that waits for its answer.
#[derive(Debug)]
struct Discharge {
    /// `None` when it was sent settled.
    delivery: Option<IncomingId>,
    /// The number of the commit, unless it is a rollback; see [`order`].
    commit: Option<u64>,
}

/// Deliveries of one link whose settlement is part of a transaction: consecutive ids.
#[derive(Debug, Clone)]
struct Staged {
    first: OutgoingId,
    count: usize,
    /// The state to repeat when they are settled.
    reply: crate::wire::performative::DeliveryState,
}

impl Staged {
    fn ids(&self) -> impl Iterator<Item = OutgoingId> {
        self.first.onwards().take(self.count)
    }
}

impl Transactions {
    /// Bytes of messages kept until the peer ends their transaction.
    pub(super) fn kept_bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Bytes of messages in commits that are in progress.
    pub(super) fn committing_bytes(&self) -> usize {
        self.order.bytes()
    }

    /// Events that wait for a commit.
    pub(super) fn waiting(&self) -> usize {
        self.order.waiting()
    }

    /// Whether no delivery's settlement is part of a transaction.
    pub(super) fn have_no_deliveries(&self) -> bool {
        self.table.deliveries.is_empty()
    }

    /// Records that an operation is kept for later, if it has a transaction: the discharge of that comes after it.
    pub(super) fn work_kept(&mut self, txn_id: Option<&Bytes>) {
        self.order.work_kept(usize::from(txn_id.is_some()));
    }

    /// Records that an operation that was kept is carried out or refused now.
    pub(super) fn kept_work_taken(&mut self, txn_id: Option<&Bytes>) {
        self.order.kept_work_taken(usize::from(txn_id.is_some()));
    }

    /// When the next transaction times out.
    pub(super) fn deadline(&self) -> Option<crate::endpoint::NowMs> {
        self.table.deadline()
    }
}

impl ConnectionHandler {
    /// Rolls back every transaction that holds messages, because memory is short.
    pub(super) fn give_up_transactions(&mut self) {
        self.transactions.table.fail_all(&Fault::Refused(peeklock_engine::Refusal::MemoryShort));
    }

    /// Rolls back all open transactions, because a right that their work needed has ended.
    pub(super) fn revoke_transactions(&mut self, fault: &Fault) {
        self.transactions.table.fail_every(fault);
    }

    /// Handles the end of an AMQP session, whose links have already ended.
    pub(super) fn session_ended(&mut self, session: u16) {
        self.transactions.roots.end(session);
    }

    /// Rolls back all open transactions at the end of the connection.
    pub(super) fn end_transactions(&mut self) {
        let table = std::mem::take(&mut self.transactions.table);
        let mut peer_settled = table.into_peer_settled();
        // Nobody waits for the check of the others any more.
        let unanswered = self.pending.iter_mut().filter_map(|(_, pending)| match pending {
            Pending::Provisional(asked) => asked.take_peer_settled(),
            _ => None,
        });
        peer_settled.extend(unanswered);
        self.abandon_peer_settled(peer_settled);
    }

    /// Rolls back the transactions that have timed out.
    pub(super) fn expire_transactions(&mut self, now: crate::endpoint::NowMs) {
        let peer_settled = self.transactions.table.expire(now);
        self.abandon_peer_settled(peer_settled);
    }
}
