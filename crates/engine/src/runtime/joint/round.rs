//! One round: prepares and carries out units on borrowed states, and submits the results in as few batches as possible.

use std::sync::Arc;

use peeklock_storage::{Batch, Commit, Error, Limits, Shard};
use rand::rngs::StdRng;

use super::{Lent, Part, Returned, Unit, UnitFailure, UnitOutcome};
use crate::partition::{Outputs, persist, touch};
use crate::runtime::actor::{
    BATCH_BYTES_MAX, TURN_EVENTS_MAX, TURN_VISITS_MAX, changed_bytes_allowed, check_writes,
};
use crate::runtime::forwarder;
use crate::runtime::growth::Shortage;
use crate::runtime::long_work;
use crate::{Command, Durability, Refusal};

/// Visits (see [`Outputs::visits`]) after which a round ends: four thousand copies of messages. More than a turn may have,
/// because a forwarder submits nothing before its last units are durable.
const VISITS_MAX: usize = 4 * TURN_VISITS_MAX;

/// A participating partition, and its changes since the last batch.
#[derive(Debug)]
pub(super) struct Participant {
    lent: Lent,
    outputs: Outputs,
    /// Whether the next batch has changes of it.
    is_concerned: bool,
    parts: Vec<Part>,
    is_broken: bool,
}

impl Participant {
    pub(super) fn new(lent: Lent) -> Self {
        Self { lent, outputs: Outputs::default(), is_concerned: false, parts: Vec::new(), is_broken: false }
    }

    /// Adds the changes to a batch.
    fn persist(&mut self, batch: &mut Batch) {
        let id = self.lent.id;
        if self.outputs.events.iter().any(|event| event.durability() != Durability::Volatile) {
            persist(id, &self.outputs.events, batch);
        }
        // Orders the commit after the partition's earlier ones, even if the batch stores nothing about it.
        touch(id, batch);
    }

    fn note(&mut self, commit: Commit, batch_bytes: usize) {
        let Outputs { events, effects, .. } = std::mem::take(&mut self.outputs);
        self.is_concerned = false;
        self.parts.push(Part { events, effects, commit, batch_bytes });
    }

    fn give_back(self) {
        let Lent { partition, back, .. } = self.lent;
        // The actor waits for its state, unless the process is about to end.
        let _ = back.send(Returned { partition, parts: self.parts, is_broken: self.is_broken });
    }
}

/// A command for the participant with this index.
#[derive(Debug)]
struct Step {
    place: usize,
    command: Command,
    /// The participant whose transfer dead-letter queue keeps refused messages.
    via: Option<usize>,
}

/// The estimated size of a unit's writes.
struct UnitEstimate {
    /// Without copies of topics' messages: their size is known when they are made.
    own_bytes: usize,
    /// At most, with all copies and the parts of them that actions change.
    bytes_max: usize,
}

/// See the module.
pub(super) struct Round<'a> {
    shard: &'a dyn Shard,
    limits: Limits,
    random: &'a mut StdRng,
    shortage: Option<Shortage>,
    participants: Vec<Result<Participant, Refusal>>,
    /// Estimated size of the batch so far, in bytes.
    batch_bytes: usize,
    /// Visited entries (see [`Outputs::visits`]) and events so far.
    visits: usize,
    events: usize,
    commits: Vec<Commit>,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        shard: &'a dyn Shard,
        random: &'a mut StdRng,
        shortage: Option<Shortage>,
        participants: Vec<Result<Participant, Refusal>>,
    ) -> Self {
        let limits = shard.limits();
        let (batch_bytes, visits, events) = (0, 0, 0);
        Self {
            shard,
            limits,
            random,
            shortage,
            participants,
            batch_bytes,
            visits,
            events,
            commits: Vec::new(),
        }
    }

    /// Whether it has done so much that the rest has to wait for another round: all participants wait for its end.
    pub(super) const fn is_long(&self) -> bool {
        self.visits >= VISITS_MAX || self.events >= TURN_EVENTS_MAX
    }

    /// Prepares a unit in all its partitions, and carries it out if none refuses. Returns the outcome and the index of its
    /// batch. `place` finds the index of a participant.
    pub(super) fn unit(
        &mut self,
        unit: Unit,
        place: impl Fn(&crate::runtime::PartitionHandle) -> usize,
    ) -> (UnitOutcome, usize) {
        let step = |step: super::UnitStep| Step {
            place: place(&step.entity),
            command: step.command,
            via: step.via.as_ref().map(&place),
        };
        let steps: Vec<Step> = unit.steps.into_iter().map(step).collect();
        let outcome = long_work::carry_out(self.visits(&steps), || self.attempt(steps));
        (outcome, self.commits.len())
    }

    fn attempt(&mut self, mut steps: Vec<Step>) -> UnitOutcome {
        loop {
            let Err(failure) = self.prepare(&steps) else { break self.carry_out(steps) };
            if !steps.get_mut(failure.step).is_some_and(|step| keep_undelivered(step, &failure.refusal)) {
                break Err(failure);
            }
        }
    }

    /// Upper estimate of the visits of publishing the steps' messages.
    fn visits(&self, steps: &[Step]) -> usize {
        let of = |step: &Step| match (self.participants.get(step.place), &step.command) {
            (Some(Ok(participant)), Command::Send { messages }) => {
                participant.lent.partition.publishing_visits(messages)
            }
            _ => 0,
        };
        steps.iter().map(of).fold(0, usize::saturating_add)
    }

    /// Checks whether every partition can carry out its steps.
    fn prepare(&mut self, steps: &[Step]) -> UnitOutcome {
        let UnitEstimate { own_bytes, bytes_max } = self.estimate(steps)?;
        let limit = self.limits.batch_bytes_max;
        if bytes_max > limit {
            let text =
                format!("The transaction would write {bytes_max} bytes at once; the limit is {limit}.");
            return Err(UnitFailure { step: 0, refusal: Refusal::InvalidArgument(text) });
        }
        let is_beyond = |bytes, max| self.batch_bytes.saturating_add(bytes) > max;
        if self.batch_bytes > 0
            && (is_beyond(own_bytes, limit.min(BATCH_BYTES_MAX)) || is_beyond(bytes_max, limit))
        {
            self.flush();
        }
        for (place, participant) in self.participants.iter_mut().enumerate() {
            let here = || steps.iter().enumerate().filter(|(_, step)| step.place == place);
            let (Ok(participant), Some(_)) = (participant, here().next()) else { continue };
            let Participant { lent, outputs, .. } = participant;
            let commands = here().map(|(step, Step { command, .. })| (step, command));
            lent.partition
                .prepare(lent.now, self.random, commands, outputs)
                .map_err(|(step, refusal)| UnitFailure { step, refusal })?;
        }
        self.batch_bytes = self.batch_bytes.saturating_add(own_bytes);
        Ok(())
    }

    /// The estimated size of the steps' writes.
    fn estimate(&self, steps: &[Step]) -> Result<UnitEstimate, UnitFailure> {
        let (mut own, mut copies, mut changed) = (0_usize, 0_usize, 0);
        for (step, Step { place, command, .. }) in steps.iter().enumerate() {
            let estimated = match self.participants.get(*place) {
                Some(Ok(Participant { lent, .. })) => {
                    let Lent { partition, now, .. } = lent;
                    let described = command.describe();
                    check_writes(partition, *now, &described, self.shortage, self.limits)
                        .map(|estimate| (estimate, partition.rewritten_bytes(*now, command)))
                }
                Some(Err(refusal)) => Err(refusal.clone()),
                None => Err(Refusal::Unavailable),
            };
            let (estimate, rewritten) = estimated.map_err(|refusal| UnitFailure { step, refusal })?;
            own = own.saturating_add(estimate.own_bytes).saturating_add(rewritten);
            copies = copies.saturating_add(estimate.copies_bytes);
            changed = estimate.changed_bytes.max(changed);
        }
        let bytes_max = own.saturating_add(copies).saturating_add(changed);
        Ok(UnitEstimate { own_bytes: own, bytes_max })
    }

    /// Carries out prepared steps.
    fn carry_out(&mut self, steps: Vec<Step>) -> UnitOutcome {
        let mut changed_bytes_left = changed_bytes_allowed(self.limits.batch_bytes_max);
        for (step, Step { place, command, .. }) in steps.into_iter().enumerate() {
            let Some(Ok(participant)) = self.participants.get_mut(place) else { continue };
            participant.is_concerned = true;
            let Participant { lent, outputs, .. } = participant;
            let (visits, events) = (outputs.visits, outputs.events.len());
            let left = &mut changed_bytes_left;
            let carried_out = lent.partition.carry_out(lent.now, self.random, command, left, outputs);
            self.visits = self.visits.saturating_add(outputs.visits.saturating_sub(visits));
            self.events = self.events.saturating_add(outputs.events.len().saturating_sub(events));
            // The size of copies is known only now.
            self.batch_bytes = self.batch_bytes.saturating_add(std::mem::take(&mut outputs.uncounted_bytes));
            if let Err(refusal) = carried_out {
                tracing::error!(partition = lent.id.0, %refusal, "a prepared command was refused");
                self.give_up();
                return Err(UnitFailure { step, refusal });
            }
        }
        Ok(())
    }

    /// Discards everything not submitted yet; the participants must read their states back.
    fn give_up(&mut self) {
        self.batch_bytes = 0;
        for place in &mut self.participants {
            if place.as_ref().is_ok_and(|participant| participant.is_concerned)
                && let Ok(mut participant) = std::mem::replace(place, Err(Refusal::Unavailable))
            {
                participant.is_broken = true;
                participant.give_back();
            }
        }
        let (notifier, failed) = peeklock_storage::commit();
        notifier.resolve(Err(Error::Unavailable { reason: "a joint step was given up".to_owned() }));
        self.commits.push(failed);
    }

    /// Submits the changes so far as one batch.
    fn flush(&mut self) {
        self.batch_bytes = 0;
        let mut batch = Batch::new();
        let concerned = || |participant: &&mut Participant| participant.is_concerned;
        for participant in self.participants.iter_mut().flatten().filter(concerned()) {
            participant.persist(&mut batch);
        }
        if batch.is_empty() {
            return;
        }
        let bytes = batch.value_bytes();
        let mut commit = self.shard.submit(batch);
        for participant in self.participants.iter_mut().flatten().filter(concerned()) {
            participant.note(commit.share(), bytes);
        }
        self.commits.push(commit);
    }

    /// Returns the state of the first participant.
    #[cfg(test)]
    pub(super) fn into_first(mut self) -> crate::partition::Partition {
        self.flush();
        self.participants.remove(0).unwrap().lent.partition
    }

    /// Submits the rest and returns all states; returns the commits of all batches.
    pub(super) fn end(mut self) -> Vec<Commit> {
        self.flush();
        self.participants.into_iter().flatten().for_each(Participant::give_back);
        self.commits
    }
}

/// Turns a refused step into one that keeps its messages in the transfer dead-letter queue of the entity they were sent
/// via; false if that does not apply.
fn keep_undelivered(step: &mut Step, refusal: &Refusal) -> bool {
    let Some(via) = step.via.take() else { return false };
    let Some(why) = forwarder::why_undeliverable(refusal) else { return false };
    let Command::Send { messages } = std::mem::replace(&mut step.command, Command::Tick) else {
        return false;
    };
    step.place = via;
    step.command = Command::KeepUndelivered { messages, why: Arc::new(why) };
    true
}
