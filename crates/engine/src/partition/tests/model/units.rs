//! Units of the model: commands that take effect as a whole or not at all, decided in advance and by the present time, even
//! without a tick.

use std::collections::{BTreeMap, BTreeSet};

use super::comparison::{Comparison, equal, mask};
use super::draft::Move;
use super::queue::Queue;
use super::{Model, Rule, Turn};
use crate::{Command, LockToken, QueueId, ReceiverId, Refusal, SequenceNumber, Settlement, Timestamp};

/// The number of the unit's first refused command, and the refusal.
type Outcome = Result<(), (usize, Refusal)>;

/// The resources used by the preceding commands.
#[derive(Default)]
struct Taken {
    tokens: BTreeSet<LockToken>,
    numbers: BTreeSet<SequenceNumber>,
    /// Growth of the entity, in bytes.
    bytes: u64,
    /// Bytes of completed messages, where they make room.
    freed: u64,
    /// Sizes of session states after the commands so far.
    states: BTreeMap<ReceiverId, u64>,
}

impl Model {
    /// The expected outcome of a unit.
    fn unit(&mut self, now: u64, commands: &[Command]) -> Outcome {
        self.turn.now = now;
        self.turn.tokens = BTreeMap::new();
        if self.turn.keeps(Rule::TheWindowEndsForAUnit) {
            self.forget();
        }
        let mut taken = Taken::default();
        for (index, command) in commands.iter().enumerate() {
            if let Err(refusal) = self.can_carry_out(command, &mut taken) {
                let first = if self.turn.keeps(Rule::AUnitIsAllOrNothing) { 0 } else { index };
                commands.iter().take(first).for_each(|command| self.carry_out_one(command));
                return Err((index, refusal));
            }
        }
        for command in commands {
            self.carry_out_one(command);
            if self.turn.breaks(Rule::NobodyIsServedWithinAUnit) {
                self.queues.values_mut().for_each(|queue| queue.look_after(&mut self.turn));
                self.turn.effects.clear();
            }
        }
        Ok(())
    }

    fn carry_out_one(&mut self, command: &Command) {
        let used = self.use_of(command).filter(|_| self.turn.keeps(Rule::AUnitIsUse));
        self.carry_out(command.clone());
        if let Some(used) = used {
            self.use_queue(used);
        }
    }

    fn can_carry_out(&mut self, command: &Command, taken: &mut Taken) -> Result<(), Refusal> {
        if self.ended {
            return Err(Refusal::EntityDeleted);
        }
        match command {
            Command::Send { messages } => {
                let bytes = self.check_sizes(messages)?;
                let limit_bytes = self.options.max_size_bytes();
                let others = if self.turn.keeps(Rule::MessagesOfAUnitFitTogether) { taken.bytes } else { 0 };
                if self.size_bytes() + others + bytes > limit_bytes + taken.freed {
                    return Err(Refusal::EntityFull { limit_bytes });
                }
                taken.bytes += bytes;
                Ok(())
            }
            Command::KeepUndelivered { messages, .. } => {
                taken.bytes += messages.iter().map(|one| one.content.len() as u64).sum::<u64>();
                Ok(())
            }
            Command::Settle { queue, tokens, settlement } => {
                tokens.iter().try_for_each(|token| self.can_settle(*queue, *token, settlement, taken))
            }
            Command::CancelScheduled { numbers } => {
                self.check_cancels(numbers)?;
                let entity = self.queues.get(&super::ENTITY).unwrap();
                entity.clone().cancel(&self.turn, numbers)?;
                let once = self.turn.keeps(Rule::AMessageIsCancelledOnceInAUnit);
                let again = numbers.iter().find(|number| !taken.numbers.insert(**number) && once);
                again.map_or(Ok(()), |number| Err(Refusal::ScheduledNotFound(number.0)))
            }
            Command::SetSessionState { receiver, state } => {
                let bytes = state.as_ref().map_or(0, |bytes| bytes.len() as u64);
                self.can_set_state(*receiver, bytes, taken)
            }
            _ if self.turn.breaks(Rule::OthersAreNoPartOfAUnit) => Ok(()),
            _ => Err(Refusal::NotAllowed("")),
        }
    }

    fn can_settle(
        &mut self,
        id: QueueId,
        token: LockToken,
        settlement: &Settlement,
        taken: &mut Taken,
    ) -> Result<(), Refusal> {
        self.check_settles(id, settlement)?;
        let mut queue = self.queues.get(&id.0).ok_or(Refusal::MessageLockLost)?.clone();
        if self.turn.keeps(Rule::ALockThatIsOverDoesNotHoldInAUnit) {
            queue.forget_late_locks(&self.turn);
        }
        let locked = queue.messages.values().find(|one| one.lock.is_some_and(|lock| lock.token == token));
        let bytes = locked.map_or(0, |message| message.bytes);
        queue.settle(&self.turn, token, settlement)?;
        if !taken.tokens.insert(token) && self.turn.keeps(Rule::ALockIsSettledOnceInAUnit) {
            return Err(Refusal::MessageLockLost);
        }
        if *settlement == Settlement::Complete && self.turn.breaks(Rule::AUnitMakesNoRoomForItself) {
            taken.freed += bytes;
        }
        Ok(())
    }

    fn can_set_state(&mut self, receiver: ReceiverId, bytes: u64, taken: &mut Taken) -> Result<(), Refusal> {
        let size_bytes = self.size_bytes();
        let (message_bytes, limit_bytes) =
            (self.options.max_message_size_bytes(), self.options.max_size_bytes());
        let (queue, turn) = self.at(receiver)?;
        let mut queue = queue.clone();
        queue.forget_late_locks(turn);
        let before = queue.state_of(receiver)?.map_or(0, |state| state.len() as u64);
        let before = taken.states.get(&receiver).copied().unwrap_or(before);
        if bytes > message_bytes {
            return Err(Refusal::MessageTooLarge { size_bytes: bytes, limit_bytes: message_bytes });
        }
        let others = if self.turn.keeps(Rule::StatesOfAUnitTakeRoom) { taken.bytes } else { 0 };
        if bytes > before && size_bytes + others + bytes > limit_bytes + before {
            return Err(Refusal::EntityFull { limit_bytes });
        }
        if self.turn.keeps(Rule::StatesOfAUnitTakeRoom) {
            taken.bytes += bytes.saturating_sub(before);
        }
        taken.states.insert(receiver, bytes);
        Ok(())
    }
}

impl Queue {
    /// Removes expired locks of messages and sessions. A holder that waits for messages keeps its session.
    fn forget_late_locks(&mut self, turn: &Turn) {
        let now = turn.now;
        let keeps = turn.keeps(Rule::WhoAsksForMessagesKeepsTheSession);
        let holders = self.sessions.values().filter_map(|session| session.holder);
        let late: Vec<ReceiverId> = holders
            .filter(|(receiver, until)| *until <= now && !(keeps && self.is_waiting(*receiver)))
            .map(|(receiver, _)| receiver)
            .collect();
        for session in self.sessions.values_mut() {
            session.holder = session.holder.filter(|(receiver, _)| !late.contains(receiver));
        }
        let alive: Vec<u64> = self.numbers_where(|message| {
            let in_session = self.is_in_session(message);
            let until = if in_session {
                self.session_end(message)
            } else {
                message.lock.map(|lock| lock.locked_until.0)
            };
            until.is_some_and(|until| until > now)
        });
        for (number, message) in &mut self.messages {
            message.lock = message.lock.filter(|_| alive.contains(number));
        }
    }
}

impl Comparison {
    /// Lets both carry out commands as a whole or not at all; then processes the queues, as an actor does.
    pub(super) fn compare_unit(&mut self, moves: &[Move]) -> Result<(), String> {
        let commands: Vec<Command> = moves.iter().map(|one| self.part_of_unit(one)).collect();
        self.outputs.effects.clear();
        let now = Timestamp(self.now);
        let events = self.outputs.events.len();
        let named = commands.iter().enumerate();
        let mut prepared = self.partition.prepare(now, &mut self.random, named, &mut self.outputs);
        if let Err((_, refusal)) = &mut prepared {
            mask(refusal);
        }
        if self.outputs.events.len() > events || !self.outputs.effects.is_empty() {
            return Err(format!("preparing {commands:?} changed something"));
        }
        equal("unit", &commands, &prepared, &self.model.unit(self.now, &commands))?;
        if prepared.is_err() {
            return self.compare_entities(&Command::Tick);
        }
        for command in &commands {
            let Self { partition, random, outputs, .. } = self;
            let mut left = usize::MAX;
            let carried_out = partition.carry_out(now, random, command.clone(), &mut left, outputs);
            carried_out.map_err(|refusal| format!("{command:?} was prepared and refused: {refusal}"))?;
        }
        if !self.outputs.effects.is_empty() {
            return Err(format!("{commands:?} had effects: {:?}", self.outputs.effects));
        }
        self.compare_entities(&Command::Tick)?;
        self.compare(Command::Tick)
    }

    /// A command; one that needs a lock usually gets a held one.
    fn part_of_unit(&mut self, one: &Move) -> Command {
        match (one, self.command(one)) {
            (Move::Settle(picks, ..), Command::Settle { settlement, .. }) => {
                let mut held = self.model.held();
                // And one that does not exist.
                held.push((super::super::rig::QUEUE, LockToken(5)));
                let (queue, token) = held[picks[0] % held.len()];
                Command::Settle { queue, tokens: [token].into_iter().collect(), settlement }
            }
            (Move::SetState(pick, _), Command::SetSessionState { receiver, state }) => {
                let receiver = self.model.holders().nth(*pick).unwrap_or(receiver);
                Command::SetSessionState { receiver, state }
            }
            (_, command) => command,
        }
    }
}

impl Model {
    /// Locks of messages, the latest message first.
    fn held(&self) -> Vec<(QueueId, LockToken)> {
        let of = |queue: &Queue| {
            let id = queue.id;
            queue.messages.values().rev().filter_map(|one| Some((id, one.lock?.token))).collect::<Vec<_>>()
        };
        self.queues.values().flat_map(of).collect()
    }

    /// The holders of sessions.
    fn holders(&self) -> impl Iterator<Item = ReceiverId> {
        let sessions = self.queues.values().flat_map(|queue| queue.sessions.values());
        sessions.filter_map(|session| Some(session.holder?.0))
    }
}
