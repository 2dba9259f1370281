//! Partitions of a partitioned entity: the choice of a message's partition, and the related checks.

use super::super::queue::Queue;
use super::super::record::Record;
use super::super::step::Step;
use crate::{KeyPartition, LockToken, NewMessage, Refusal, SequenceNumber};

/// Text of Service Bus (amqpnetlite 120; azure-service-bus 103).
const DISTINCT_KEYS: Refusal = Refusal::NotAllowed(
    "Batching brokered messages with distinct SessionId or PartitionKey is not supported for an entity with partitioning enabled.",
);
/// Text of Service Bus (azure-sdk-for-python 21955).
const DISTINCT_KEYS_OR_IDS: Refusal = Refusal::NotAllowed(
    "Batching brokered messages with distinct SessionId, PartitionKey, or MessageId is not supported for an entity with partitioning and duplicate detection enabled.",
);
/// Text of Service Bus (azure-sdk-for-python 21955).
const NO_KEY: Refusal = Refusal::NotAllowed(
    "Message to a partitioned entity with duplicate detection enabled must have either PartitionKey or MessageId.",
);

impl Step<'_> {
    /// Messages sent in one batch are stored in one partition, so they must have the same key, or none. Forwarded messages
    /// were sent one by one.
    pub(super) fn check_partition_keys(&self, messages: &[NewMessage]) -> Result<(), Refusal> {
        if !self.state().options.is_partitioned() {
            return Ok(());
        }
        let mut keys = messages.iter().filter(|message| message.origin.is_none());
        let Some(first) = keys.next().map(|message| message.partition_key) else { return Ok(()) };
        let looks_for_duplicates = self.state().options.requires_duplicate_detection();
        if keys.any(|message| message.partition_key != first) {
            return Err(if looks_for_duplicates { DISTINCT_KEYS_OR_IDS } else { DISTINCT_KEYS });
        }
        if first.is_none() && looks_for_duplicates { Err(NO_KEY) } else { Ok(()) }
    }

    /// The round-robin partition for messages without a key that are stored now.
    pub(in crate::partition) fn partition_in_turn(&self) -> KeyPartition {
        KeyPartition::in_turn(self.state().entity.next_number)
    }

    /// The partition of a new message: that of its reserved number, else that of its key, else the next in turn.
    pub(in crate::partition) fn partition_of(
        &self,
        message: &NewMessage,
        in_turn: KeyPartition,
    ) -> KeyPartition {
        if !self.state().options.is_partitioned() {
            return KeyPartition::default();
        }
        let reserved = message.reserved_number.and_then(|shown| shown.split().0);
        reserved.or_else(|| message.partition_key.map(KeyPartition::of)).unwrap_or(in_turn)
    }

    /// The client-visible number of a locked message, in a partitioned entity.
    pub(in crate::partition) fn shown_number_of(&self, token: LockToken) -> Option<SequenceNumber> {
        let held = self.state().locks.find(token)?;
        let record = self.state().record(held.queue, held.sub_queue, held.number)?;
        Some(record.partition().shown(held.number))
    }
}

/// The message with this client-visible number, with its internal number, if `found` returns it. The same internal number in
/// another partition is a different message.
pub(super) fn named<'a>(
    shown: SequenceNumber,
    found: impl FnOnce(SequenceNumber) -> Option<&'a Record>,
) -> Option<(SequenceNumber, &'a Record)> {
    let (_, number) = shown.split();
    let record = found(number)?;
    (record.partition().shown(number) == shown).then_some((number, record))
}

/// Whether a client-visible number belongs to a quarantined message. If its record is damaged, its partition is unknown and
/// any matches.
pub(super) fn is_quarantined(queue: &Queue, shown: SequenceNumber) -> bool {
    let (_, number) = shown.split();
    match queue.quarantined.get(&number) {
        Some(Some(record)) => record.partition().shown(number) == shown,
        Some(None) => true,
        None => false,
    }
}
