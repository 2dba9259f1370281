//! Those who wait until everything due by an instant has happened and left.

use tokio::sync::mpsc;

use super::Actor;
use super::commits::CommitNumber;
use crate::Timestamp;

/// A request to be told when nothing due by an instant is left to do: an actor tells, then hands it on to its forwarders.
#[derive(Debug, Clone)]
pub(in crate::runtime) struct CatchUp {
    /// The instant.
    pub(in crate::runtime) until: Timestamp,
    /// Dropped by all who have nothing left to do.
    pub(in crate::runtime) answer: mpsc::UnboundedSender<CaughtUp>,
}

/// The answer: nothing is left to do.
#[derive(Debug, Clone, Copy)]
pub(in crate::runtime) struct CaughtUp {
    /// Whether anything was when the request arrived.
    pub(in crate::runtime) was_due: bool,
    /// When something is due next.
    pub(in crate::runtime) next: Option<Timestamp>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CatchUps {
    waiting: Vec<Waiting>,
    /// Whether a turn must look at them though nothing else happened.
    unseen: bool,
}

#[derive(Debug)]
struct Waiting {
    requested: CatchUp,
    was_due: bool,
    /// What must have left before the answer; `None` while something is still due.
    mark: Option<Mark>,
}

/// Where commits and deliveries ended at a moment: under load there is always something behind it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    commit: CommitNumber,
    delivery: u64,
}

impl CatchUps {
    pub(super) fn push(&mut self, requested: CatchUp, was_due: bool) {
        self.waiting.push(Waiting { requested, was_due, mark: None });
        self.unseen = true;
    }

    /// The latest instant by which somebody wants everything due to have happened.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|waiting| waiting.requested.until).max()
    }

    /// Whether there are requests that no turn has looked at; asked once.
    pub(super) fn take_unseen(&mut self) -> bool {
        std::mem::take(&mut self.unseen)
    }

    /// Forgets what was waited for: commits and deliveries are counted from zero again.
    pub(super) fn start_over(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.mark = None);
        self.unseen = !self.waiting.is_empty();
    }
}

impl Actor {
    /// At the end of a turn: answers those for whom nothing is left to do.
    pub(super) fn answer_catch_ups(&mut self) {
        if self.catch_ups.waiting.is_empty() {
            return;
        }
        let deadline = self.owned.partition.next_deadline();
        let idle = self.internal.is_empty();
        let end = Mark { commit: self.commits.submitted(), delivery: self.lane.end() };
        let (durable, delivered) = (self.commits.durable(), self.lane.left());
        let mut waiting = std::mem::take(&mut self.catch_ups.waiting);
        for mut entry in waiting.drain(..) {
            let is_due = deadline.is_some_and(|deadline| deadline <= entry.requested.until);
            if is_due || !idle {
                entry.mark = None;
            } else {
                let mark = *entry.mark.get_or_insert(end);
                if mark.commit <= durable && mark.delivery <= delivered {
                    // Whoever asked may be gone.
                    let _ = entry.requested.answer.send(CaughtUp { was_due: entry.was_due, next: deadline });
                    // What was due may have given them work, and has reached them by now.
                    self.forwarders.catch_up(&entry.requested);
                    continue;
                }
            }
            self.catch_ups.waiting.push(entry);
        }
    }
}
