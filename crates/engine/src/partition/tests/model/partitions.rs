//! Partitions in the model: the partition of a message, and the message with a client-visible number.

use super::queue::Queue;
use super::{Model, Rule, Turn};
use crate::{KeyPartition, NewMessage, QueueId, Refusal, SequenceNumber};

impl Model {
    /// The partition of a new message.
    pub(super) fn partition_of(&self, new: &NewMessage) -> KeyPartition {
        if !self.options.is_partitioned() {
            return KeyPartition::default();
        }
        let key = new.partition_key.filter(|_| self.turn.keeps(Rule::TheKeyDecidesThePartition));
        let without_key = if self.turn.breaks(Rule::MessagesWithoutAKeyTakeTurns) {
            KeyPartition::default()
        } else if self.turn.breaks(Rule::ABatchBelongsToOnePartition) {
            self.turn_now()
        } else {
            self.in_turn
        };
        key.map_or(without_key, KeyPartition::of)
    }

    /// The partition whose turn it is for messages without a key.
    pub(super) fn turn_now(&self) -> KeyPartition {
        KeyPartition::new((self.queues[&super::ENTITY].next_number % 16) as u8).unwrap()
    }

    /// Refusals because of the keys of messages sent together.
    pub(super) fn check_keys(&self, messages: &[NewMessage]) -> Result<(), Refusal> {
        if !self.options.is_partitioned() {
            return Ok(());
        }
        let first = messages.first().map(|one| one.partition_key);
        let is_mixed = messages.iter().any(|one| Some(one.partition_key) != first);
        let is_keyless = first == Some(None) && self.options.requires_duplicate_detection();
        if is_mixed && self.turn.keeps(Rule::ABatchHasOneKey)
            || is_keyless && self.turn.keeps(Rule::DuplicatesNeedAKey)
        {
            return Err(Refusal::NotAllowed(""));
        }
        Ok(())
    }

    /// The client-visible number of a message; for moves also one with the wrong partition.
    pub(super) fn shown(&self, queue: QueueId, number: SequenceNumber, wrong: bool) -> SequenceNumber {
        let queue = self.queues.get(&queue.0);
        let message = queue.and_then(|queue| queue.messages.get(&number.0));
        let partition = message.map_or(KeyPartition::default(), |message| message.view.partition);
        let wrong = u8::from(wrong && self.options.is_partitioned());
        KeyPartition::new((partition.index() + wrong) % KeyPartition::COUNT).unwrap().shown(number)
    }

    /// A start for browsing.
    pub(super) fn somewhere(&self, number: u64) -> SequenceNumber {
        let partition = if self.options.is_partitioned() { number * 7 % 16 } else { 0 };
        KeyPartition::new(partition as u8).unwrap().shown(SequenceNumber(number))
    }
}

impl Queue {
    /// The message with a client-visible number.
    pub(super) fn named(&self, turn: &Turn, shown: SequenceNumber, rule: Rule) -> Option<u64> {
        let number = shown.0 % (1 << 48);
        let message = self.messages.get(&number)?;
        (message.view.shown_number() == shown || turn.breaks(rule)).then_some(number)
    }
}
