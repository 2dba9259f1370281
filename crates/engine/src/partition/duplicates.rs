//! Duplicate detection (semantics §11): the ids of messages accepted within the window.
//!
//! Ids are kept in the order of acceptance, which is that of the messages' numbers, so the oldest expire from the front
//! without a scan. A lookup is a search in an ordered set of small numbers. An id takes about 50 bytes in memory and 27 in the
//! store, in a number space of the entity's own partition; an entity without duplicate detection stores none of this.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::state::State;
use super::step::{Step, TIMERS_PER_CALL_MAX};
use crate::event::Event;
use crate::stored::read_remembered_id;
use crate::{MessageKey, NewMessage, QueueId, SequenceNumber, Timestamp};

/// Minimum growth of the list's capacity.
const ROOM_MIN: usize = 64;

/// Ids stay in memory a little longer than they count, so that many are removed together.
const LINGER_MS_MAX: u64 = 1_000;
const LINGER_SHARE: u64 = 32;

/// A remembered id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) key: MessageKey,
    /// When its message was accepted.
    pub(super) at: Timestamp,
    /// The number under which it is remembered: in general that of the message.
    pub(super) number: SequenceNumber,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// In the order of numbers.
    all: VecDeque<Remembered>,
    /// Index: a fragment of the key, followed by the place, counted from the first id ever (modulo 2^32).
    places: BTreeSet<u64>,
    /// The place of the first id in `all`, modulo 2^32: there are never as many.
    first: u32,
    /// The numbers of messages whose id is remembered under a later number; rare.
    originals: BTreeMap<SequenceNumber, SequenceNumber>,
}

impl Duplicates {
    /// The message with this id that was accepted within the window.
    fn find(&self, key: MessageKey, window_ms: u64, now: Timestamp) -> Option<&Remembered> {
        let low = u64::from(key.fragment()) << 32;
        let places = self.places.range(low..=low | u64::from(u32::MAX));
        let mut same =
            places.filter_map(|place| self.all.get((*place as u32).wrapping_sub(self.first) as usize));
        same.find(|one| one.key == key && one.at.plus_ms(window_ms) > now)
    }

    /// Remembers an id; numbers must be ascending. `original` is the number of the message, if it has an earlier one.
    pub(super) fn remember(&mut self, one: Remembered, original: Option<SequenceNumber>) {
        self.originals.extend(original.map(|original| (one.number, original)));
        if self.all.len() == self.all.capacity() {
            self.all.reserve_exact(ROOM_MIN.max(self.all.len() / 4));
        }
        let place = self.first.wrapping_add(self.all.len() as u32);
        self.places.insert(place_of(one.key, place));
        self.all.push_back(one);
    }

    /// Removes all ids up to that of the message with this number.
    pub(super) fn forget(&mut self, last: SequenceNumber) {
        self.originals.retain(|number, _| *number > last);
        while let Some(one) = self.all.front().filter(|one| one.number <= last) {
            self.places.remove(&place_of(one.key, self.first));
            self.first = self.first.wrapping_add(1);
            self.all.pop_front();
        }
        if self.all.capacity() > ROOM_MIN.max(self.all.len().saturating_mul(4)) {
            self.all.shrink_to(ROOM_MIN.max(self.all.len() * 2));
        }
    }

    /// When ids must be removed.
    pub(super) fn next_deadline(&self, window_ms: u64) -> Option<Timestamp> {
        let linger_ms = (window_ms / LINGER_SHARE).min(LINGER_MS_MAX);
        self.all.front().map(|first| first.at.plus_ms(window_ms).plus_ms(linger_ms))
    }

    /// The first and the last expired id; at most [`TIMERS_PER_CALL_MAX`] ids.
    fn over(&self, window_ms: u64, now: Timestamp) -> Option<(SequenceNumber, SequenceNumber)> {
        let is_over = |one: &&Remembered| one.at.plus_ms(window_ms) <= now;
        let last = self.all.iter().take(TIMERS_PER_CALL_MAX).take_while(is_over).last()?;
        Some((self.all.front()?.number, last.number))
    }

    /// All ids.
    #[cfg(test)]
    pub(super) fn all(&self) -> Vec<Remembered> {
        assert_eq!(self.all.len(), self.places.len());
        self.all.iter().copied().collect()
    }
}

/// The index entry of an id.
fn place_of(key: MessageKey, place: u32) -> u64 {
    u64::from(key.fragment()) << 32 | u64::from(place)
}

impl State {
    /// When ids must be removed.
    pub(super) fn duplicates_deadline(&self) -> Option<Timestamp> {
        let duplicates = self.duplicates.as_ref()?;
        duplicates.next_deadline(self.entity.policy.duplicate_detection_history_time_window_ms)
    }

    /// Restores a stored id.
    pub(super) fn restore_remembered(
        &mut self,
        id: QueueId,
        number: SequenceNumber,
        value: &[u8],
    ) -> Result<(), String> {
        let (at, key, original) = read_remembered_id(value)?;
        let at = self.restored_instant(at);
        let duplicates = self.duplicates.as_mut().filter(|_| id == self.entity.id);
        let duplicates = duplicates.ok_or("duplicate detection is off here")?;
        duplicates.remember(Remembered { key, at, number }, original);
        Ok(())
    }
}

impl Step<'_> {
    /// The number of the original if this message is a duplicate.
    pub(super) fn original_of(&self, message: &NewMessage) -> Option<SequenceNumber> {
        let duplicates = self.state().duplicates.as_ref()?;
        let window_ms = self.state().entity.policy.duplicate_detection_history_time_window_ms;
        let known = duplicates.find(message.message_key?, window_ms, self.now)?;
        Some(duplicates.originals.get(&known.number).copied().unwrap_or(known.number))
    }

    /// Remembers the id of a message that is accepted now, whatever happens to it later. It is remembered under `number`;
    /// the message may have another one, `original`.
    pub(super) fn remember(
        &mut self,
        key: Option<MessageKey>,
        number: SequenceNumber,
        original: SequenceNumber,
    ) {
        if let (Some(key), Some(_)) = (key, &self.state().duplicates) {
            let original = Some(original).filter(|original| *original != number);
            self.emit(Event::Remembered { number, original, key, at: self.now });
        }
    }

    /// Removes expired ids, a bounded number.
    pub(super) fn forget_expired_ids(&mut self) {
        if self.state().duplicates_deadline().is_none_or(|at| at > self.now) {
            return;
        }
        let window_ms = self.state().entity.policy.duplicate_detection_history_time_window_ms;
        let over = self.state().duplicates.as_ref().and_then(|all| all.over(window_ms, self.now));
        if let Some((first, last)) = over {
            self.emit(Event::Forgotten { first, last });
        }
    }
}
