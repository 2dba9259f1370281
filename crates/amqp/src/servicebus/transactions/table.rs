//! The open transactions of a connection: bookkeeping without side effects.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use peeklock_engine::runtime::PartitionHandle;
use peeklock_engine::{Command, NewMessage, SequenceNumber};
use smallvec::SmallVec;

use super::deliveries::Deliveries;
use super::one_partition::OnePartition;
use super::peer_settled::PeerSettledLocks;
use super::weight::{Weight, bytes_of};
use super::{Discharge, JointStep, Place, Staged, TxnId};
use crate::endpoint::{IncomingId, LinkId, NowMs};
use crate::servicebus::Fault;
use crate::servicebus::config::TransactionLimits;

/// Messages that one transaction may settle or cancel. Service Bus documents no limit; this one bounds a commit.
const OTHERS_MAX: usize = 10_000;

/// The top-level entities that a commit changes.
pub(super) type Touched = SmallVec<[Arc<str>; 2]>;

/// The progress of a transaction whose discharge has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Whether it is to be committed, and can be.
    pub(super) commits: bool,
    /// Whether all its operations are answered.
    pub(super) is_answered: bool,
}

/// An operation added to a transaction.
pub(super) enum Work {
    /// A command that succeeded provisionally.
    Command(PartitionHandle, Command),
    /// Messages sent to an entity by way of another.
    Transfer { via: Place, target: Place, messages: SmallVec<[NewMessage; 1]> },
}

/// A transaction that has not been discharged.
pub(super) struct Open {
    /// The link that declared it, whose end rolls it back.
    coordinator: LinkId,
    /// The operations so far; `None` before the first and after a failure.
    pub(super) step: Option<Box<dyn JointStep>>,
    /// The common partition of its operations on a partitioned entity.
    one_partition: OnePartition,
    /// The top-level entity of all operations.
    root: Option<Arc<str>>,
    /// All entities that the commit changes, including those of operations that are being checked.
    touched: Touched,
    weight: Weight,
    /// Number of operations without an answer yet.
    asked: usize,
    pub(super) staged: Vec<Staged>,
    pub(super) peer_settled: Vec<PeerSettledLocks>,
    /// Set by the first operation.
    deadline: Option<NowMs>,
    /// Why it can only be rolled back.
    pub(super) failure: Option<Fault>,
    discharge: Option<Discharge>,
    pub(super) bytes: usize,
}

/// All open transactions of a connection.
#[derive(Default)]
pub(super) struct Table {
    open: HashMap<TxnId, Open>,
    deadlines: BTreeSet<(NowMs, TxnId)>,
    bytes: usize,
    pub(super) deliveries: Deliveries,
}

impl Table {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    pub(super) fn declare(&mut self, id: TxnId, coordinator: LinkId) {
        let open = Open {
            coordinator,
            step: None,
            root: None,
            one_partition: OnePartition::default(),
            touched: SmallVec::new(),
            weight: Weight::default(),
            asked: 0,
            staged: Vec::new(),
            peer_settled: Vec::new(),
            deadline: None,
            failure: None,
            discharge: None,
            bytes: 0,
        };
        self.open.insert(id, open);
    }

    /// Adds an operation to a transaction. The first one starts its time-out.
    ///
    /// # Errors
    /// The reason why it can't be part of the transaction, which then can only be rolled back;
    /// [`Fault::TransactionUnknown`] for an unknown transaction.
    pub(super) fn enlist(
        &mut self,
        id: &[u8],
        root: &Arc<str>,
        weight: Weight,
        limits: &TransactionLimits,
        now: NowMs,
    ) -> Result<TxnId, Fault> {
        let (id, open) = find(&mut self.open, id)?;
        if let Some(failure) = &open.failure {
            return Err(ended_by(failure));
        }
        if open.deadline.is_none() {
            let deadline = now.saturating_add(limits.time_out_ms);
            open.deadline = Some(deadline);
            self.deadlines.insert((deadline, id));
        }
        let entered = open.enter(root, weight, limits);
        if let Err(fault) = entered {
            self.fail(id, &fault);
            return Err(fault);
        }
        Ok(id)
    }

    /// Records the partition that an operation on a partitioned entity concerns; see [`OnePartition::add`].
    ///
    /// # Errors
    /// The partition differs from that of earlier operations.
    pub(super) fn add_to_partition(
        &mut self,
        id: TxnId,
        command: &Command,
        numbers: &[SequenceNumber],
        session: Option<&str>,
    ) -> Result<(), Fault> {
        let open = self.open.get_mut(&id);
        open.map_or(Ok(()), |open| open.one_partition.add(command, numbers, session))
    }

    /// Counts an operation on an entity that is being checked.
    pub(super) fn ask(&mut self, id: TxnId, entity: &Arc<str>) {
        if let Some(open) = self.open.get_mut(&id) {
            open.asked += 1;
            open.touch(entity);
        }
    }

    /// Counts an operation as answered.
    pub(super) fn answered(&mut self, id: TxnId) {
        if let Some(open) = self.open.get_mut(&id) {
            open.asked = open.asked.saturating_sub(1);
        }
    }

    /// Adds a checked operation.
    ///
    /// # Errors
    /// The transaction has ended in the meantime.
    pub(super) fn add(
        &mut self,
        id: TxnId,
        work: Work,
        touched: &Arc<str>,
        begin: impl FnOnce() -> Box<dyn JointStep>,
    ) -> Result<(), Fault> {
        let Some(open) = self.open.get_mut(&id) else { return Err(Fault::TransactionUnknown) };
        if let Some(failure) = &open.failure {
            return Err(ended_by(failure));
        }
        open.touch(touched);
        let bytes = bytes_of(&work);
        let step = open.step.get_or_insert_with(begin);
        match work {
            Work::Command(partition, command) => step.add(&partition, command),
            Work::Transfer { via, target, messages } => step.add_transfer(&via, &target, messages),
        }
        open.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Adds deliveries that the commit settles, if the operation turns out to be possible.
    pub(super) fn stage(&mut self, id: TxnId, staged: Staged) {
        if let Some(open) = self.open.get_mut(&id) {
            self.deliveries.add(id, &staged);
            open.staged.push(staged);
        }
    }

    /// Adds deliveries that the peer has settled; returned if the transaction no longer exists.
    pub(super) fn add_peer_settled(
        &mut self,
        id: TxnId,
        peer_settled: PeerSettledLocks,
    ) -> Option<PeerSettledLocks> {
        match self.open.get_mut(&id).filter(|open| open.is_alive()) {
            Some(open) => {
                open.peer_settled.push(peer_settled);
                None
            }
            None => Some(peer_settled),
        }
    }

    /// Marks a transaction as failed, so that it can only be rolled back; its operations are dropped at once.
    pub(super) fn fail(&mut self, id: TxnId, fault: &Fault) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.failure.get_or_insert_with(|| fault.clone());
        open.step = None;
        self.deliveries.remove(id, &std::mem::take(&mut open.staged));
        self.bytes = self.bytes.saturating_sub(std::mem::take(&mut open.bytes));
    }

    /// Fails all transactions that hold messages.
    pub(super) fn fail_all(&mut self, fault: &Fault) {
        let ids: Vec<TxnId> =
            self.open.iter().filter(|(_, open)| open.bytes > 0).map(|(id, _)| *id).collect();
        for id in ids {
            self.fail(id, fault);
        }
    }

    /// Fails all transactions, also those that only settle.
    pub(super) fn fail_every(&mut self, fault: &Fault) {
        let ids: Vec<TxnId> = self.open.keys().copied().collect();
        ids.into_iter().for_each(|id| self.fail(id, fault));
    }

    /// Fails the transactions that have timed out; returns the deliveries to be abandoned.
    pub(super) fn expire(&mut self, now: NowMs) -> Vec<PeerSettledLocks> {
        let mut peer_settled = Vec::new();
        while let Some(&(deadline, id)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            self.fail(id, &Fault::TransactionTimedOut);
            if let Some(open) = self.open.get_mut(&id) {
                open.failure = Some(Fault::TransactionTimedOut);
                peer_settled.append(&mut open.peer_settled);
            }
        }
        peer_settled
    }

    /// Records the request to end a transaction. `begin_commit` is given the entities that a commit changes and returns
    /// its number.
    ///
    /// # Errors
    /// [`Fault::TransactionUnknown`], also for a repeated request.
    pub(super) fn discharge(
        &mut self,
        id: &[u8],
        (delivery, fail): (Option<IncomingId>, bool),
        begin_commit: impl FnOnce(TxnId, Touched) -> u64,
    ) -> Result<TxnId, Fault> {
        let (id, open) = find(&mut self.open, id)?;
        let commit = (!fail).then(|| begin_commit(id, std::mem::take(&mut open.touched)));
        open.discharge = Some(Discharge { delivery, commit });
        Ok(id)
    }

    /// Whether the client has not requested the end of a transaction.
    pub(super) fn takes_operations(&self, id: TxnId) -> bool {
        self.open.get(&id).is_some_and(|open| open.discharge.is_none())
    }

    /// The progress of a transaction that is to be discharged.
    pub(super) fn progress(&self, id: TxnId) -> Option<Progress> {
        let open = self.open.get(&id)?;
        let commits = open.discharge.as_ref()?.commit.is_some() && open.failure.is_none();
        Some(Progress { commits, is_answered: open.asked == 0 })
    }

    /// Removes a transaction that is to be discharged and has no unanswered operations. Its deliveries remain in
    /// [`Self::deliveries`].
    pub(super) fn conclude(&mut self, id: TxnId) -> Option<(Open, Discharge)> {
        let open = self.open.get_mut(&id).filter(|open| open.asked == 0)?;
        let discharge = open.discharge.take()?;
        let open = self.remove(id)?;
        Some((open, discharge))
    }

    /// Rolls back the transactions that an ended coordinator link declared, except those to be discharged: that request
    /// came first.
    pub(super) fn end_coordinator(&mut self, coordinator: LinkId) -> Vec<PeerSettledLocks> {
        let declared =
            self.open.iter().filter(|(_, open)| open.coordinator == coordinator && open.discharge.is_none());
        let ids: Vec<TxnId> = declared.map(|(id, _)| *id).collect();
        let mut peer_settled = Vec::new();
        for id in ids {
            if let Some(mut open) = self.remove(id) {
                self.deliveries.remove(id, &open.staged);
                peer_settled.append(&mut open.peer_settled);
            }
        }
        peer_settled
    }

    /// The deliveries to be abandoned when all transactions are rolled back.
    pub(super) fn into_peer_settled(self) -> Vec<PeerSettledLocks> {
        self.open.into_values().flat_map(|open| open.peer_settled).collect()
    }

    fn remove(&mut self, id: TxnId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.bytes = self.bytes.saturating_sub(open.bytes);
        if let Some(deadline) = open.deadline {
            self.deadlines.remove(&(deadline, id));
        }
        Some(open)
    }
}

fn find<'a>(open: &'a mut HashMap<TxnId, Open>, id: &[u8]) -> Result<(TxnId, &'a mut Open), Fault> {
    let id = TxnId::try_from(id).map_err(|_| Fault::TransactionUnknown)?;
    let open = open.get_mut(&id).filter(|open| open.discharge.is_none());
    open.map(|open| (id, open)).ok_or(Fault::TransactionUnknown)
}

impl Open {
    /// Records an entity that the commit changes; the root is always one of them.
    fn touch(&mut self, entity: &Arc<str>) {
        for entity in self.root.iter().chain([entity]) {
            if !self.touched.contains(entity) {
                self.touched.push(Arc::clone(entity));
            }
        }
    }

    /// Whether its discharge, or a time-out in its place, is still to come.
    fn is_alive(&self) -> bool {
        !matches!(self.failure, Some(Fault::TransactionTimedOut))
    }

    fn enter(&mut self, root: &Arc<str>, weight: Weight, limits: &TransactionLimits) -> Result<(), Fault> {
        if self.root.get_or_insert_with(|| Arc::clone(root)) != root {
            return Err(Fault::NotAllowed(super::roots::SPANS_ENTITIES));
        }
        self.weight.sent += weight.sent;
        self.weight.others += weight.others;
        if self.weight.sent > limits.messages_max {
            return Err(Fault::TransactionTooLarge(limits.messages_max));
        }
        if self.weight.others > OTHERS_MAX {
            return Err(Fault::Argument(format!(
                "Cannot settle or cancel more than {OTHERS_MAX} messages in a single transaction."
            )));
        }
        Ok(())
    }
}

/// The error for a transaction that can only be rolled back.
pub(super) fn ended_by(failure: &Fault) -> Fault {
    match failure {
        Fault::TransactionTimedOut => Fault::TransactionTimedOut,
        other => Fault::TransactionRolledBack(other.to_string()),
    }
}
