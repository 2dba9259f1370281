//! Links to the coordinator: declare, discharge, and the commit in between.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use rand::RngExt;

use super::answers::in_transaction;
use super::peer_settled::PeerSettledLocks;
use super::table::{Open, ended_by};
use super::{Discharge, Staged, Transactions, TxnId};
use crate::endpoint::{Connection, IncomingId, LinkId};
use crate::servicebus::answer;
use crate::servicebus::attach::INCOMING_CREDIT;
use crate::servicebus::pending::Pending;
use crate::servicebus::sending::Transfer;
use crate::servicebus::{ConnectionHandler, Fault, Link};
use crate::wire::Value;
use crate::wire::performative::{Attach, DeliveryState};
use crate::wire::transaction::Control;

/// Largest message to a coordinator, in bytes: a discharge has about sixty.
const CONTROL_BYTES_MAX: u64 = 4096;

/// Links to the coordinator on one connection: JMS attaches one for each of its sessions.
const COORDINATORS_MAX: usize = 1024;

/// Open transactions allowed before the peer has authenticated: clients declare one before their first token. Without a
/// right to any entity it stays empty, so it costs only its entry.
const UNAUTHENTICATED_OPEN_MAX: usize = 16;

/// A commit in progress.
pub(in crate::servicebus) struct Committing {
    id: TxnId,
    delivery: Option<IncomingId>,
    staged: Vec<Staged>,
    peer_settled: Vec<PeerSettledLocks>,
    /// See [`super::order`].
    number: u64,
}

impl ConnectionHandler {
    /// Attaches a link to the coordinator. No token is needed, because it gives no access to any entity.
    pub(in crate::servicebus) fn attach_coordinator(
        &mut self,
        link: LinkId,
        session: u16,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        if !self.config.tier.has_transactions() {
            let (namespace, tier) = (self.config.namespace.clone(), self.config.tier.name());
            return Err(Fault::NoTransactions { namespace, tier });
        }
        if self.transactions.coordinators >= COORDINATORS_MAX {
            return Err(Fault::TooManyCoordinators(COORDINATORS_MAX));
        }
        self.transactions.coordinators += 1;
        self.transactions.roots.coordinate(session);
        self.links.insert(link, Link::Coordinator);
        let reply = Attach { max_message_size: Some(CONTROL_BYTES_MAX), ..answer::to_sender(attach, None) };
        connection.accept_attach(link, reply, INCOMING_CREDIT);
        Ok(())
    }

    /// Rolls back the transactions of a coordinator's link that has ended.
    pub(in crate::servicebus) fn coordinator_detached(&mut self, link: LinkId) {
        self.transactions.coordinators = self.transactions.coordinators.saturating_sub(1);
        let peer_settled = self.transactions.table.end_coordinator(link);
        self.abandon_peer_settled(peer_settled);
    }

    /// Handles a message for the coordinator.
    pub(in crate::servicebus) fn control(
        &mut self,
        transfer: &Transfer,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let Transfer { link, delivery, ref payload, .. } = *transfer;
        match Control::decode(payload).map_err(|error| Fault::MalformedMessage(error.into_reason()))? {
            Control::Declare { global_id: Value::Null } => self.declare(link, delivery, connection),
            Control::Declare { .. } => {
                Err(Fault::NotImplemented("Distributed transactions are not supported.".to_owned()))
            }
            Control::Discharge { txn_id, fail } => {
                // Earlier settlements of the peer come first.
                self.submit_completions();
                let Transactions { table, order, .. } = &mut self.transactions;
                let begin = |id, touched| order.begin(id, touched);
                let id = table.discharge(&txn_id, (delivery, fail), begin)?;
                self.conclude(id, connection);
                Ok(())
            }
        }
    }

    fn declare(
        &mut self,
        link: LinkId,
        delivery: Option<IncomingId>,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let configured = self.config.transactions.open_max;
        let open_max = match self.authorization.is_unauthenticated() {
            true => configured.min(UNAUTHENTICATED_OPEN_MAX),
            false => configured,
        };
        if self.transactions.table.len() >= open_max {
            return Err(Fault::TooManyTransactions(open_max));
        }
        let id: TxnId = self.random.random();
        self.transactions.table.declare(id, link);
        if let Some(delivery) = delivery {
            let txn_id = Bytes::copy_from_slice(&id);
            connection.settle_incoming(delivery, DeliveryState::Declared { txn_id });
        }
        Ok(())
    }

    /// Ends a transaction that is to be discharged, as soon as all its operations are answered, and commits that waited
    /// only for it.
    pub(super) fn conclude(&mut self, id: TxnId, connection: &mut Connection) {
        let Some(progress) = self.transactions.table.progress(id) else { return };
        if !progress.is_answered {
            return;
        }
        if !progress.commits {
            self.end_transaction(id, connection);
        }
        let Transactions { table, order, .. } = &self.transactions;
        for id in order.ready(table) {
            self.end_transaction(id, connection);
        }
    }

    /// Requests the commit of a transaction, or rolls it back.
    fn end_transaction(&mut self, id: TxnId, connection: &mut Connection) {
        let Some((open, discharge)) = self.transactions.table.conclude(id) else { return };
        let Discharge { delivery, commit, .. } = discharge;
        let Open { step, staged, peer_settled, bytes, failure, .. } = open;
        if let (Some(number), Some(step), None) = (commit, step, &failure) {
            self.transactions.order.request(number, bytes);
            let committing = Committing { id, delivery, staged, peer_settled, number };
            let tag = self.expect(Pending::Commit(Box::new(committing)));
            return step.commit(self.outbox.return_address(), tag);
        }
        // Its deliveries stay unsettled, except those that the peer has settled.
        self.transactions.table.deliveries.remove(id, &staged);
        self.abandon_peer_settled(peer_settled);
        let failure = failure.filter(|_| commit.is_some());
        if let Some(number) = commit {
            self.transactions.order.end(number);
        }
        self.discharged(delivery, failure.map_or(Ok(()), |failure| Err(ended_by(&failure))), connection);
    }

    /// Handles the engine's answer to a commit.
    pub(in crate::servicebus) fn committed(
        &mut self,
        committing: Committing,
        response: Response,
        connection: &mut Connection,
    ) {
        let Committing { id, delivery, staged, mut peer_settled, number } = committing;
        self.transactions.order.end(number);
        let deliveries = &mut self.transactions.table.deliveries;
        deliveries.remove(id, &staged);
        peer_settled.append(&mut deliveries.take_late(id));
        let result = match response {
            Response::Done(result) => result.map_err(Fault::Refused),
            _ => Err(Fault::Internal),
        };
        if result.is_ok() {
            for staged in staged {
                self.settle_staged(id, staged, connection);
            }
        } else {
            self.abandon_peer_settled(peer_settled);
        }
        self.discharged(delivery, result, connection);
    }

    /// Settles deliveries whose settlement was committed.
    fn settle_staged(&mut self, id: TxnId, staged: Staged, connection: &mut Connection) {
        let Staged { first, count, reply } = staged;
        let outcome = in_transaction(&Bytes::copy_from_slice(&id), reply);
        self.settle_deliveries(first, count, &outcome, connection);
    }

    /// Answers a discharge, after the settlements of the transaction: clients check their deliveries then.
    fn discharged(
        &mut self,
        delivery: Option<IncomingId>,
        result: Result<(), Fault>,
        connection: &mut Connection,
    ) {
        connection.flush_settlements();
        match (result, delivery) {
            (Ok(()), Some(delivery)) => connection.settle_incoming(delivery, DeliveryState::Accepted),
            (Ok(()), None) => {}
            (Err(fault), _) => self.reject(delivery, &fault, connection),
        }
    }
}
