//! Partitioned entities: the assignment of messages to 16 partitions, and the sequence numbers that clients see.
//!
//! In Service Bus the partitions of an entity are separate brokers, each with its own counter, and the topmost 16 bits of a
//! sequence number contain the partition. Here an entity has one actor and one counter, whether it is partitioned or not. A
//! message of a partitioned entity has an internal number and the partition of its key. The number that clients see combines
//! the two; only this module converts between them. Without partitions every message is in partition 0, so both numbers are
//! the same.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::{MessageKey, SequenceNumber, session_key};

/// Low bits of a client-visible number, which contain the internal number.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// The key by which a message of a partitioned entity is assigned to a partition, as a hash. Keys are compared by their
/// hashes: different keys in one transaction or batch collide with a probability of about 2^-64.
///
/// The resulting partition is stored, so the hash of a key must never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionKey(u64);

impl PartitionKey {
    /// The hash of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(key.as_bytes());
        Self(hasher.finish())
    }

    /// The key set by a sender: the session id, case-insensitively, else the partition key. A partition key takes precedence
    /// over the empty session id (azure-sdk-for-js 31736).
    #[must_use]
    pub fn sent_with(session_id: Option<&str>, partition_key: Option<&str>) -> Option<Self> {
        let is_given = |text: &&str| !text.is_empty();
        match (session_id.filter(is_given), partition_key.filter(is_given)) {
            (Some(session), _) => Some(Self::of(&session_key(session))),
            (None, Some(key)) => Some(Self::of(key)),
            (None, None) => session_id.map(Self::of),
        }
    }

    /// The keys of a message sent to a partitioned entity: for duplicate detection, and for its partition. Duplicates have the
    /// same message id and the same sender's key; the message id is used as key only if the sender set none. `message_id` is
    /// passed only with duplicate detection.
    #[must_use]
    pub fn of_message(
        session_id: Option<&str>,
        partition_key: Option<&str>,
        message_id: Option<&str>,
    ) -> (Option<MessageKey>, Option<Self>) {
        let sent = Self::sent_with(session_id, partition_key);
        let message_key = message_id.map(|id| match sent {
            Some(key) => MessageKey::of_keyed(id, key.0),
            None => MessageKey::of(id),
        });
        (message_key, sent.or_else(|| message_id.map(Self::of)))
    }
}

/// One of the 16 partitions of a partitioned entity; the first one in entities without partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct KeyPartition(u8);

impl KeyPartition {
    /// Number of partitions.
    pub const COUNT: u8 = 16;

    /// The partition of this index; `None` beyond the last.
    #[must_use]
    pub const fn new(index: u8) -> Option<Self> {
        if index < Self::COUNT { Some(Self(index)) } else { None }
    }

    /// The index, from 0 to 15.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// The partition of messages with this key.
    #[must_use]
    pub const fn of(key: PartitionKey) -> Self {
        Self((key.0 % Self::COUNT as u64) as u8)
    }

    /// The partition of a batch of messages without a key, whose first internal number is `first`: partitions are used in
    /// turn.
    #[must_use]
    pub const fn in_turn(first: SequenceNumber) -> Self {
        Self((first.0 % Self::COUNT as u64) as u8)
    }

    /// The client-visible number of a message in this partition.
    #[must_use]
    pub const fn shown(self, number: SequenceNumber) -> SequenceNumber {
        SequenceNumber((self.0 as u64) << NUMBER_BITS | number.0)
    }
}

impl SequenceNumber {
    /// Splits a client-visible number into the partition, if it is valid, and the internal number. If the message with the
    /// internal number is in another partition, there is no message with this client-visible number.
    #[must_use]
    pub fn split(self) -> (Option<KeyPartition>, Self) {
        let index = u8::try_from(self.0 >> NUMBER_BITS).ok();
        (index.and_then(KeyPartition::new), Self(self.0 & NUMBER_MASK))
    }

    /// The internal number at which browsing from a client-visible number starts. The order of internal numbers covers all
    /// partitions, so browsing continues with all of them after the last returned number. A number with an invalid partition
    /// is after all messages.
    pub(crate) fn start(self, is_partitioned: bool) -> Self {
        match self.split() {
            _ if !is_partitioned => self,
            (Some(_), number) => number,
            (None, _) => Self(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Partitions are stored, so they must not change. The keys "1" and "2" are from .NET's live test
    /// `TransactionThrowsWhenOperationsOfDifferentPartitionsAreInSameTransaction`: they must be in different partitions.
    #[test]
    fn partitions_of_keys_are_pinned() {
        let partition = |key| KeyPartition::of(PartitionKey::of(key)).index();
        assert_eq!(["1", "2", "", "order-7", "session-1"].map(partition), [2, 7, 7, 5, 14]);
    }

    #[test]
    fn a_session_is_the_key_however_it_is_spelled() {
        let key = PartitionKey::sent_with(Some("Order-7"), Some("Order-7"));
        assert_eq!(key, Some(PartitionKey::of("order-7")));
        assert_eq!(PartitionKey::sent_with(Some("oRDER-7"), None), key);
        assert_eq!(PartitionKey::sent_with(None, Some("k")), Some(PartitionKey::of("k")));
        assert_ne!(PartitionKey::sent_with(None, Some("K")), PartitionKey::sent_with(None, Some("k")));
        assert_eq!(PartitionKey::sent_with(Some(""), Some("k")), Some(PartitionKey::of("k")));
        assert_eq!(PartitionKey::sent_with(Some(""), Some("")), Some(PartitionKey::of("")));
        assert_eq!(PartitionKey::sent_with(None, Some("")), None);
    }

    #[test]
    fn a_message_id_is_the_key_where_there_is_no_other() {
        let (plain, by_id) = PartitionKey::of_message(None, None, Some("m"));
        assert_eq!((plain, by_id), (Some(MessageKey::of("m")), Some(PartitionKey::of("m"))));
        let (keyed, by_key) = PartitionKey::of_message(None, Some("k"), Some("m"));
        assert_eq!(by_key, Some(PartitionKey::of("k")));
        let (of_another, _) = PartitionKey::of_message(None, Some("l"), Some("m"));
        assert!(keyed != plain && keyed != of_another, "an id is compared within its key");
        assert_eq!(PartitionKey::of_message(None, Some("k"), Some("m")).0, keyed);
        assert_eq!(PartitionKey::of_message(None, None, None), (None, None));
    }

    #[test]
    fn keys_and_turns_use_every_partition() {
        let mut by_key = [0; KeyPartition::COUNT as usize];
        for number in 0..1600 {
            by_key[usize::from(KeyPartition::of(PartitionKey::of(&format!("key-{number}"))).index())] += 1;
        }
        assert!(by_key.iter().all(|count| (50..200).contains(count)), "{by_key:?}");
        let in_turn: Vec<u8> =
            (1..=16).map(|number| KeyPartition::in_turn(SequenceNumber(number)).index()).collect();
        assert_eq!(in_turn, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0]);
    }

    #[test]
    fn a_number_names_its_partition_in_the_topmost_16_bits() {
        let partition = KeyPartition::new(15).unwrap();
        assert_eq!(partition.shown(SequenceNumber(1)), SequenceNumber(0x000f_0000_0000_0001));
        assert_eq!(KeyPartition::new(16), None);
        assert_eq!(SequenceNumber(16 << 48 | 1).split(), (None, SequenceNumber(1)));
        assert_eq!(SequenceNumber(u64::MAX).split().0, None);
        assert_eq!(SequenceNumber(16 << 48 | 1).start(true), SequenceNumber(u64::MAX));
        assert_eq!(SequenceNumber(3 << 48 | 9).start(true), SequenceNumber(9));
        assert_eq!(SequenceNumber(3 << 48 | 9).start(false), SequenceNumber(3 << 48 | 9));
    }

    proptest! {
        #[test]
        fn a_shown_number_leads_back_to_partition_and_number(index in 0..KeyPartition::COUNT, number in 0..=NUMBER_MASK) {
            let (partition, number) = (KeyPartition::new(index).unwrap(), SequenceNumber(number));
            let shown = partition.shown(number);
            prop_assert_eq!(shown.split(), (Some(partition), number));
            prop_assert!(i64::try_from(shown.0).is_ok(), "clients read it as a positive long");
            prop_assert_eq!(KeyPartition::default().shown(number), number);
        }

        /// Every number sent by a client is the client-visible number of at most one message.
        #[test]
        fn each_number_is_shown_of_one_message_at_most(any in any::<u64>()) {
            let (partition, number) = SequenceNumber(any).split();
            match partition {
                Some(partition) => prop_assert_eq!(partition.shown(number), SequenceNumber(any)),
                None => prop_assert!(any >= u64::from(KeyPartition::COUNT) << NUMBER_BITS),
            }
        }

        /// The number after the last one returned starts after that message, whatever the partitions are.
        #[test]
        fn browsing_goes_on_behind_the_last_one_shown(
            index in 0..KeyPartition::COUNT,
            number in 0..NUMBER_MASK,
        ) {
            let shown = KeyPartition::new(index).unwrap().shown(SequenceNumber(number));
            prop_assert_eq!(SequenceNumber(shown.0 + 1).start(true), SequenceNumber(number + 1));
        }
    }
}
