//! Joint steps: commands for several partitions that take effect as a whole, in one batch of the store.
//!
//! One task for each shard, the *committer*, carries them out one round after the other. It borrows the state of every
//! partition that a round concerns ([`loan`]): an actor that has lent its state handles nothing and submits nothing until it
//! is back, so nothing can come between deciding and submitting, and since one task alone borrows, nobody waits for
//! somebody who waits. Each *unit* of a round is prepared in all its partitions, and carried out if none refuses
//! ([`round`]). All that was carried out becomes one batch, whose commit every participant awaits like one of its own.
//!
//! Forwarders move messages by it, one unit for each message; a client's transaction is one unit ([`transaction`]).

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

/// What a unit asks of one partition.
#[derive(Debug)]
pub(super) struct UnitStep {
    pub(super) entity: PartitionHandle,
    pub(super) command: Command,
    /// Where messages go that the entity does not take: to the transfer dead-letter queue there.
    pub(super) via: Option<PartitionHandle>,
}

/// Why a unit did not take effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitFailure {
    /// The step that was refused first.
    pub(super) step: usize,
    pub(super) refusal: Refusal,
}

/// What became of one unit.
pub(super) type UnitOutcome = Result<(), UnitFailure>;

/// Units that are answered together.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) units: Vec<Unit>,
    pub(super) answer: Answer,
}

/// Who wants to know what became of a job.
#[derive(Debug)]
pub(super) enum Answer {
    /// Each unit apart.
    Outcomes(oneshot::Sender<Vec<UnitOutcome>>),
    /// A transaction: a single unit.
    Transaction(CommitAnswer),
}

/// The answer to the commit of a transaction, sent when it is dropped. Nobody knows what became of one that was dropped without
/// an outcome, because the committer panicked: it is refused like everything that is under way when the shard is lost.
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
    /// Gives the answer, once what took effect is durable.
    fn give(self, outcomes: Vec<UnitOutcome>) {
        match self {
            // Whoever asked may be gone.
            Self::Outcomes(answer) => drop(answer.send(outcomes)),
            Self::Transaction(mut answer) => {
                let refused = outcomes.into_iter().find_map(Result::err);
                answer.outcome = refused.map_or(Ok(()), |failure| Err(failure.refusal));
            }
        }
    }
}

/// Where jobs are handed in; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct JointSteps(mpsc::UnboundedSender<Job>);

impl JointSteps {
    /// The sending and the receiving end. The queue needs no bound: forwarders and connections await their answers.
    pub(super) fn new() -> (Self, Jobs) {
        let (jobs, receiver) = mpsc::unbounded_channel();
        (Self(jobs), Jobs(receiver))
    }

    /// Hands in a job. Without a committer it is refused.
    pub(super) fn submit(&self, job: Job) {
        if let Err(refused) = self.0.send(job) {
            refuse(refused.0, &Refusal::Unavailable);
        }
    }

    /// Carries out units; each is answered apart. `None` when the namespace is about to end.
    pub(super) async fn carry_out(&self, units: Vec<Unit>) -> Option<Vec<UnitOutcome>> {
        let (answer, answered) = oneshot::channel();
        self.submit(Job { units, answer: Answer::Outcomes(answer) });
        answered.await.ok()
    }
}

/// The committer's end of [`JointSteps`]. What is still in it when the committer ends is refused.
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
