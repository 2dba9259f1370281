//! The task that carries out joint steps, in rounds.

use std::collections::{HashMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use peeklock_storage::Shard;
use rand::rngs::StdRng;
use tokio::sync::oneshot;

use super::round::{Participant, Round};
use super::{Answer, Job, Jobs, Lent, LoanRequest, UnitOutcome};
use crate::Refusal;
use crate::runtime::PartitionHandle;
use crate::runtime::growth::{Growth, refusal_of_batch};
use crate::runtime::host::FailureScope;

/// Maximum number of units in one round, unless a single job has more: participants wait for the whole round.
const ROUND_UNITS_MAX: usize = 512;

/// See the module.
pub(in crate::runtime) struct Committer {
    pub(in crate::runtime) shard: Arc<dyn Shard>,
    pub(in crate::runtime) scope: FailureScope,
    pub(in crate::runtime) growth: Growth,
    /// For random values in actions of rules.
    pub(in crate::runtime) random: StdRng,
}

impl Committer {
    /// Runs until all [`super::JointSteps`] are dropped, or the shard is lost.
    pub(in crate::runtime) async fn run(mut self, mut jobs: Jobs) {
        let scope = self.scope.clone();
        let _guard = scope.clone().guard();
        let mut failed = pin!(scope.failed());
        let mut waiting = VecDeque::new();
        loop {
            if waiting.is_empty() {
                tokio::select! {
                    biased;
                    _ = &mut failed => return,
                    job = jobs.0.recv() => match job {
                        Some(job) => waiting.push_back(job),
                        None => return,
                    },
                }
            }
            while let Ok(job) = jobs.0.try_recv() {
                waiting.push_back(job);
            }
            self.round(take_round(&mut waiting)).await;
            // Under load the next round is ready at once: the participants get their turn first.
            tokio::task::yield_now().await;
        }
    }

    async fn round(&mut self, jobs: Vec<Job>) {
        let (participants, places) = borrow_all(&jobs).await;
        let shortage = self.growth.shortage();
        let place = |entity: &PartitionHandle| places.get(&entity.identity()).copied().unwrap_or(usize::MAX);
        let mut round = Round::new(&*self.shard, &mut self.random, shortage, participants);
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let outcomes = job.units.into_iter().map(|unit| round.unit(unit, place)).collect();
            answers.push(Waiting { answer: job.answer, outcomes });
        }
        let commits = round.end();
        tokio::spawn(answer_when_durable(commits, answers));
    }
}

/// A carried-out job that waits for the store.
struct Waiting {
    answer: Answer,
    outcomes: Vec<(UnitOutcome, usize)>,
}

/// Answers jobs once their batches are durable. `outcomes` contain the batch index of each unit.
async fn answer_when_durable(commits: Vec<peeklock_storage::Commit>, answers: Vec<Waiting>) {
    let mut results = Vec::with_capacity(commits.len());
    for commit in commits {
        results.push(commit.await);
    }
    for Waiting { answer, outcomes } in answers {
        let outcome = |(outcome, batch): (UnitOutcome, usize)| match results.get(batch) {
            Some(Err(error)) if outcome.is_ok() => {
                Err(super::UnitFailure { step: 0, refusal: refusal_of_batch(error) })
            }
            _ => outcome,
        };
        answer.give(outcomes.into_iter().map(outcome).collect());
    }
}

/// Takes the jobs of the next round.
fn take_round(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let (mut round, mut units) = (Vec::new(), 0);
    while let Some(job) = waiting.front() {
        units += job.units.len();
        if !round.is_empty() && units > ROUND_UNITS_MAX {
            break;
        }
        round.extend(waiting.pop_front());
    }
    round
}

/// Indexes of participants in their list, by the identity of their handles.
type Places = HashMap<usize, usize>;

/// Borrows the state of every partition that the jobs concern, or returns why it can't be borrowed. All requests are sent
/// before the first is awaited.
async fn borrow_all(jobs: &[Job]) -> (Vec<Result<Participant, Refusal>>, Places) {
    let mut asked: Vec<(PartitionHandle, Option<oneshot::Receiver<Lent>>)> = Vec::new();
    let mut places = Places::new();
    let steps = jobs.iter().flat_map(|job| &job.units).flat_map(|unit| &unit.steps);
    for entity in steps.flat_map(|step| [Some(&step.entity), step.via.as_ref()]).flatten() {
        places.entry(entity.identity()).or_insert_with(|| {
            let (lent, receiver) = oneshot::channel();
            let is_asked = entity.borrow_state(LoanRequest { lent });
            asked.push((entity.clone(), is_asked.then_some(receiver)));
            asked.len() - 1
        });
    }
    let mut all = Vec::with_capacity(asked.len());
    for (entity, receiver) in asked {
        let lent = match receiver {
            Some(receiver) => receiver.await.ok(),
            None => None,
        };
        all.push(lent.map(Participant::new).ok_or_else(|| entity.why_gone()));
    }
    (all, places)
}
