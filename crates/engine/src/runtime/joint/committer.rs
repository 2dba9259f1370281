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
            for left in self.round(take_round(&mut waiting)).await.into_iter().rev() {
                waiting.push_front(left);
            }
            // Under load the next round is ready at once: the participants get their turn first.
            tokio::task::yield_now().await;
        }
    }

    /// Carries out jobs; returns those for which the round had no room.
    async fn round(&mut self, jobs: Vec<Job>) -> Vec<Job> {
        let (participants, places) = borrow_all(&jobs).await;
        let shortage = self.growth.shortage();
        let place = |entity: &PartitionHandle| places.get(&entity.identity()).copied().unwrap_or(usize::MAX);
        let mut round = Round::new(&*self.shard, &mut self.random, shortage, participants);
        let (answers, left) = carry_out_some(&mut round, jobs, place);
        let commits = round.end();
        tokio::spawn(answer_when_durable(commits, answers));
        left
    }
}

/// Carries out jobs until the round is long, at least one unit; returns the jobs that were not begun. Of the last one there may
/// be units left, which have no outcome: its requester submits them again, because a batch of the store that is refused has to
/// stop everything after it. A transaction is one unit.
fn carry_out_some(
    round: &mut Round<'_>,
    jobs: Vec<Job>,
    place: impl Fn(&PartitionHandle) -> usize + Copy,
) -> (Vec<Waiting>, Vec<Job>) {
    let mut answers = Vec::with_capacity(jobs.len());
    let mut jobs = jobs.into_iter();
    while !round.is_long()
        && let Some(job) = jobs.next()
    {
        let mut outcomes = Vec::with_capacity(job.units.len());
        for unit in job.units {
            outcomes.push(round.unit(unit, place));
            if round.is_long() {
                break;
            }
        }
        answers.push(Waiting { answer: job.answer, outcomes });
    }
    (answers, jobs.collect())
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
        all.push(lent.map(Participant::new).ok_or_else(|| entity.refusal_when_gone()));
    }
    (all, places)
}

#[cfg(test)]
mod tests {
    use peeklock_storage::{Epoch, MemoryStore, PartitionId, ShardId, Store};
    use rand::SeedableRng;
    use smallvec::SmallVec;

    use super::super::{Unit, UnitStep};
    use super::*;
    use crate::partition::{Outputs, Partition};
    use crate::{Command, Intent, NewMessage, QueueId, Rule, SubscriptionOptions, Timestamp, TopicOptions};

    const SUBSCRIPTIONS: u64 = 300;
    const MESSAGES: usize = 100;

    fn topic(random: &mut StdRng) -> Partition {
        let mut topic = Partition::new(QueueId(1), TopicOptions::default());
        for number in 0..SUBSCRIPTIONS {
            let command = Command::DeclareSubscription {
                intent: Intent::Create,
                queue: QueueId(2 + number),
                name: format!("s{number}").into(),
                options: SubscriptionOptions::default(),
                rules: vec![Rule::default_rule()],
            };
            topic.handle(Timestamp(1), random, None, command, &mut Outputs::default());
        }
        topic
    }

    fn job(units: usize) -> Job {
        let (entity, ..) = PartitionHandle::of_actor(Epoch::default());
        let unit = || {
            let command = Command::Send { messages: SmallVec::from_iter([NewMessage::default()]) };
            let step = UnitStep { entity: entity.clone(), command, via: None };
            Unit { steps: SmallVec::from_iter([step]) }
        };
        let (answer, _) = oneshot::channel();
        Job { units: (0..units).map(|_| unit()).collect(), answer: Answer::Outcomes(answer) }
    }

    /// A round of all would make every other transaction and forwarder wait for 30 000 copies.
    #[tokio::test]
    async fn messages_for_many_subscriptions_take_several_rounds() {
        let lease = MemoryStore::new().acquire(ShardId(0)).await.unwrap();
        let mut random = StdRng::seed_from_u64(1);
        let mut partition = topic(&mut random);
        let mut jobs = vec![job(MESSAGES), job(1)];
        let mut sent: Vec<usize> = Vec::new();
        while !jobs.is_empty() {
            let (back, _returned) = oneshot::channel();
            let lent = Lent { id: PartitionId(1), partition, now: Timestamp(2), back };
            let participants = vec![Ok(Participant::new(lent))];
            let mut round = Round::new(&**lease.shard(), &mut random, None, participants);
            let (answers, left) = carry_out_some(&mut round, jobs, |_| 0);
            partition = round.into_first();
            let outcomes: usize = answers.iter().map(|waiting| waiting.outcomes.len()).sum();
            assert!((1..=14).contains(&outcomes), "{outcomes} messages to {SUBSCRIPTIONS} subscriptions");
            sent.push(outcomes);
            // The requester submits the rest of its job again.
            let rest = MESSAGES.saturating_sub(sent.iter().sum());
            jobs = if rest > 0 && left.len() == 1 { vec![job(rest), job(1)] } else { left };
        }
        assert_eq!(sent.iter().sum::<usize>(), MESSAGES + 1);
        assert_eq!(partition.subscription_counts(QueueId(2)).unwrap().active, MESSAGES as u64 + 1);
    }
}
