//! Up to 64 messages with neighbouring numbers: bit sets for frequent queries, records packed without gaps.

use super::record::Record;
use crate::Timestamp;

/// Numbers covered by one chunk.
pub(super) const CHUNK_NUMBERS: u64 = u64::BITS as u64;
/// Records of removed messages are dropped when at most one in this many stored records is in use.
const SPARSE_RATIO: usize = 4;

/// Messages whose numbers share all but the last six bits. Bit `n` of every set stands for the number that ends
/// in `n`.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Messages that exist.
    present: u64,
    /// Those of them that are not delivered to receivers: deferred, scheduled and held back.
    aside: u64,
    /// Those of them that are locked.
    locked: u64,
    /// Bits for which `records` has an element; a superset of `present`.
    stored: u64,
    /// Earliest expiry among the available.
    soonest_expiry: Timestamp,
    /// One for each bit of `stored`, in order.
    records: Vec<Record>,
}

impl Default for Chunk {
    fn default() -> Self {
        Self {
            present: 0,
            aside: 0,
            locked: 0,
            stored: 0,
            soonest_expiry: Timestamp::NEVER,
            records: Vec::new(),
        }
    }
}

impl Chunk {
    /// Whether no message is left.
    pub(super) const fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Bits of available messages.
    pub(super) const fn available(&self) -> u64 {
        self.present & !self.aside & !self.locked
    }

    /// Whether the message at `bit` is available.
    pub(super) const fn is_available(&self, bit: u32) -> bool {
        self.available() & mask(bit) != 0
    }

    /// Bits of locked messages, without deferred ones.
    pub(super) const fn locked(&self) -> u64 {
        self.locked & !self.aside
    }

    /// Whether a message is locked, deferred ones included.
    pub(super) const fn has_locked(&self) -> bool {
        self.locked != 0
    }

    /// Bits of messages that exist.
    pub(super) const fn present(&self) -> u64 {
        self.present
    }

    /// Earliest expiry among the available, [`Timestamp::NEVER`] if none expires.
    pub(super) const fn soonest_expiry(&self) -> Timestamp {
        self.soonest_expiry
    }

    /// The message at `bit`.
    pub(super) fn get(&self, bit: u32) -> Option<&Record> {
        if self.present & mask(bit) == 0 {
            return None;
        }
        self.records.get(self.rank(bit))
    }

    /// Whether the message at `bit` is locked.
    pub(super) const fn is_locked(&self, bit: u32) -> bool {
        self.locked & mask(bit) != 0
    }

    /// The first available message that is past its expiry.
    pub(super) fn first_overdue(&self, now: Timestamp) -> Option<(u32, &Record)> {
        if self.soonest_expiry > now {
            return None;
        }
        bits(self.available()).find_map(|bit| {
            let record = self.get(bit)?;
            (record.expiry() <= now).then_some((bit, record))
        })
    }

    /// Stores a message, or its new record; its lock is unchanged.
    pub(super) fn put(&mut self, bit: u32, record: Record) {
        let before = self.available_expiry(bit);
        let aside = record.is_aside();
        let rank = self.rank(bit);
        if self.stored & mask(bit) == 0 {
            self.records.insert(rank, record);
            self.stored |= mask(bit);
        } else if let Some(slot) = self.records.get_mut(rank) {
            *slot = record;
        }
        self.present |= mask(bit);
        self.aside = if aside { self.aside | mask(bit) } else { self.aside & !mask(bit) };
        self.expiry_changed(bit, before);
    }

    /// Locks or unlocks the message at `bit`.
    pub(super) fn set_locked(&mut self, bit: u32, locked: bool) {
        let before = self.available_expiry(bit);
        if locked {
            self.locked |= mask(bit) & self.present;
        } else {
            self.locked &= !mask(bit);
        }
        self.expiry_changed(bit, before);
    }

    /// Removes the message at `bit`.
    pub(super) fn remove(&mut self, bit: u32) -> Option<Record> {
        if self.present & mask(bit) == 0 {
            return None;
        }
        let before = self.available_expiry(bit);
        let rank = self.rank(bit);
        let record = self.records.get_mut(rank).map(std::mem::take);
        self.present &= !mask(bit);
        self.aside &= !mask(bit);
        self.locked &= !mask(bit);
        self.expiry_changed(bit, before);
        self.close_gaps();
        record
    }

    /// Position of `bit` in `records`.
    const fn rank(&self, bit: u32) -> usize {
        (self.stored & (mask(bit) - 1)).count_ones() as usize
    }

    /// The expiry of the message at `bit` if it is available, else never.
    fn available_expiry(&self, bit: u32) -> Timestamp {
        if self.available() & mask(bit) == 0 {
            return Timestamp::NEVER;
        }
        self.get(bit).map_or(Timestamp::NEVER, Record::expiry)
    }

    /// Updates `soonest_expiry` after a change at `bit`, whose expiry was `before`.
    fn expiry_changed(&mut self, bit: u32, before: Timestamp) {
        let after = self.available_expiry(bit);
        if after <= self.soonest_expiry {
            self.soonest_expiry = after;
        } else if before == self.soonest_expiry {
            let expiries = bits(self.available()).map(|bit| self.available_expiry(bit));
            self.soonest_expiry = expiries.min().unwrap_or(Timestamp::NEVER);
        }
    }

    /// Releases memory once most stored records belong to removed messages.
    fn close_gaps(&mut self) {
        if self.present.count_ones() as usize * SPARSE_RATIO > self.records.len() {
            return;
        }
        let (stored, present) = (self.stored, self.present);
        let mut stored_bits = bits(stored);
        self.records.retain(|_| stored_bits.next().is_some_and(|bit| present & mask(bit) != 0));
        self.records.shrink_to_fit();
        self.stored = present;
    }
}

/// The set that holds only `bit`.
const fn mask(bit: u32) -> u64 {
    1 << (bit % u64::BITS)
}

/// The members of a set in ascending order.
pub(super) fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = set.trailing_zeros();
        (set != 0).then(|| {
            set &= set - 1;
            bit
        })
    })
}
