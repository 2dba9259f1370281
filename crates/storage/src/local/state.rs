//! The index and the accounts of segments: the result of replaying the log.

use std::ops::RangeInclusive;
use std::slice;

use rustc_hash::{FxHashMap, FxHashSet};

use super::format::{Kind, RECORD_HEADER_BYTES, RecordHeader, Shadows};
use super::manifest::Closed;
use super::segments::{Ranks, Segments, record_bytes};
use super::tally::Tally;
use crate::index::{Counted, Departed, Index, Location};
use crate::{Key, Operation, PartitionId, Space};

/// Most keys of a removed range that are checked to determine whether one segment contains them all.
const RANGE_LOOK_KEYS_MAX: usize = 64;

/// All data in memory protected by the state's lock. Only [`State::apply`] and the cleaner's relocation change it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) index: Index,
    pub(super) segments: Segments,
    /// One past the last durable frame; `None` before the threads start.
    pub(super) log_end: Option<Closed>,
    /// Partitions removed as a whole whose values still count as live: counting millions of them would stop the log.
    pub(super) departed: Vec<Departed>,
    /// Whether some of them are being counted.
    pub(super) is_counting: bool,
}

/// A record and its location, ready to be applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) header: RecordHeader,
    /// Position of the record header in the segment.
    pub(super) offset: u32,
    /// The last number of a [`Kind::DeleteRange`].
    pub(super) last_number: u64,
}

impl State {
    /// Applies a durable record of segment `id`. Returns true when a segment lost its last live value.
    pub(super) fn apply(&mut self, id: u32, placed: &Placed) -> bool {
        let RecordHeader { kind, key, value_len, shadows } = placed.header;
        let bytes = RECORD_HEADER_BYTES + value_len;
        // The most common records, which need a single look-up.
        if kind == Kind::Put && shadows == Shadows::Nothing {
            return self.segments.live(id, bytes.into()) && self.point(key, id, placed, None);
        }
        let Some(ranks) = self.segments.get(id).map(|segment| segment.ranks) else { return false };
        match kind {
            Kind::Put => {
                let since = self.segments.is_shadow_alive(shadows, ranks).then_some(match shadows {
                    Shadows::Exact(rank) | Shadows::Since(rank) => rank,
                    Shadows::Nothing => 0,
                });
                self.segments.live(id, bytes.into());
                self.point(key, id, placed, since)
            }
            Kind::Delete => {
                self.segments.note_removal(id, ranks, shadows, bytes);
                self.index.remove(key).is_some_and(|before| self.bury(before))
            }
            Kind::DeleteRange => {
                self.segments.note_removal(id, ranks, shadows, bytes);
                let mut emptied = false;
                let segments = &mut self.segments;
                let numbers = key.number..=placed.last_number;
                self.index.remove_range(key.space, key.partition, numbers, |before| {
                    emptied |= segments.dead(before.segment, record_bytes(before));
                });
                emptied
            }
        }
    }

    /// Applies the records of one frame in order. Returns true when a segment lost its last live value.
    pub(super) fn apply_all(&mut self, id: u32, records: &[Placed]) -> bool {
        let Some(ranks) = self.segments.get(id).map(|segment| segment.ranks) else { return false };
        let (mut records, mut emptied) = (records.iter(), false);
        while let Some(other) = self.apply_common(id, ranks, &mut records, &mut emptied) {
            emptied |= self.remove_partition(id, other) || self.apply(id, other);
        }
        emptied
    }

    /// Applies records that remove a key, or put one that has no older version. Returns the first other one.
    fn apply_common<'a>(
        &mut self,
        id: u32,
        ranks: Ranks,
        records: &mut slice::Iter<'a, Placed>,
        emptied: &mut bool,
    ) -> Option<&'a Placed> {
        let mut tally = Tally::new(&mut self.segments, id, ranks);
        let other = records.find(|placed| {
            let RecordHeader { kind, key, value_len, shadows } = placed.header;
            let bytes = RECORD_HEADER_BYTES + value_len;
            let before = match kind {
                Kind::Put if shadows == Shadows::Nothing => {
                    tally.live(bytes);
                    self.index.insert(key, Location::new(id, placed.offset, value_len), None)
                }
                Kind::Delete => {
                    tally.removal(shadows, bytes);
                    self.index.remove(key)
                }
                Kind::Put | Kind::DeleteRange => return true,
            };
            if let Some(before) = before {
                tally.dead(before);
            }
            false
        });
        *emptied |= tally.settle();
        other
    }

    /// Takes out a partition that is removed as a whole; its values are counted as dead later. False if the record does
    /// something else, or the partition is small.
    fn remove_partition(&mut self, id: u32, placed: &Placed) -> bool {
        let RecordHeader { kind, key, value_len, shadows } = placed.header;
        if kind != Kind::DeleteRange || (key.number, placed.last_number) != (0, u64::MAX) {
            return false;
        }
        let Some(ranks) = self.segments.get(id).map(|segment| segment.ranks) else { return false };
        let Some(departed) = self.index.take_partition(key.space, key.partition) else { return false };
        self.segments.note_removal(id, ranks, shadows, RECORD_HEADER_BYTES + value_len);
        self.departed.push(departed);
        true
    }

    /// A removed partition whose values are to be counted; [`Self::counted`] must follow.
    pub(super) fn next_departed(&mut self) -> Option<Departed> {
        let departed = self.departed.pop()?;
        self.is_counting = true;
        Some(departed)
    }

    /// Counts values of a removed partition as dead, `left` is the rest of it; returns whether any are left.
    pub(super) fn counted(&mut self, counted: &Counted, left: Departed) -> bool {
        self.index.forget(counted);
        for (segment, sums) in &counted.by_segment {
            let header_bytes = sums.keys * u64::from(RECORD_HEADER_BYTES);
            self.segments.dead(*segment, header_bytes + sums.value_bytes);
        }
        self.is_counting = false;
        self.departed.extend((!left.is_empty()).then_some(left));
        !self.departed.is_empty()
    }

    /// Whether the live bytes of segments include nothing of removed partitions.
    pub(super) const fn counts_are_exact(&self) -> bool {
        self.departed.is_empty() && !self.is_counting
    }

    /// Merges `other`, which has the same segments in the same order, with records of other spaces applied.
    pub(super) fn absorb(&mut self, other: Self) {
        self.index.absorb(other.index);
        self.segments.absorb(other.segments);
    }

    /// Points the index at a put record; returns true when a segment lost its last live value.
    fn point(&mut self, key: Key, id: u32, placed: &Placed, shadowed_since: Option<u32>) -> bool {
        let location = Location::new(id, placed.offset, placed.header.value_len);
        self.index.insert(key, location, shadowed_since).is_some_and(|before| self.bury(before))
    }

    fn bury(&mut self, before: Location) -> bool {
        self.segments.dead(before.segment, record_bytes(before))
    }
}

/// Determines the shadows of the records of one frame, operation by operation.
#[derive(Debug)]
pub(super) struct Shadower<'a> {
    state: &'a mut State,
    /// The rank of the segment that the frame is written to.
    own_rank: u32,
    /// Keys put in this frame that had been removed before it.
    revived: FxHashSet<Key>,
    /// The ends of the numbers before this frame, where it raised them.
    ends_before: FxHashMap<(Space, PartitionId), u64>,
    /// The partition of each space whose end was noted last.
    noted: [Option<PartitionId>; Space::ALL.len()],
    /// The segment looked up last, and its rank.
    last: (u32, u32),
}

impl<'a> Shadower<'a> {
    pub(super) fn new(state: &'a mut State, own_rank: u32) -> Self {
        let (revived, ends_before) = (FxHashSet::default(), FxHashMap::default());
        Self { state, own_rank, revived, ends_before, noted: Default::default(), last: (0, 0) }
    }

    /// The record's shadows, or `None` when the operation has no effect and needs no record.
    pub(super) fn shadows(&mut self, operation: &Operation) -> Option<Shadows> {
        match operation {
            Operation::Put { key, .. } => Some(self.put(*key)),
            Operation::Delete { key } => self.delete(*key),
            Operation::DeleteRange { space, partition, numbers } => self.range(*space, *partition, numbers),
        }
    }

    fn put(&mut self, key: Key) -> Shadows {
        if let Some(end) = self.state.index.note_if_new(key) {
            self.note_end(key, end);
            return Shadows::Nothing;
        }
        if let Some(location) = self.state.index.get(key) {
            return self.versions(key, location);
        }
        self.revived.insert(key);
        Shadows::Since(self.state.segments.oldest_rank())
    }

    /// Remembers the end of the numbers that the first put of a partition raised.
    fn note_end(&mut self, key: Key, end: u64) {
        let noted = self.noted.get_mut(key.space as usize);
        if noted.is_some_and(|noted| noted.replace(key.partition) != Some(key.partition)) {
            self.ends_before.entry((key.space, key.partition)).or_insert(end);
        }
    }

    fn delete(&mut self, key: Key) -> Option<Shadows> {
        if let Some(location) = self.state.index.get(key) {
            return Some(self.versions(key, location));
        }
        if self.revived.contains(&key) {
            return Some(Shadows::Since(self.state.segments.oldest_rank()));
        }
        let is_new = key.number >= self.end_before(key.space, key.partition);
        is_new.then_some(Shadows::Exact(self.own_rank))
    }

    fn range(
        &mut self,
        space: Space,
        partition: PartitionId,
        numbers: &RangeInclusive<u64>,
    ) -> Option<Shadows> {
        let index = &self.state.index;
        let may_be_new = *numbers.end() >= self.end_before(space, partition) || !self.revived.is_empty();
        let inside = |number: &u64| numbers.contains(number);
        let mut live =
            index.range(space, partition, *numbers.start()).take_while(|(number, _)| inside(number));
        let Some((number, first)) = live.next() else {
            return (may_be_new && !numbers.is_empty()).then(|| self.anything());
        };
        let looked = live.take(RANGE_LOOK_KEYS_MAX).collect::<Vec<_>>();
        let alone = looked.len() < RANGE_LOOK_KEYS_MAX
            && self.revived.is_empty()
            && looked.iter().chain([&(number, first)]).all(|(number, location)| {
                let key = Key::new(space, partition, *number);
                location.segment == first.segment && index.shadowed_since(key, *location).is_none()
            });
        Some(if alone { Shadows::Exact(self.rank_of(first)) } else { self.anything() })
    }

    /// The shadows of a record that removes or overwrites a live key.
    fn versions(&mut self, key: Key, location: Location) -> Shadows {
        match self.state.index.shadowed_since(key, location) {
            Some(since) => Shadows::Since(since),
            None => Shadows::Exact(self.rank_of(location)),
        }
    }

    fn rank_of(&mut self, location: Location) -> u32 {
        if location.segment != self.last.0 {
            let segment = self.state.segments.get(location.segment);
            self.last = (location.segment, segment.map_or(self.own_rank, |segment| segment.ranks.low));
        }
        self.last.1
    }

    fn anything(&self) -> Shadows {
        Shadows::Since(self.state.segments.oldest_rank())
    }

    fn end_before(&self, space: Space, partition: PartitionId) -> u64 {
        let raised = self.ends_before.get(&(space, partition)).copied();
        raised.unwrap_or_else(|| self.state.index.numbers_end(space, partition))
    }
}
