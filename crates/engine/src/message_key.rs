//! 128-bit hash of a message id, for duplicate detection.

use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The remembered hash of a message id. Ids are compared exactly and case-sensitively (semantics §11). With 128 bits, two
/// different ids of a window collide about as rarely as two random UUIDs; a client gains nothing by constructing a collision
/// of its own ids.
///
/// The hash is stored, so it must never change for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageKey([u64; 2]);

impl MessageKey {
    /// The key of an id, given as text in the form used by the SDKs.
    #[must_use]
    pub fn of(message_id: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(message_id.as_bytes());
        let hash = hasher.finish128();
        Self([hash.h1, hash.h2])
    }

    /// The key of an id that is unique only among messages with the same partition key: the hash of the partition key is
    /// included, after a byte that occurs in no text.
    pub(crate) fn of_keyed(message_id: &str, partition_key: u64) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(message_id.as_bytes());
        hasher.write(&[0xff]);
        hasher.write(&partition_key.to_le_bytes());
        let hash = hasher.finish128();
        Self([hash.h1, hash.h2])
    }

    /// The key in its stored form.
    pub(crate) const fn halves(self) -> [u64; 2] {
        self.0
    }

    /// The inverse of [`Self::halves`].
    pub(crate) const fn from_halves(halves: [u64; 2]) -> Self {
        Self(halves)
    }

    /// Some of its bits, for an index.
    pub(crate) const fn fragment(self) -> u32 {
        (self.0[0] >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are stored, so they must not change.
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
