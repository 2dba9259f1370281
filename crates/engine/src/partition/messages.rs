//! The messages of one sub-queue, ordered by number: about 34 bytes for each waiting message, in chunks of 64.
//!
//! Availability and expiry are indexed by chunk, not by message, so long runs of untouched messages cost next to nothing more,
//! and a returned message is at its original position automatically.

use std::collections::{BTreeMap, BTreeSet};

use super::chunk::{CHUNK_NUMBERS, Chunk, bits};
use super::record::Record;
use crate::{MessageState, SequenceNumber, Timestamp};

/// An ordered set of messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// By number divided by [`CHUNK_NUMBERS`]; no chunk is empty.
    chunks: BTreeMap<u64, Chunk>,
    /// Chunks with available messages.
    ready: BTreeSet<u64>,
    /// Chunks with available messages that expire, by their earliest expiry.
    expiries: BTreeSet<(Timestamp, u64)>,
    len: u64,
    deferred: u64,
    locked: u64,
}

impl Messages {
    /// Number of messages.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Number of deferred messages, locked or not.
    pub(super) const fn deferred(&self) -> u64 {
        self.deferred
    }

    /// Number of locked messages that are not deferred.
    pub(super) const fn locked(&self) -> u64 {
        self.locked
    }

    /// Whether a message is locked, deferred ones included. Visits all chunks.
    pub(super) fn has_locked(&self) -> bool {
        self.chunks.values().any(Chunk::has_locked)
    }

    /// One message.
    pub(super) fn get(&self, number: SequenceNumber) -> Option<&Record> {
        let (chunk, bit) = position(number);
        self.chunks.get(&chunk)?.get(bit)
    }

    /// Whether a message is locked.
    pub(super) fn is_locked(&self, number: SequenceNumber) -> bool {
        let (chunk, bit) = position(number);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk.is_locked(bit))
    }

    /// Whether the message is available to receivers.
    pub(super) fn is_available(&self, number: SequenceNumber) -> bool {
        let (chunk, bit) = position(number);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk.is_available(bit))
    }

    /// The available messages from a number on, in order.
    pub(super) fn available_from(
        &self,
        from: SequenceNumber,
    ) -> impl Iterator<Item = (SequenceNumber, &Record)> {
        let (first, first_bit) = position(from);
        self.ready.range(first..).filter_map(|id| Some((*id, self.chunks.get(id)?))).flat_map(
            move |(id, chunk)| {
                let wanted = if id == first { u64::MAX << first_bit } else { u64::MAX };
                bits(chunk.available() & wanted)
                    .filter_map(move |bit| Some((number(id, bit), chunk.get(bit)?)))
            },
        )
    }

    /// Whether any message is available.
    pub(super) fn has_available(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The available message with the lowest number.
    pub(super) fn first_available(&self) -> Option<(SequenceNumber, &Record)> {
        let id = *self.ready.first()?;
        let chunk = self.chunks.get(&id)?;
        let bit = bits(chunk.available()).next()?;
        Some((number(id, bit), chunk.get(bit)?))
    }

    /// The available messages in order.
    pub(super) fn all_available(&self) -> impl Iterator<Item = SequenceNumber> + '_ {
        self.ready.iter().flat_map(|&id| {
            let available = self.chunks.get(&id).map_or(0, Chunk::available);
            bits(available).map(move |bit| number(id, bit))
        })
    }

    /// Earliest expiry among the available messages.
    pub(super) fn soonest_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(expiry, _)| *expiry)
    }

    /// An expired available message, from the chunk with the earliest expiry.
    pub(super) fn first_overdue(&self, now: Timestamp) -> Option<(SequenceNumber, &Record)> {
        let (_, id) = *self.expiries.first()?;
        let (bit, record) = self.chunks.get(&id)?.first_overdue(now)?;
        Some((number(id, bit), record))
    }

    /// All messages from a number on, in order.
    pub(super) fn range(&self, from: SequenceNumber) -> impl Iterator<Item = (SequenceNumber, &Record)> {
        let (first, first_bit) = position(from);
        self.chunks.range(first..).flat_map(move |(&id, chunk)| {
            let wanted = if id == first { u64::MAX << first_bit } else { u64::MAX };
            bits(chunk.present() & wanted).filter_map(move |bit| Some((number(id, bit), chunk.get(bit)?)))
        })
    }

    /// All messages in order.
    pub(super) fn all(&self) -> impl Iterator<Item = (SequenceNumber, &Record)> {
        self.range(SequenceNumber(0))
    }

    /// Stores a message, or its new record; its lock is unchanged.
    pub(super) fn put(&mut self, number: SequenceNumber, record: Record) {
        let (id, bit) = position(number);
        let chunk = self.chunks.entry(id).or_default();
        let before = Summary::of(chunk);
        let replaced = chunk.get(bit);
        self.len += u64::from(replaced.is_none());
        self.deferred += u64::from(is_deferred(&record));
        self.deferred -= u64::from(replaced.is_some_and(is_deferred));
        chunk.put(bit, record);
        let after = Summary::of(chunk);
        self.reindex(id, before, after);
    }

    /// Locks or unlocks a message.
    pub(super) fn set_locked(&mut self, number: SequenceNumber, locked: bool) {
        let (id, bit) = position(number);
        let Some(chunk) = self.chunks.get_mut(&id) else { return };
        let before = Summary::of(chunk);
        chunk.set_locked(bit, locked);
        let after = Summary::of(chunk);
        self.reindex(id, before, after);
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, number: SequenceNumber) -> Option<Record> {
        let (id, bit) = position(number);
        let chunk = self.chunks.get_mut(&id)?;
        let before = Summary::of(chunk);
        let removed = chunk.remove(bit)?;
        let after = Summary::of(chunk);
        if chunk.is_empty() {
            self.chunks.remove(&id);
        }
        self.len -= 1;
        self.deferred -= u64::from(is_deferred(&removed));
        self.reindex(id, before, after);
        Some(removed)
    }

    /// Updates the indexes for one chunk.
    fn reindex(&mut self, id: u64, before: Summary, after: Summary) {
        self.locked = self.locked + u64::from(after.locked) - u64::from(before.locked);
        if before.ready != after.ready {
            if after.ready {
                self.ready.insert(id);
            } else {
                self.ready.remove(&id);
            }
        }
        if before.expiry != after.expiry {
            self.expiries.remove(&(before.expiry, id));
            if after.expiry != Timestamp::NEVER {
                self.expiries.insert((after.expiry, id));
            }
        }
    }
}

/// The indexed properties of a chunk.
#[derive(Clone, Copy)]
struct Summary {
    ready: bool,
    expiry: Timestamp,
    locked: u32,
}

impl Summary {
    const fn of(chunk: &Chunk) -> Self {
        Self {
            ready: chunk.available() != 0,
            expiry: chunk.soonest_expiry(),
            locked: chunk.locked().count_ones(),
        }
    }
}

fn is_deferred(record: &Record) -> bool {
    record.state() == MessageState::Deferred
}

/// Chunk and bit of a number.
const fn position(number: SequenceNumber) -> (u64, u32) {
    (number.0 / CHUNK_NUMBERS, (number.0 % CHUNK_NUMBERS) as u32)
}

/// The number at a chunk's bit.
const fn number(chunk: u64, bit: u32) -> SequenceNumber {
    SequenceNumber(chunk * CHUNK_NUMBERS + bit as u64)
}
