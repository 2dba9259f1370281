//! Partitioned entities: to which of 16 partitions a message belongs, and the sequence number that clients see of it.
//!
//! In Service Bus the partitions of an entity are brokers of their own, each of which counts for itself, and the topmost 16 bits of
//! a sequence number name one. Here an entity has one actor and counts its messages once, whether it is partitioned or not. A
//! message of a partitioned entity keeps, beside its number, the partition to which its key belongs. Clients see both in
//! one number, and only here one is made of the other. Without partitions every message is of partition 0, so both numbers
//! are the same.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::{MessageKey, SequenceNumber, session_key};

/// Low bits of a shown number, which hold the number that the entity counted.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// What a message of a partitioned entity is assigned to a partition by: a hash of its key. Two keys are equal if their hashes
/// are, since two different keys of one transaction or batch have the same one about once in 2^64 cases.
///
/// The partition that follows from it is stored: the same key gives the same hash for ever.
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

    /// The key that a sender gave a message: its session, however that is spelled, else its partition key. The empty session
    /// yields to a partition key (azure-sdk-for-js 31736).
    #[must_use]
    pub fn sent_with(session_id: Option<&str>, partition_key: Option<&str>) -> Option<Self> {
        let is_given = |text: &&str| !text.is_empty();
        match (session_id.filter(is_given), partition_key.filter(is_given)) {
            (Some(session), _) => Some(Self::of(&session_key(session))),
            (None, Some(key)) => Some(Self::of(key)),
            (None, None) => session_id.map(Self::of),
        }
    }

    /// What a message sent to a partitioned entity is known by: for duplicate detection, and for its partition. Duplicates
    /// have the same message id and the same key of the sender's; the message id is the key only where the sender gave
    /// none. The id is given only where duplicates are looked for.
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
    /// How many there are.
    pub const COUNT: u8 = 16;

    /// The partition of this index; `None` beyond the last.
    #[must_use]
    pub const fn new(index: u8) -> Option<Self> {
        if index < Self::COUNT { Some(Self(index)) } else { None }
    }

    /// From 0 to 15.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// The partition of messages with this key.
    #[must_use]
    pub const fn of(key: PartitionKey) -> Self {
        Self((key.0 % Self::COUNT as u64) as u8)
    }

    /// The partition of messages without a key that are sent together, the first of them under this number: the partitions
    /// take turns.
    #[must_use]
    pub const fn in_turn(first: SequenceNumber) -> Self {
        Self((first.0 % Self::COUNT as u64) as u8)
    }

    /// The number under which clients see a message of this partition.
    #[must_use]
    pub const fn shown(self, number: SequenceNumber) -> SequenceNumber {
        SequenceNumber((self.0 as u64) << NUMBER_BITS | number.0)
    }
}

impl SequenceNumber {
    /// The partition that a shown number names, if there is such a one, and the number that the entity counted. The message of
    /// that number need not be of that partition: then the shown number names no message.
    #[must_use]
    pub fn split(self) -> (Option<KeyPartition>, Self) {
        let index = u8::try_from(self.0 >> NUMBER_BITS).ok();
        (index.and_then(KeyPartition::new), Self(self.0 & NUMBER_MASK))
    }

    /// Where browsing from a shown number starts in the order in which the entity counted. In a partitioned entity that is one
    /// order for all partitions, so the number behind the last one shown goes on with all of them. A number of a partition that
    /// does not exist is behind all messages.
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

    /// Partitions are stored. The keys "1" and "2" are those of .NET's live test
    /// `TransactionThrowsWhenOperationsOfDifferentPartitionsAreInSameTransaction`: they belong to different partitions.
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
        fn what_is_shown_leads_back(index in 0..KeyPartition::COUNT, number in 0..=NUMBER_MASK) {
            let (partition, number) = (KeyPartition::new(index).unwrap(), SequenceNumber(number));
            let shown = partition.shown(number);
            prop_assert_eq!(shown.split(), (Some(partition), number));
            prop_assert!(i64::try_from(shown.0).is_ok(), "clients read it as a positive long");
            prop_assert_eq!(KeyPartition::default().shown(number), number);
        }

        /// Whatever a client sends is a number as shown, of at most one message.
        #[test]
        fn each_number_is_shown_of_one_message_at_most(any in any::<u64>()) {
            let (partition, number) = SequenceNumber(any).split();
            match partition {
                Some(partition) => prop_assert_eq!(partition.shown(number), SequenceNumber(any)),
                None => prop_assert!(any >= u64::from(KeyPartition::COUNT) << NUMBER_BITS),
            }
        }

        /// The number behind the last one shown starts behind that message, whatever partitions both are of.
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
