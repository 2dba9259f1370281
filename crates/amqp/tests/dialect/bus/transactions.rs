//! Transactions of the model: their work takes effect at the commit, together or not at all.

use bytes::Bytes;

use super::work::Work;
use super::{Bus, LinkKey, Path};
use crate::outcome::{NOT_ALLOWED, NOT_FOUND, Outcome, ROLLED_BACK, Refused, TIMED_OUT};

/// How long a transaction may last from its first work on, in milliseconds.
const TIME_OUT_MS: u64 = 120_000;

#[derive(Debug)]
pub(crate) struct Transaction {
    /// The link that declared it.
    pub(crate) coordinator: LinkKey,
    /// Known when the declaration is answered.
    pub(crate) id: Option<Bytes>,
    pub(crate) is_open: bool,
    /// Why it can only be rolled back.
    failure: Option<Refused>,
    deadline_ms: Option<u64>,
    /// The top-level entity of its work, and which of that name.
    root: Option<(Path, Option<u64>)>,
    pub(super) work: Vec<Work>,
}

impl Transaction {
    /// Whether it can only be rolled back.
    pub(crate) const fn is_failed(&self) -> bool {
        self.failure.is_some()
    }
}

/// The top-level entity of a path.
pub(super) fn root_of(path: Path) -> &'static str {
    path.split('/').next().unwrap_or(path)
}

impl Bus {
    pub(crate) fn declare(&mut self, coordinator: LinkKey) -> usize {
        self.transactions.push(Transaction {
            coordinator,
            id: None,
            is_open: true,
            failure: None,
            deadline_ms: None,
            root: None,
            work: Vec::new(),
        });
        self.transactions.len() - 1
    }

    pub(super) fn enlist(&mut self, transaction: usize, path: Path) -> Result<&mut Transaction, Refused> {
        let now_ms = self.now_ms;
        let born = self.born(root_of(path));
        let one = &mut self.transactions[transaction];
        if let Some(failure) = one.failure {
            return Err(failure);
        }
        one.deadline_ms.get_or_insert(now_ms + TIME_OUT_MS);
        if one.root.get_or_insert((root_of(path), born)).0 != root_of(path) {
            one.failure = Some(ROLLED_BACK);
            self.has_failed = true;
            return Err(NOT_ALLOWED);
        }
        Ok(one)
    }

    /// It can only be rolled back.
    pub(crate) fn fail(&mut self, transaction: usize) {
        self.transactions[transaction].failure.get_or_insert(ROLLED_BACK);
        self.has_failed = true;
    }

    /// Ends a transaction.
    pub(crate) fn discharge(&mut self, transaction: usize, fail: bool) -> Outcome {
        let one = &mut self.transactions[transaction];
        one.is_open = false;
        let work = std::mem::take(&mut one.work);
        if fail {
            return Outcome::Done;
        }
        if let Some(failure) = one.failure {
            return Outcome::Refused(failure);
        }
        let root = one.root;
        let is_gone = root.is_some_and(|(root, born)| born.is_none() || self.born(root) != born);
        // Messages that their destinations take do not concern the entity in between.
        let is_there =
            |work: &[Work]| !is_gone || work.iter().all(|one| matches!(one, Work::Transferred { .. }));
        if !is_there(&work) {
            return Outcome::Refused(NOT_FOUND);
        }
        let work = match self.plan(work) {
            Ok(work) if is_there(&work) => work,
            Ok(_) => return Outcome::Refused(NOT_FOUND),
            Err(refused) => return Outcome::Refused(refused),
        };
        work.into_iter().for_each(|one| self.carry_out(one));
        self.activate_due();
        self.look_after();
        Outcome::Done
    }

    /// Rolls back the transactions of a coordinator's link that ends.
    pub(crate) fn roll_back_of(&mut self, coordinator: LinkKey) {
        for one in self.transactions.iter_mut().filter(|one| one.coordinator == coordinator) {
            one.is_open = false;
        }
    }

    pub(super) fn end_transactions_in_time(&mut self) {
        let now_ms = self.now_ms;
        for one in &mut self.transactions {
            if one.is_open && one.deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
                one.failure = Some(TIMED_OUT);
            }
        }
    }
}
