//! 128-bit hash of a message id, for duplicate detection.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// What is remembered of a message id, which is compared exactly and with regard to case (semantics §11): 128 bits, so that
/// two different ids of a window meet about as seldom as two random UUIDs. Nobody gains by making two of their own meet.
///
/// It is stored: the same id gives the same key for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageKey([u64; 2]);

impl MessageKey {
    /// The key of an id, given as the text that the SDKs show.
    #[must_use]
    pub fn of(message_id: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(message_id.as_bytes());
        let hash = hasher.finish128();
        Self([hash.h1, hash.h2])
    }

    /// The key of an id that counts only among messages with the same partition key: that key's hash is hashed with it, behind a
    /// byte that no text has.
    pub(crate) fn of_keyed(message_id: &str, partition_key: u64) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(message_id.as_bytes());
        hasher.write(&[0xff]);
        hasher.write(&partition_key.to_le_bytes());
        let hash = hasher.finish128();
        Self([hash.h1, hash.h2])
    }

    /// The key as it is stored.
    pub(crate) const fn halves(self) -> [u64; 2] {
        self.0
    }

    /// The inverse of [`Self::halves`].
    pub(crate) const fn from_halves(halves: [u64; 2]) -> Self {
        Self(halves)
    }

    /// Some of its bits, to find it by.
    pub(crate) const fn fragment(self) -> u32 {
        (self.0[0] >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are stored.
    #[test]
    fn keys_are_pinned_and_tell_ids_apart() {
        assert_eq!(MessageKey::of(""), MessageKey([9_070_429_420_880_611_664, 17_650_397_300_749_173_314]));
        assert_eq!(
            MessageKey::of("order-7"),
            MessageKey([10_194_673_822_550_818_814, 847_416_545_639_199_081])
        );
        let key = MessageKey::of("order-7");
        assert_eq!(MessageKey::from_halves(key.halves()), key);
        assert_ne!(MessageKey::of("order-7"), MessageKey::of("Order-7"));
        let keyed = MessageKey::of_keyed("order-7", 7);
        assert_eq!(keyed, MessageKey([8_129_526_516_859_641_358, 4_987_685_218_845_110_859]));
        assert_ne!(keyed, MessageKey::of_keyed("order-7", 8));
    }
}
