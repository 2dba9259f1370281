//! Restricts a transaction on a partitioned entity to one partition, as in Service Bus, where each partition is a
//! broker of its own.

use peeklock_engine::{Command, KeyPartition, PartitionKey, SequenceNumber};

use super::{Sender, TxnId};
use crate::servicebus::entities::Entity;
use crate::servicebus::{ConnectionHandler, Fault};

/// The first sentence is Service Bus's own wording (azure-sdk-for-net 18160).
const SPANS_PARTITIONS: Fault = Fault::NotAllowed(
    "Local transactions cannot span multiple entities or partitions. All messages of a transaction on a partitioned entity need the same session id or partition key.",
);
/// From the documentation of partitioned entities.
const NO_KEY: Fault = Fault::NotAllowed(
    "A message that is sent to a partitioned entity in a transaction needs a session id or partition key; where duplicates are detected, its message id suffices.",
);

/// The partition and key of the operations of a transaction so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OnePartition {
    partition: Option<KeyPartition>,
    /// Key of the messages sent: different keys are refused even if they select the same partition.
    key: Option<PartitionKey>,
}

impl OnePartition {
    /// Adds a command for a partitioned entity. `numbers` are the sequence numbers that the engine answered
    /// provisionally; `session` is the key of the session whose state it sets.
    ///
    /// # Errors
    /// It has a message of another partition, or one without a key. Nothing is added in that case.
    pub(super) fn add(
        &mut self,
        command: &Command,
        numbers: &[SequenceNumber],
        session: Option<&str>,
    ) -> Result<(), Fault> {
        let mut with = *self;
        match command {
            Command::Send { messages } => {
                messages.iter().try_for_each(|message| with.send(message.partition_key))?;
            }
            Command::CancelScheduled { numbers } => with.join_all(numbers)?,
            Command::SetSessionState { .. } => {
                let key = session.and_then(|session| PartitionKey::sent_with(Some(session), None));
                key.map_or(Ok(()), |key| with.join(KeyPartition::of(key)))?;
            }
            _ => with.join_all(numbers)?,
        }
        *self = with;
        Ok(())
    }

    fn send(&mut self, key: Option<PartitionKey>) -> Result<(), Fault> {
        let key = key.ok_or(NO_KEY)?;
        if *self.key.get_or_insert(key) != key {
            return Err(SPANS_PARTITIONS);
        }
        self.join(KeyPartition::of(key))
    }

    fn join_all(&mut self, numbers: &[SequenceNumber]) -> Result<(), Fault> {
        numbers.iter().filter_map(|number| number.split().0).try_for_each(|partition| self.join(partition))
    }

    fn join(&mut self, partition: KeyPartition) -> Result<(), Fault> {
        if *self.partition.get_or_insert(partition) == partition { Ok(()) } else { Err(SPANS_PARTITIONS) }
    }
}

impl ConnectionHandler {
    /// Checks that an operation concerns the same partition as earlier ones, if the entity is partitioned. Messages
    /// sent by way of another entity belong to no partition of it.
    pub(super) fn check_partition(
        &mut self,
        id: TxnId,
        (entity, sender): (&Entity, Option<&Sender>),
        command: &Command,
        numbers: &[SequenceNumber],
    ) -> Result<(), Fault> {
        if !entity.is_partitioned || sender.is_some_and(|sender| sender.via.is_some()) {
            return Ok(());
        }
        let session = match command {
            Command::SetSessionState { receiver, .. } => {
                self.receivers.get(receiver).and_then(|receiver| receiver.session.as_deref())
            }
            _ => None,
        };
        self.transactions.table.add_to_partition(id, command, numbers, session)
    }
}

#[cfg(test)]
mod tests {
    use peeklock_engine::{LockToken, NewMessage, QueueId, ReceiverId, Settlement};

    use super::*;

    fn send(keys: &[Option<&str>]) -> Command {
        let message = |key: &Option<&str>| NewMessage {
            partition_key: key.map(PartitionKey::of),
            ..NewMessage::default()
        };
        Command::Send { messages: keys.iter().map(message).collect() }
    }

    fn complete() -> Command {
        let tokens = [LockToken(1)].into_iter().collect();
        Command::Settle { queue: QueueId(1), tokens, settlement: Settlement::Complete }
    }

    /// The sequence number of a message with this key.
    fn number(key: &str) -> SequenceNumber {
        KeyPartition::of(PartitionKey::of(key)).shown(SequenceNumber(9))
    }

    fn refused(work: &[(Command, Vec<SequenceNumber>)]) -> Option<Fault> {
        let mut all = OnePartition::default();
        work.iter().find_map(|(command, numbers)| all.add(command, numbers, Some("1")).err())
    }

    #[test]
    fn work_of_one_key_is_one_unit() {
        let work = [
            (send(&[Some("1"), Some("1")]), vec![]),
            (complete(), vec![number("1"), number("1")]),
            (Command::CancelScheduled { numbers: vec![number("1")] }, vec![]),
            (Command::SetSessionState { receiver: ReceiverId(1), state: None }, vec![]),
        ];
        assert_eq!(refused(&work), None);
    }

    /// The keys of .NET's `TransactionThrowsWhenOperationsOfDifferentPartitionsAreInSameTransaction`.
    #[test]
    fn work_of_different_keys_does_not() {
        let one = (send(&[Some("1")]), vec![]);
        for other in [
            (send(&[Some("2")]), vec![]),
            (complete(), vec![number("2")]),
            (Command::CancelScheduled { numbers: vec![number("2")] }, vec![]),
        ] {
            assert_eq!(refused(&[one.clone(), other.clone()]), Some(SPANS_PARTITIONS), "{other:?}");
            assert_eq!(refused(&[other, one.clone()]), Some(SPANS_PARTITIONS));
        }
        let state = (Command::SetSessionState { receiver: ReceiverId(1), state: None }, vec![]);
        assert_eq!(refused(&[(complete(), vec![number("2")]), state]), Some(SPANS_PARTITIONS));
    }

    /// "b" and "c" select the same partition.
    #[test]
    fn different_keys_are_refused_even_where_they_lead_to_one_partition() {
        assert_eq!(number("b"), number("c"));
        let work = [(send(&[Some("b")]), vec![]), (send(&[Some("c")]), vec![])];
        assert_eq!(refused(&work), Some(SPANS_PARTITIONS));
    }

    #[test]
    fn a_message_needs_a_key_and_a_refused_one_leaves_no_trace() {
        let mut all = OnePartition::default();
        assert_eq!(all.add(&send(&[None]), &[], None), Err(NO_KEY));
        assert_eq!(all.add(&send(&[Some("1"), None]), &[], None), Err(NO_KEY));
        assert_eq!(all, OnePartition::default());
    }
}
