//! Commands that take effect together with commands of other partitions: they are prepared first, so that carrying them out
//! can't fail.
//!
//! Preparing changes nothing. It reserves only in its own list, for the duration of one unit: a lock can be settled once, a
//! scheduled message cancelled once, a reserved number used once, and everything that the unit adds (messages, including
//! undelivered ones that are kept, and session states) must fit together. What the unit removes makes no room for it. Prepared
//! commands are carried out at once or not at all, so nothing needs to be undone.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use smallvec::SmallVec;

use super::step::Step;
use super::{Outputs, Partition};
use crate::event::Event;
use crate::{
    Command, Effect, LockToken, MessageAction, NewMessage, QueueId, QueuePath, ReceiverId, Refusal, Reply,
    RequestId, SequenceNumber, SettleFailure, Settlement, Timestamp,
};

/// The resources used by the preceding commands of the unit. Empty sets allocate nothing.
#[derive(Debug, Default)]
struct Reserved {
    tokens: BTreeSet<LockToken>,
    cancelled: BTreeSet<SequenceNumber>,
    /// Messages of administrators' actions, by their client-visible numbers.
    acted: BTreeSet<(QueuePath, SequenceNumber)>,
    /// Previously reserved numbers used by messages.
    numbers: BTreeSet<SequenceNumber>,
    /// Sizes of session states after the commands so far, by holder, in bytes.
    state_bytes: BTreeMap<ReceiverId, u64>,
    /// Growth of the entity, in bytes.
    content_bytes: u64,
}

/// Marks a command whose reply is returned to the caller.
const JOINT: RequestId = RequestId(u64::MAX);

impl Partition {
    /// Checks whether all commands can be carried out now, one after the other. The caller labels each with an `N`.
    ///
    /// # Errors
    /// The label of the first refused command, and the refusal.
    pub fn prepare<'a, N>(
        &mut self,
        now: Timestamp,
        random: &mut dyn Rng,
        commands: impl Iterator<Item = (N, &'a Command)>,
        outputs: &mut Outputs,
    ) -> Result<(), (N, Refusal)> {
        let step = Step::new(now, &self.rule_limits, &mut self.state, random, outputs);
        let mut reserved = Reserved::default();
        for (name, command) in commands {
            step.prepare(command, &mut reserved).map_err(|refusal| (name, refusal))?;
        }
        Ok(())
    }

    /// Total size in bytes of the variable parts of the existing records that a command rewrites; what it adds to them is part
    /// of its own size.
    pub(crate) fn rewritten_bytes(&self, now: Timestamp, command: &Command) -> usize {
        let state = &self.state;
        let locked = |token: &LockToken| {
            let held = state.locks.get(*token, now)?;
            Some(state.record(held.queue, held.sub_queue, held.number)?.variable_bytes())
        };
        let named = |source: &QueuePath, shown: &SequenceNumber| {
            let (_, number) = shown.split();
            Some(state.record(source.queue, source.sub_queue, number)?.variable_bytes())
        };
        match command {
            Command::Settle { settlement: Settlement::Complete | Settlement::Release, .. }
            | Command::ActOnMessages { action: MessageAction::Delete, .. } => 0,
            Command::Settle { tokens, .. } => tokens.iter().filter_map(locked).sum(),
            Command::ActOnMessages { source, numbers, .. } => {
                numbers.iter().filter_map(|number| named(source, number)).sum()
            }
            _ => 0,
        }
    }

    /// Carries out one prepared command and nothing else: due timers and receivers wait for the next call of [`Self::handle`].
    /// `changed_bytes_left` is what the unit's copies may still have as changed parts of their own, in bytes.
    ///
    /// # Errors
    /// It can't be carried out, so it was not prepared. Events of earlier commands remain.
    pub fn carry_out(
        &mut self,
        now: Timestamp,
        random: &mut dyn Rng,
        command: Command,
        changed_bytes_left: &mut usize,
        outputs: &mut Outputs,
    ) -> Result<(), Refusal> {
        let mut step = Step::new(now, &self.rule_limits, &mut self.state, random, outputs);
        step.changed_bytes_left = *changed_bytes_left;
        step.run_prepared(JOINT, command);
        *changed_bytes_left = step.changed_bytes_left;
        match outputs.effects.pop_if(|effect| matches!(effect, Effect::Reply { request: JOINT, .. })) {
            Some(Effect::Reply { reply, .. }) => refusal_of(reply).map_or(Ok(()), Err),
            _ => Err(Refusal::NotAllowed(NOT_TRANSACTIONAL)),
        }
    }
}

/// Refusal of commands that can't be part of a transaction.
const NOT_TRANSACTIONAL: &str = "The operation can't be part of a transaction.";

fn refusal_of(reply: Reply) -> Option<Refusal> {
    match reply {
        Reply::Sent(result) => result.err(),
        Reply::Done(result) => result.err(),
        Reply::Settled(failures) => failures.into_iter().next().map(|failure| failure.refusal),
        _ => Some(Refusal::NotAllowed(NOT_TRANSACTIONAL)),
    }
}

impl Step<'_> {
    fn prepare(&self, command: &Command, reserved: &mut Reserved) -> Result<(), Refusal> {
        if self.state().ended {
            return Err(Refusal::EntityDeleted);
        }
        match command {
            Command::Send { messages } => {
                reserved.content_bytes = self.admit(messages, reserved.content_bytes)?;
                messages.iter().try_for_each(|message| self.check_reserved_number(message, reserved))
            }
            Command::KeepUndelivered { messages, .. } => {
                // They are kept even if the entity is full, but use up room for other messages.
                let bytes = messages.iter().map(|message| message.content.len() as u64).sum();
                reserved.content_bytes = reserved.content_bytes.saturating_add(bytes);
                Ok(())
            }
            Command::Settle { queue, tokens, settlement } => {
                let mut failures = self.unsettleable((*queue, tokens), settlement, reserved);
                failures.next().map_or(Ok(()), |failure| Err(failure.refusal))
            }
            Command::CancelScheduled { numbers } => {
                self.cancellable(numbers)?;
                let acted = |number: SequenceNumber| (QueuePath::main(self.state().entity.id), number);
                let again = numbers.iter().find(|number| {
                    reserved.acted.contains(&acted(**number)) || !reserved.cancelled.insert(**number)
                });
                again.map_or(Ok(()), |number| Err(Refusal::ScheduledNotFound(number.0)))
            }
            Command::ActOnMessages { source, numbers, action } => {
                self.actionable(*source, numbers, action)?;
                let is_cancelled = |number: &SequenceNumber| {
                    *source == QueuePath::main(self.state().entity.id) && reserved.cancelled.contains(number)
                };
                if let Some(number) = numbers.iter().find(|number| is_cancelled(number)) {
                    return Err(Refusal::MessageNotFound(number.0));
                }
                let again = numbers.iter().find(|number| !reserved.acted.insert((*source, **number)));
                again.map_or(Ok(()), |number| Err(Refusal::MessageNotFound(number.0)))
            }
            Command::SetSessionState { receiver, state } => {
                let size_bytes = state.as_ref().map_or(0, |state| state.len() as u64);
                self.prepare_session_state(*receiver, size_bytes, reserved)
            }
            _ => Err(Refusal::NotAllowed(NOT_TRANSACTIONAL)),
        }
    }

    /// The settlements that are not possible, or not after the preceding commands of the unit.
    fn unsettleable(
        &self,
        (queue, tokens): (QueueId, &[LockToken]),
        settlement: &Settlement,
        reserved: &mut Reserved,
    ) -> impl Iterator<Item = SettleFailure> {
        tokens.iter().enumerate().filter_map(move |(index, token)| {
            let refusal = match self.check_settlement(queue, *token, settlement) {
                Ok(_) if reserved.tokens.insert(*token) => return None,
                Ok(_) => Refusal::MessageLockLost,
                Err(refusal) => refusal,
            };
            Some(SettleFailure { index, refusal })
        })
    }

    fn prepare_session_state(
        &self,
        receiver: ReceiverId,
        size_bytes: u64,
        reserved: &mut Reserved,
    ) -> Result<(), Refusal> {
        let now_bytes = self.held_state_bytes(receiver)?;
        let before_bytes = reserved.state_bytes.get(&receiver).copied().unwrap_or(now_bytes);
        self.check_state_size(before_bytes, size_bytes, reserved.content_bytes)?;
        let growth_bytes = size_bytes.saturating_sub(before_bytes);
        reserved.content_bytes = reserved.content_bytes.saturating_add(growth_bytes);
        reserved.state_bytes.insert(receiver, size_bytes);
        Ok(())
    }

    /// Refuses a reserved number that already has a message.
    fn check_reserved_number(&self, message: &NewMessage, reserved: &mut Reserved) -> Result<(), Refusal> {
        let Some((_, number)) = message.reserved_number.map(SequenceNumber::split) else { return Ok(()) };
        let queue = &self.state().entity;
        let is_taken = queue.messages.each().iter().any(|messages| messages.get(number).is_some())
            || queue.quarantined.contains_key(&number)
            || !reserved.numbers.insert(number);
        if is_taken { Err(Refusal::Unavailable) } else { Ok(()) }
    }

    /// Answers whether a command could be carried out now; of settlements, which could not. For scheduled messages it reserves
    /// their numbers and returns them.
    pub(super) fn provisional(&mut self, request: Option<RequestId>, command: &Command) {
        let reserved = &mut Reserved::default();
        let possible = match command {
            Command::Settle { queue, tokens, settlement } if !self.state().ended => {
                let failures: Vec<_> = self.unsettleable((*queue, tokens), settlement, reserved).collect();
                if !failures.is_empty() {
                    return self.reply(request, Reply::Settled(failures));
                }
                Ok(())
            }
            _ => self.prepare(command, reserved),
        };
        let numbers = possible.map(|()| self.reserve_numbers(command));
        self.reply(request, Reply::Provisional(numbers));
    }

    fn reserve_numbers(&mut self, command: &Command) -> SmallVec<[SequenceNumber; 1]> {
        let messages = match command {
            Command::Send { messages } => messages,
            Command::Settle { tokens, .. } if self.state().options.is_partitioned() => {
                return tokens.iter().filter_map(|token| self.shown_number_of(*token)).collect();
            }
            _ => return SmallVec::new(),
        };
        let (in_turn, first) = (self.partition_in_turn(), self.state().entity.next_number.0);
        // Also if the scheduled time has passed: the client can't know that, and expects a number for each message.
        let is_scheduled = |message: &&NewMessage| message.scheduled_enqueue_time.is_some();
        let scheduled = messages.iter().filter(is_scheduled).zip(first..);
        let shown = |(message, number)| self.partition_of(message, in_turn).shown(SequenceNumber(number));
        let numbers: SmallVec<[SequenceNumber; 1]> = scheduled.map(shown).collect();
        if !numbers.is_empty() {
            let next = SequenceNumber(first.saturating_add(numbers.len() as u64));
            self.emit(Event::NumbersReserved { next });
        }
        numbers
    }
}
