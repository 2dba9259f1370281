//! Work of transactions in the model: checked when it is asked for and again at the commit, then carried out together.

use super::queue::{Message, Place, Verdict, check_distinct};
use super::room::Added;
use super::transactions::root_of;
use super::{Bus, LinkKey, Path};
use crate::message::{Draft, Token};
use crate::outcome::{LOCK_LOST, NO_MESSAGE, NOT_ALLOWED, Outcome, Refused, SESSION_LOST};

/// A settlement.
#[derive(Debug, Clone)]
pub(crate) struct Settled {
    pub(crate) path: Path,
    pub(crate) token: Token,
    pub(crate) place: Place,
    pub(crate) verdict: Verdict,
}

/// Something that takes effect at the commit.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Messages, with the numbers that scheduled ones have from the start.
    Sent(Path, Vec<(Draft, Option<u64>)>),
    /// Messages for another entity than the transaction's.
    Transferred {
        via: Path,
        target: Path,
        /// Which of that name.
        born: Option<u64>,
        drafts: Vec<Draft>,
    },
    /// Messages that their target refused, with the reason.
    Kept {
        via: Path,
        drafts: Vec<Draft>,
        reason: &'static str,
    },
    Settled(Settled),
    /// Scheduled messages are cancelled.
    Cancelled(Path, Vec<u64>),
    /// The state of a session, set by the link that holds it.
    State {
        path: Path,
        holder: LinkKey,
        id: String,
        state: Option<Vec<u8>>,
    },
}

impl Work {
    pub(super) const fn path(&self) -> Path {
        match self {
            Self::Sent(path, _) | Self::Cancelled(path, _) | Self::State { path, .. } => path,
            Self::Transferred { via, .. } | Self::Kept { via, .. } => via,
            Self::Settled(settled) => settled.path,
        }
    }
}

impl Bus {
    /// Adds work to a transaction, all or nothing. Scheduled messages get their numbers, which are returned.
    pub(crate) fn work_in(&mut self, transaction: usize, mut work: Vec<Work>) -> Result<Vec<u64>, Refused> {
        let Some(path) = work.first().map(Work::path) else { return Ok(Vec::new()) };
        self.enlist(transaction, path)?;
        if let Some(refused) = work.iter().find_map(|one| self.check_work(one, &mut Added::default()).err()) {
            self.fail(transaction);
            return Err(refused);
        }
        let mut numbers = Vec::new();
        for one in &mut work {
            let Work::Sent(path, drafts) = one else { continue };
            let queue = self.queue(path).expect("it was checked");
            for (draft, number) in drafts {
                *number = draft.due_ms.map(|_| queue.reserve());
                numbers.extend(*number);
            }
        }
        self.transactions[transaction].work.append(&mut work);
        Ok(numbers)
    }

    /// What is carried out if all work is possible together.
    pub(super) fn plan(&self, mut work: Vec<Work>) -> Result<Vec<Work>, Refused> {
        let mut added = Added::default();
        for one in &mut work {
            let Work::Transferred { via, target, born, drafts } = one else {
                self.check_work(one, &mut added).map_err(|refused| self.of_commit(one, refused))?;
                continue;
            };
            if let Err(reason) = self.add_transfer((target, *born), drafts, &mut added) {
                *added.bytes.entry(via).or_default() +=
                    drafts.iter().map(|draft| draft.size_bytes).sum::<u64>();
                *one = Work::Kept { via, drafts: std::mem::take(drafts), reason };
            }
        }
        Ok(work)
    }

    /// The refusal of a commit: it does not tell the dead letters of a queue with sessions from other messages.
    fn of_commit(&self, work: &Work, refused: Refused) -> Refused {
        let queue = self.queues.get(work.path()).filter(|_| matches!(work, Work::Settled(_)));
        let has_sessions = queue.is_some_and(|queue| queue.shape.sessions);
        if has_sessions && refused == LOCK_LOST { SESSION_LOST } else { refused }
    }

    /// Whether work is possible besides what was added before.
    fn check_work(&self, work: &Work, added: &mut Added) -> Result<(), Refused> {
        match work {
            Work::Sent(path, drafts) => {
                let bytes = added.bytes.entry(root_of(path)).or_default();
                *bytes = self.check_send_besides(path, drafts.iter().map(|(draft, _)| draft), *bytes)?;
                Ok(())
            }
            // What the target refuses is kept.
            Work::Transferred { .. } | Work::Kept { .. } => Ok(()),
            Work::Settled(Settled { path, token, place, verdict }) => match self.source(path) {
                Some(queue) => queue.check_settle((*token, *place), *verdict),
                // The status of the topic is looked at first.
                None => self.check_receives(root_of(path)).and(Err(LOCK_LOST)),
            },
            Work::Cancelled(path, numbers) => {
                self.check_cancel(path, numbers)?;
                let is_new = |number: &u64| added.cancelled.insert((*path, *number));
                if numbers.iter().all(is_new) { Ok(()) } else { Err(NO_MESSAGE) }
            }
            Work::State { path, holder, id, state } => {
                let session = self.queues.get(path).and_then(|queue| queue.sessions.get(id));
                let link = session.and_then(|session| session.holder).map(|(link, _)| link);
                if link != Some(*holder) {
                    return Err(SESSION_LOST);
                }
                let after = state.as_ref().map_or(0, |state| state.len() as u64);
                self.add_state((path, *holder, id), after, added)
            }
        }
    }

    pub(super) fn carry_out(&mut self, work: Work) {
        let now_ms = self.now_ms;
        match work {
            Work::Sent(path, drafts) => {
                for (draft, number) in &drafts {
                    match number {
                        Some(number) => self.store_reserved(path, draft, *number),
                        None => _ = self.store(path, draft),
                    }
                }
            }
            Work::Transferred { target, drafts, .. } => {
                drafts.iter().for_each(|draft| _ = self.store(target, draft));
            }
            Work::Kept { via, drafts, reason } => self.keep(via, &drafts, reason),
            Work::Settled(Settled { path, token, place, verdict }) => {
                let queue = self.queue(path).expect("it is there");
                queue.settle(now_ms, (token, place), verdict).expect("it is locked");
            }
            Work::Cancelled(path, numbers) => {
                let queue = self.queue(path).expect("it is there");
                numbers.iter().for_each(|number| _ = queue.messages.remove(number));
            }
            Work::State { path, id, state, .. } => {
                let queue = self.queues.get_mut(path).expect("it is there");
                queue.set_state(now_ms, &id, state);
            }
        }
    }

    /// Stores a scheduled message under its number, even if its time has come.
    fn store_reserved(&mut self, path: Path, draft: &Draft, number: u64) {
        let now_ms = self.now_ms;
        let queue = self.queue(path).expect("it was checked");
        if queue.original_of(draft).is_some() {
            return;
        }
        let mut message = Message::new(draft);
        message.due_ms = draft.due_ms;
        message.live(now_ms, queue.shape.life_in_effect_ms());
        queue.messages.insert(number, message);
        queue.remember(now_ms, draft, number);
        if queue.shape.window_ms.is_some() {
            queue.reserve();
        }
    }

    /// Whether scheduled messages can be cancelled, all or none.
    pub(super) fn check_cancel(&self, path: Path, numbers: &[u64]) -> Result<(), Refused> {
        check_distinct(numbers)?;
        self.check_cancels(path)?;
        let queue = self.source(path).ok_or(crate::outcome::NOT_FOUND)?;
        let is_scheduled = |number: &u64| queue.messages.get(number).is_some_and(|one| one.due_ms.is_some());
        if numbers.iter().all(is_scheduled) { Ok(()) } else { Err(NO_MESSAGE) }
    }

    /// Cancels scheduled messages, all or none.
    pub(crate) fn cancel(&mut self, path: Path, numbers: &[u64]) -> Result<Outcome, Refused> {
        self.check_cancel(path, numbers)?;
        self.carry_out(Work::Cancelled(path, numbers.to_vec()));
        Ok(Outcome::Done)
    }
}

impl super::Queue {
    /// Whether a settlement would be accepted.
    fn check_settle(&self, (token, place): (Token, Place), verdict: Verdict) -> Result<(), Refused> {
        self.check_settles(verdict)?;
        let in_session = self.shape.sessions && place == Place::Main;
        if !self.is_locked_by(token) {
            return Err(if in_session { SESSION_LOST } else { LOCK_LOST });
        }
        if verdict == Verdict::DeadLetter && place != Place::Main { Err(NOT_ALLOWED) } else { Ok(()) }
    }

    pub(crate) fn set_state(&mut self, now_ms: u64, id: &str, state: Option<Vec<u8>>) {
        let session = self.sessions.get_mut(id).expect("it is held");
        session.state = state.filter(|bytes| !bytes.is_empty()).map(|bytes| (bytes, now_ms));
    }
}
