//! Answers to the operations of a transaction, once the engine has checked them.

use bytes::Bytes;
use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, Refusal, SequenceNumber, SettleFailure};
use smallvec::SmallVec;

use super::peer_settled::PeerSettledLocks;
use super::table::ended_by;
use super::{Staged, TxnId};
use crate::endpoint::{Connection, IncomingId, OutgoingId};
use crate::servicebus::entities::Entity;
use crate::servicebus::management::Finish;
use crate::servicebus::{ConnectionHandler, Fault, ReplyTo, settlement};
use crate::wire::performative::DeliveryState;

/// Sequence numbers that the engine promised for scheduled messages.
type Numbers = SmallVec<[SequenceNumber; 1]>;

/// The recipient of an operation's answer.
pub(super) enum Answer {
    /// A transfer; `None` when it was sent settled.
    Transfer(Option<IncomingId>),
    /// A disposition.
    Disposition(Staged),
    /// A disposition of a peer that has settled.
    PeerSettledLocks(PeerSettledLocks),
    /// A management request.
    Request { reply_to: Box<ReplyTo>, finish: Finish, answer_bytes: usize },
}

/// The kind of a command in a transaction, as far as its answer depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    Settle,
    Other,
}

impl Operation {
    pub(super) const fn of(command: &Command) -> Self {
        match command {
            Command::Send { .. } => Self::Send,
            Command::Settle { .. } => Self::Settle,
            _ => Self::Other,
        }
    }

    /// The engine's answer to a command that succeeded.
    fn succeeded(self, numbers: Numbers) -> Response {
        match self {
            Self::Send => Response::Sent(Ok(numbers)),
            Self::Settle => Response::Settled(Vec::new()),
            Self::Other => Response::Done(Ok(())),
        }
    }
}

impl ConnectionHandler {
    /// Answers an operation that was added to its transaction, or refused.
    pub(super) fn answer_operation(
        &mut self,
        id: TxnId,
        (operation, bytes): (Operation, usize),
        answer: Answer,
        result: Result<Numbers, Fault>,
        connection: &mut Connection,
    ) {
        match answer {
            Answer::Transfer(delivery) => {
                if delivery.is_none() {
                    self.request_finished(bytes);
                }
                self.answer_transfer(&Bytes::copy_from_slice(&id), delivery, result.map(drop), connection);
            }
            Answer::Disposition(staged) => self.answer_disposition(id, staged, result.map(drop), connection),
            // Abandoned at once if the transaction no longer exists, which would do so unless it is committed.
            Answer::PeerSettledLocks(peer_settled) => {
                let left = self.transactions.table.add_peer_settled(id, peer_settled);
                self.abandon_peer_settled(left.into_iter().collect());
            }
            Answer::Request { reply_to, finish, answer_bytes } => {
                self.request_finished(bytes);
                self.unanswered.answer_bytes = self.unanswered.answer_bytes.saturating_sub(answer_bytes);
                let result =
                    result.and_then(|numbers| finish(operation.succeeded(numbers), &mut self.encoder));
                self.respond(&reply_to, &result, connection);
            }
        }
    }

    /// The error for refused settlements; a management request has its own.
    pub(super) fn settlement_refused(
        &mut self,
        failures: Vec<SettleFailure>,
        answer: &Answer,
        entity: &Entity,
    ) -> Fault {
        let Answer::Request { finish, .. } = answer else {
            let first = failures.into_iter().next().map(|failure| failure.refusal);
            return first
                .map_or(Fault::Internal, |refusal| settlement::fault(refusal, entity.address.sub_queue));
        };
        let fault = finish(Response::Settled(failures), &mut self.encoder).err().unwrap_or(Fault::Internal);
        entity.named(fault, false, &self.config.namespace)
    }

    pub(in crate::servicebus) fn answer_transfer(
        &mut self,
        txn_id: &Bytes,
        delivery: Option<IncomingId>,
        result: Result<(), Fault>,
        connection: &mut Connection,
    ) {
        let outcome = match result {
            Ok(()) => DeliveryState::Accepted,
            Err(fault) => self.refused(&fault),
        };
        if let Some(delivery) = delivery {
            connection.settle_incoming(delivery, in_transaction(txn_id, outcome));
        }
    }

    fn answer_disposition(
        &mut self,
        id: TxnId,
        staged: Staged,
        result: Result<(), Fault>,
        connection: &mut Connection,
    ) {
        let txn_id = Bytes::copy_from_slice(&id);
        if let Err(fault) = result {
            return self.refuse_disposition(&txn_id, staged.ids(), &fault, connection);
        }
        self.transactions.table.deliveries.answered(id, &staged);
        let outcome = in_transaction(&txn_id, staged.reply.clone());
        staged.ids().for_each(|delivery| connection.update_outgoing(delivery, outcome.clone()));
    }

    /// Deliveries that can't be settled in the transaction keep their tags, so that they can be settled again after it.
    pub(super) fn refuse_disposition(
        &mut self,
        txn_id: &Bytes,
        deliveries: impl Iterator<Item = OutgoingId>,
        fault: &Fault,
        connection: &mut Connection,
    ) {
        let outcome = in_transaction(txn_id, self.refused(fault));
        deliveries.for_each(|delivery| connection.update_outgoing(delivery, outcome.clone()));
    }

    /// Answers settlements of which some can't be part of the transaction, which then can only be rolled back. A
    /// delivery whose lock is lost is settled; the others keep their tags.
    pub(super) fn refuse_settlements(
        &mut self,
        id: TxnId,
        staged: &Staged,
        failures: Vec<SettleFailure>,
        entity: &Entity,
        connection: &mut Connection,
    ) {
        let fault = |refusal| settlement::fault(refusal, entity.address.sub_queue);
        let Some(first) = failures.first().map(|failure| fault(failure.refusal.clone())) else { return };
        self.transactions.table.fail(id, &first);
        let txn_id = Bytes::copy_from_slice(&id);
        // The client chooses how many deliveries one disposition names, and all of them may fail.
        let tracker = self.tracker();
        let refused =
            |fault: &Fault| in_transaction(&txn_id, DeliveryState::Rejected(Some(tracker.error(fault))));
        let rolled_back = refused(&ended_by(&first));
        let mut failures = failures.into_iter().peekable();
        for (index, delivery) in staged.ids().enumerate() {
            let failure = failures.next_if(|failure| failure.index == index);
            match failure.map(|failure| fault(failure.refusal)) {
                None => connection.update_outgoing(delivery, rolled_back.clone()),
                Some(lost @ Fault::Refused(Refusal::MessageLockLost | Refusal::SessionLockLost)) => {
                    self.settle_deliveries(delivery, 1, &refused(&lost), connection);
                }
                Some(fault) => connection.update_outgoing(delivery, refused(&fault)),
            }
        }
    }

    fn refused(&mut self, fault: &Fault) -> DeliveryState {
        DeliveryState::Rejected(Some(self.tracker().error(fault)))
    }
}

/// An outcome as part of a transaction.
pub(super) fn in_transaction(txn_id: &Bytes, outcome: DeliveryState) -> DeliveryState {
    DeliveryState::Transactional { txn_id: txn_id.clone(), outcome: Some(Box::new(outcome)) }
}
