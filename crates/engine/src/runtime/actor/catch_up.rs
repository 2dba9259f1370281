//! Requests that wait until everything due by a point in time has been done and sent.

use tokio::sync::mpsc;

use super::Actor;
use super::commits::CommitNumber;
use crate::Timestamp;

/// Asks for a notification when nothing due by `until` is left to do. An actor answers and then passes the request to its
/// forwarders.
#[derive(Debug, Clone)]
pub(in crate::runtime) struct CatchUp {
    /// The point in time.
    pub(in crate::runtime) until: Timestamp,
    /// Every task that has processed the request drops its sender.
    pub(in crate::runtime) answer: mpsc::UnboundedSender<CaughtUp>,
}

/// The answer to a [`CatchUp`]: nothing due is left to do.
#[derive(Debug, Clone, Copy)]
pub(in crate::runtime) struct CaughtUp {
    /// Whether anything was due when the request arrived.
    pub(in crate::runtime) was_due: bool,
    /// The next deadline.
    pub(in crate::runtime) next: Option<Timestamp>,
}

/// Waiting catch-up requests of an actor.
#[derive(Debug, Default)]
pub(super) struct CatchUps {
    waiting: Vec<Waiting>,
    /// Whether a turn must check the requests although nothing else happened.
    unseen: bool,
}

#[derive(Debug)]
struct Waiting {
    requested: CatchUp,
    was_due: bool,
    /// The commits and deliveries that must finish before the answer; `None` while something is still due.
    mark: Option<Mark>,
}

/// The end of the commits and deliveries at a point in time. Under load there are always later ones, so the current end is
/// not waited for.
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

    /// The latest point in time among the waiting requests.
    pub(super) fn until(&self) -> Option<Timestamp> {
        self.waiting.iter().map(|waiting| waiting.requested.until).max()
    }

    /// Returns whether there are requests that no turn has checked yet, and resets the flag.
    pub(super) fn take_unseen(&mut self) -> bool {
        std::mem::take(&mut self.unseen)
    }

    /// Discards the marks: commits and deliveries are counted from zero again.
    pub(super) fn start_over(&mut self) {
        self.waiting.iter_mut().for_each(|waiting| waiting.mark = None);
        self.unseen = !self.waiting.is_empty();
    }
}

impl Actor {
    /// At the end of a turn: answers requests for which nothing is left to do.
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
                    // The requester may be gone.
                    let _ = entry.requested.answer.send(CaughtUp { was_due: entry.was_due, next: deadline });
                    // The forwarders may have received new work from the due timers; it has reached them by now.
                    self.forwarders.catch_up(&entry.requested);
                    continue;
                }
            }
            self.catch_ups.waiting.push(entry);
        }
    }
}
