//! Joint steps: commands for several partitions that take effect as a whole, in one batch of the store.
//!
//! One task for each shard, the *committer*, carries them out in rounds. It borrows the state of every partition in a round
//! ([`loan`]): an actor that has lent its state handles and submits nothing until the state is returned, so nothing can
//! come between deciding and submitting. Only this task borrows, so there are no circular waits. Each *unit* of a round is
//! prepared in all its partitions, and carried out if none refuses ([`round`]). The results become one batch, whose commit
//! every participant awaits like its own.
//!
//! Forwarders use one unit for each message; a client's transaction is one unit ([`transaction`]).

mod committer;
mod loan;
mod round;
mod transaction;

use smallvec::SmallVec;
use tokio::sync::{mpsc, oneshot};

pub(super) use self::committer::Committer;
pub(super) use self::loan::{Lent, LoanRequest, Part, Returned};
pub use self::transaction::Transaction;
use super::{Mailbox, Output, PartitionHandle, Response};
use crate::{Command, Refusal};

/// Commands that take effect together or not at all, in order.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) steps: SmallVec<[UnitStep; 2]>,
}

/// The part of a unit for one partition.
#[derive(Debug)]
pub(super) struct UnitStep {
    pub(super) entity: PartitionHandle,
    pub(super) command: Command,
    /// The entity whose transfer dead-letter queue keeps messages that `entity` refuses.
    pub(super) via: Option<PartitionHandle>,
}

/// Why a unit did not take effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitFailure {
    /// Index of the first step that was refused.
    pub(super) step: usize,
    pub(super) refusal: Refusal,
}

/// The outcome of one unit.
pub(super) type UnitOutcome = Result<(), UnitFailure>;

/// Units that are answered together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) units: Vec<Unit>,
    pub(super) answer: Answer,
}

/// The destination of a job's answer.
#[derive(Debug)]
pub(super) enum Answer {
    /// One outcome for each unit that was carried out or refused: all, or as many of the first ones as the round had room for.
    Outcomes(oneshot::Sender<Vec<UnitOutcome>>),
    /// The answer for a transaction, which is a single unit.
    Transaction(CommitAnswer),
}

/// The answer to the commit of a transaction, sent when it is dropped. If the committer panicked, the outcome is unknown:
/// the commit is refused like everything under way when the shard is lost.
#[derive(Debug)]
pub(super) struct CommitAnswer {
    mailbox: Mailbox,
    tag: u64,
    outcome: Result<(), Refusal>,
}

impl CommitAnswer {
    pub(super) const fn new(mailbox: Mailbox, tag: u64) -> Self {
        Self { mailbox, tag, outcome: Err(Refusal::Unavailable) }
    }
}

impl Drop for CommitAnswer {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.outcome, Ok(()));
        self.mailbox.put(Output::Response { tag: self.tag, response: Response::Done(outcome) });
    }
}

impl Answer {
    /// Sends the answer, once the changes are durable.
    fn give(self, outcomes: Vec<UnitOutcome>) {
        match self {
            // The requester may be gone.
            Self::Outcomes(answer) => drop(answer.send(outcomes)),
            Self::Transaction(mut answer) => {
                let refused = outcomes.into_iter().find_map(Result::err);
                answer.outcome = refused.map_or(Ok(()), |failure| Err(failure.refusal));
            }
        }
    }
}

/// Accepts jobs for the committer; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct JointSteps(mpsc::UnboundedSender<Job>);

impl JointSteps {
    /// The sending and the receiving end. The queue needs no bound: forwarders and connections await their answers.
    pub(super) fn new() -> (Self, Jobs) {
        let (jobs, receiver) = mpsc::unbounded_channel();
        (Self(jobs), Jobs(receiver))
    }

    /// Submits a job. If the committer has ended, it is refused.
    pub(super) fn submit(&self, job: Job) {
        if let Err(refused) = self.0.send(job) {
            refuse(refused.0, &Refusal::Unavailable);
        }
    }

    /// Carries out units and returns their outcomes, see [`Answer::Outcomes`]; `None` when the namespace is about to end.
    pub(super) async fn carry_out(&self, units: Vec<Unit>) -> Option<Vec<UnitOutcome>> {
        let (answer, answered) = oneshot::channel();
        self.submit(Job { units, answer: Answer::Outcomes(answer) });
        answered.await.ok()
    }
}

/// The receiving end of [`JointSteps`]. Jobs left in it when the committer ends are refused.
#[derive(Debug)]
pub(super) struct Jobs(mpsc::UnboundedReceiver<Job>);

impl Drop for Jobs {
    fn drop(&mut self) {
        self.0.close();
        while let Ok(job) = self.0.try_recv() {
            refuse(job, &Refusal::Unavailable);
        }
    }
}

/// Refuses all units of a job.
fn refuse(job: Job, refusal: &Refusal) {
    let refused = || Err(UnitFailure { step: 0, refusal: refusal.clone() });
    let outcomes = job.units.iter().map(|_| refused()).collect();
    job.answer.give(outcomes);
}
