//! Transactions of the model: work takes effect at the commit, together or not at all.

use bytes::Bytes;

use super::queue::{Place, Verdict};
use super::{Bus, LinkKey, Path};
use crate::message::{Draft, Token};
use crate::outcome::{
    LOCK_LOST, NOT_ALLOWED, NOT_FOUND, Outcome, ROLLED_BACK, Refused, SESSION_LOST, TIMED_OUT,
};

/// How long a transaction may last from its first work on, in milliseconds.
const TIME_OUT_MS: u64 = 120_000;

/// A settlement in a transaction.
#[derive(Debug, Clone)]
struct Settled {
    path: Path,
    token: Token,
    place: Place,
    verdict: Verdict,
}

/// A message, and its number if it is scheduled.
type Numbered = (Draft, Option<u64>);

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
    /// The messages, with the numbers that scheduled ones have from the start.
    sent: Vec<(Path, Vec<Numbered>)>,
    settled: Vec<Settled>,
}

/// The top-level entity of a path.
fn root_of(path: Path) -> &'static str {
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
            sent: Vec::new(),
            settled: Vec::new(),
        });
        self.transactions.len() - 1
    }

    fn enlist(&mut self, transaction: usize, path: Path) -> Result<&mut Transaction, Refused> {
        let now_ms = self.now_ms;
        let born = self.born(root_of(path));
        let one = &mut self.transactions[transaction];
        if let Some(failure) = one.failure {
            return Err(failure);
        }
        one.deadline_ms.get_or_insert(now_ms + TIME_OUT_MS);
        if one.root.get_or_insert((root_of(path), born)).0 != root_of(path) {
            one.failure = Some(ROLLED_BACK);
            return Err(NOT_ALLOWED);
        }
        Ok(one)
    }

    fn fail(&mut self, transaction: usize) {
        self.transactions[transaction].failure.get_or_insert(ROLLED_BACK);
    }

    pub(crate) fn send_in(
        &mut self,
        transaction: usize,
        path: Path,
        drafts: &[Draft],
    ) -> Result<Outcome, Refused> {
        self.enlist(transaction, path)?;
        let checked = self.check_send(path, drafts);
        if checked.is_err() {
            self.fail(transaction);
        }
        checked?;
        let scheduled = match self.topics.get_mut(path) {
            Some(topic) => &mut topic.scheduled,
            None => self.queue(path)?,
        };
        let mut numbered = Vec::new();
        for draft in drafts {
            let number = draft.due_ms.map(|_| scheduled.reserve());
            numbered.push((draft.clone(), number));
        }
        self.transactions[transaction].sent.push((path, numbered));
        Ok(Outcome::Done)
    }

    pub(crate) fn settle_in(
        &mut self,
        transaction: usize,
        path: Path,
        (token, place): (Token, Place),
        verdict: Verdict,
    ) -> Result<Outcome, Refused> {
        self.enlist(transaction, path)?;
        let (now_ms, queue) = (self.now_ms, self.queue(path)?);
        let checked = queue.check_settle(now_ms, (token, place), verdict);
        let is_twice = self.transactions[transaction].settled.iter().any(|one| one.token == token);
        if checked.is_err() || is_twice {
            self.fail(transaction);
        }
        checked?;
        if is_twice {
            return Err(crate::outcome::LOCK_LOST);
        }
        self.transactions[transaction].settled.push(Settled { path, token, place, verdict });
        Ok(Outcome::Done)
    }

    /// Ends a transaction.
    pub(crate) fn discharge(&mut self, transaction: usize, fail: bool) -> Outcome {
        let one = &mut self.transactions[transaction];
        one.is_open = false;
        let (sent, settled) = (std::mem::take(&mut one.sent), std::mem::take(&mut one.settled));
        if fail {
            return Outcome::Done;
        }
        if let Some(failure) = one.failure {
            return Outcome::Refused(failure);
        }
        let root = one.root;
        let now_ms = self.now_ms;
        if root.is_some_and(|(root, born)| born.is_none() || self.born(root) != born) {
            return Outcome::Refused(NOT_FOUND);
        }
        for one in &settled {
            let queue = self.queues.get(one.path);
            if !queue.is_some_and(|queue| queue.is_locked_by(one.token)) {
                let in_session = queue.is_some_and(|queue| queue.shape.sessions);
                return Outcome::Refused(if in_session { SESSION_LOST } else { LOCK_LOST });
            }
        }
        for (path, drafts) in sent {
            for (draft, number) in &drafts {
                match number {
                    Some(number) => self.store_reserved(path, draft, *number),
                    None => {
                        self.store(path, draft);
                    }
                }
            }
        }
        for Settled { path, token, place, verdict } in settled {
            let queue = self.queues.get_mut(path).expect("it is there");
            queue.settle(now_ms, (token, place), verdict).expect("it is locked");
        }
        self.activate_due();
        self.look_after();
        Outcome::Done
    }

    /// Stores a scheduled message under its number, even if its time has come.
    fn store_reserved(&mut self, path: Path, draft: &Draft, number: u64) {
        let now_ms = self.now_ms;
        let queue = match self.topics.get_mut(path) {
            Some(topic) => &mut topic.scheduled,
            None => self.queues.get_mut(path).expect("checked"),
        };
        if queue.original_of(draft).is_some() {
            return;
        }
        let mut message = super::Message::new(draft);
        message.due_ms = draft.due_ms;
        queue.messages.insert(number, message);
        queue.remember(now_ms, draft, number);
        if queue.shape.window_ms.is_some() {
            queue.reserve();
        }
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

impl super::Queue {
    /// Whether a settlement would be accepted.
    fn check_settle(
        &self,
        _now_ms: u64,
        (token, place): (Token, Place),
        verdict: Verdict,
    ) -> Result<(), Refused> {
        let in_session = self.shape.sessions && place == Place::Main;
        if !self.is_locked_by(token) {
            return Err(if in_session { crate::outcome::SESSION_LOST } else { crate::outcome::LOCK_LOST });
        }
        if verdict == Verdict::DeadLetter && place == Place::Dead { Err(NOT_ALLOWED) } else { Ok(()) }
    }
}
