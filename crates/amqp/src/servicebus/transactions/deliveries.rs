//! Deliveries whose settlement is part of a transaction, as long as the peer has not settled them. What it says about one
//! of them again is a repetition, another outcome, or its own settlement; the latter two may come at any time, also while
//! the transaction is being committed.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use smallvec::{SmallVec, smallvec};

use super::answers::in_transaction;
use super::peer_settled::PeerSettledLocks;
use super::{Staged, TxnId};
use crate::endpoint::{Connection, OutgoingId};
use crate::servicebus::receiving::Disposition;
use crate::servicebus::settlement::{self, RequestedSettlement};
use crate::servicebus::{ConnectionHandler, Fault, Link, lock_token};
use crate::wire::performative::DeliveryState;

/// What distinguishes outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    outcome: Discriminant<DeliveryState>,
    /// Distinguishes deferring from abandoning.
    is_undeliverable_here: bool,
}

impl Kind {
    fn of(outcome: &DeliveryState) -> Self {
        let is_undeliverable_here =
            matches!(outcome, DeliveryState::Modified { undeliverable_here: true, .. });
        Self { outcome: discriminant(outcome), is_undeliverable_here }
    }
}

/// The latest transaction in which a delivery has an outcome.
#[derive(Debug, Clone, Copy)]
struct Latest {
    transaction: TxnId,
    kind: Kind,
    /// Whether the engine found the operation possible, and the peer was told so.
    is_answered: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    by_id: HashMap<OutgoingId, Latest>,
    /// Deliveries that the peer settled while their transaction was being committed.
    settled_late: HashMap<TxnId, Vec<PeerSettledLocks>>,
}

impl Deliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds deliveries that get an outcome in a transaction.
    pub(super) fn add(&mut self, transaction: TxnId, staged: &Staged) {
        let latest = Latest { transaction, kind: Kind::of(&staged.reply), is_answered: false };
        self.by_id.extend(staged.ids().map(|id| (id, latest)));
    }

    /// Records that the outcomes of deliveries in a transaction are answered.
    pub(super) fn answered(&mut self, transaction: TxnId, staged: &Staged) {
        for id in staged.ids() {
            let latest = self.by_id.get_mut(&id);
            if let Some(latest) = latest.filter(|latest| latest.transaction == transaction) {
                latest.is_answered = true;
            }
        }
    }

    /// Removes the deliveries of a transaction that has ended or can only be rolled back.
    pub(super) fn remove(&mut self, transaction: TxnId, staged: &[Staged]) {
        if self.by_id.is_empty() {
            return;
        }
        for id in staged.iter().flat_map(Staged::ids) {
            if self.by_id.get(&id).is_some_and(|latest| latest.transaction == transaction) {
                self.by_id.remove(&id);
            }
        }
    }

    /// Keeps the locks of a delivery that the peer has settled while its transaction is being committed.
    pub(super) fn keep_late(&mut self, transaction: TxnId, locks: PeerSettledLocks) {
        self.settled_late.entry(transaction).or_default().push(locks);
    }

    /// Removes what [`Self::keep_late`] has kept.
    pub(super) fn take_late(&mut self, transaction: TxnId) -> Vec<PeerSettledLocks> {
        self.settled_late.remove(&transaction).unwrap_or_default()
    }
}

/// The meaning of what the peer says about a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The first outcome, or one in another transaction or in none.
    New,
    /// The same outcome in the same transaction; it has an answer, or will have one.
    Repetition { is_answered: bool },
    /// The peer settles the delivery; its outcome stays part of this transaction.
    SettledByPeer(TxnId),
    /// Another outcome in the same transaction.
    Contradiction(TxnId),
}

impl ConnectionHandler {
    /// Handles what a disposition says about deliveries whose settlement is part of a transaction. Returns the other
    /// deliveries: all of them, unless the peer settles deliveries or repeats outcomes.
    pub(in crate::servicebus) fn already_in_transactions(
        &mut self,
        disposition: Disposition,
        state: Option<&DeliveryState>,
        connection: &mut Connection,
    ) -> SmallVec<[Disposition; 1]> {
        let mut others: SmallVec<[Disposition; 1]> = SmallVec::new();
        for (meaning, part) in self.parts(disposition, state) {
            match meaning {
                Meaning::New => others.push(part),
                Meaning::Repetition { is_answered: false } => {}
                Meaning::Repetition { is_answered: true } => others.extend(repeat(part, state, connection)),
                Meaning::SettledByPeer(transaction) => self.settled_by_peer(transaction, &part),
                Meaning::Contradiction(transaction) => {
                    let fault = "A delivery got two different outcomes in one transaction.";
                    self.transactions.table.fail(transaction, &Fault::Argument(fault.to_owned()));
                    others.push(part);
                }
            }
        }
        others
    }

    /// The disposition in parts of one meaning each.
    fn parts(
        &self,
        disposition: Disposition,
        state: Option<&DeliveryState>,
    ) -> SmallVec<[(Meaning, Disposition); 1]> {
        let Disposition { link, first, tags, settled } = disposition;
        let ids = OutgoingId { link, delivery_id: first }.onwards();
        let mut parts: SmallVec<[(Meaning, Disposition); 1]> = SmallVec::new();
        for (tag, id) in tags.into_iter().zip(ids) {
            let meaning = self.meaning(id, state, settled);
            match parts.last_mut() {
                Some((same, part)) if *same == meaning => part.tags.push(tag),
                _ => {
                    let part = Disposition { link, first: id.delivery_id, tags: smallvec![tag], settled };
                    parts.push((meaning, part));
                }
            }
        }
        parts
    }

    fn meaning(&self, id: OutgoingId, state: Option<&DeliveryState>, settled: bool) -> Meaning {
        let table = &self.transactions.table;
        let Some(latest) = table.deliveries.by_id.get(&id) else { return Meaning::New };
        let &Latest { transaction, kind, is_answered } = latest;
        match state {
            None
            | Some(DeliveryState::Received { .. } | DeliveryState::Transactional { outcome: None, .. })
                if settled =>
            {
                Meaning::SettledByPeer(transaction)
            }
            Some(DeliveryState::Transactional { txn_id, outcome: Some(outcome) })
                if txn_id[..] == transaction[..] =>
            {
                // Once the commit is requested, its outcome can't change.
                let is_same = kind == Kind::of(outcome) || !table.takes_operations(transaction);
                match (is_same, settled) {
                    (false, _) => Meaning::Contradiction(transaction),
                    (true, true) => Meaning::SettledByPeer(transaction),
                    (true, false) => Meaning::Repetition { is_answered },
                }
            }
            _ => Meaning::New,
        }
    }

    /// The outcome of deliveries that the peer settles now stays part of the transaction; if that is rolled back, they
    /// are abandoned.
    fn settled_by_peer(&mut self, transaction: TxnId, part: &Disposition) {
        let Some(Link::Receiver(receiver)) = self.links.get(&part.link) else { return };
        let Some(receiver) = self.receivers.get(receiver) else { return };
        let tokens = part.tags.iter().copied().map(lock_token::from_tag).collect();
        let locks = PeerSettledLocks { entity: receiver.entity.clone(), tokens };
        let table = &mut self.transactions.table;
        for id in part.ids() {
            table.deliveries.by_id.remove(&id);
        }
        if let Some(locks) = table.add_peer_settled(transaction, locks) {
            table.deliveries.keep_late(transaction, locks);
        }
    }
}

/// Answers a repeated outcome again, because a client may wait for it; returns what is not readable.
fn repeat(
    part: Disposition,
    state: Option<&DeliveryState>,
    connection: &mut Connection,
) -> Option<Disposition> {
    let Some(DeliveryState::Transactional { txn_id, outcome }) = state else { return Some(part) };
    let outcome = outcome.as_deref().cloned();
    let Ok(RequestedSettlement::Apply { reply, .. }) = settlement::read(outcome, false) else {
        return Some(part);
    };
    let reply = in_transaction(txn_id, reply);
    part.ids().for_each(|delivery| connection.update_outgoing(delivery, reply.clone()));
    None
}
