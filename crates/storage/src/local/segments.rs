//! The segments on disk: their order, and how much of each is still needed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::filesystem::File;
use super::format::{RECORD_HEADER_BYTES, Shadows};
use crate::index::Location;

/// A segment file. Each reader holds an [`Arc`] of it, and the file is reused only when no other [`Arc`] is left.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) id: u32,
    pub(super) salt: u64,
    pub(super) capacity: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

/// A segment's position in the order of replay: it covers all ranks from `low` to `high`. A segment written by commits
/// has one rank, its id; a segment written by the cleaner covers the ranks of those it replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranks {
    pub(super) low: u32,
    pub(super) high: u32,
    /// The segment contains no put that is removed by a removal written at a rank lower than this. For a segment
    /// written by commits it is its own rank; for a copy it is the rank that was open when the records to be copied
    /// were selected, or [`NO_PUTS`].
    pub(super) cutoff: u32,
}

/// The cutoff of a copy without puts.
pub(super) const NO_PUTS: u32 = u32::MAX;

impl Ranks {
    pub(super) const fn one(rank: u32) -> Self {
        Self { low: rank, high: rank, cutoff: rank }
    }

    pub(super) const fn contains(self, rank: u32) -> bool {
        self.low <= rank && rank <= self.high
    }
}

/// State of one segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) file: Arc<SegmentFile>,
    pub(super) ranks: Ranks,
    /// One past the last frame, once the manifest lists the segment as sealed.
    pub(super) sealed_end: Option<u64>,
    /// Bytes of the put records that the index points at, and of those not yet counted as dead, see
    /// [`super::state::State::counts_are_exact`].
    pub(super) live_bytes: u64,
    /// Bytes of removal records, by their shadows.
    pub(super) removals: BTreeMap<Shadows, u64>,
    /// The cleaner is working on the segment; other threads must not change it.
    pub(super) cleaning: bool,
    /// Damage was found while cleaning: the segment is left unchanged for the operator.
    pub(super) damaged: bool,
}

/// All segments.
#[derive(Debug, Default, Clone)]
pub(super) struct Segments {
    by_id: BTreeMap<u32, Segment>,
    /// Lowest rank → id, in the order of replay.
    by_rank: BTreeMap<u32, u32>,
}

impl Segments {
    /// Adds a segment to the order.
    pub(super) fn add(&mut self, file: Arc<SegmentFile>, ranks: Ranks, sealed_end: Option<u64>) {
        let id = file.id;
        let segment = Segment {
            file,
            ranks,
            sealed_end,
            live_bytes: 0,
            removals: BTreeMap::new(),
            cleaning: false,
            damaged: false,
        };
        self.by_id.insert(id, segment);
        self.by_rank.insert(ranks.low, id);
    }

    pub(super) fn get(&self, id: u32) -> Option<&Segment> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Segment> {
        self.by_id.get_mut(&id)
    }

    /// Marks segments as being cleaned, or removes the mark.
    pub(super) fn set_cleaning(&mut self, ids: &[u32], cleaning: bool) {
        self.by_id.iter_mut().filter(|(id, _)| ids.contains(id)).for_each(|(_, one)| one.cleaning = cleaning);
    }

    /// Marks segments as damaged: the cleaner does not change them.
    pub(super) fn set_damaged(&mut self, ids: &[u32]) {
        self.by_id.iter_mut().filter(|(id, _)| ids.contains(id)).for_each(|(_, one)| one.damaged = true);
    }

    /// In the order of replay, oldest first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Segment> {
        self.by_rank.values().filter_map(|id| self.by_id.get(id))
    }

    /// Removes segments from the order of replay; they stay readable by id.
    pub(super) fn unrank(&mut self, ids: &[u32]) {
        self.by_rank.retain(|_, id| !ids.contains(id));
    }

    /// Removes a segment.
    pub(super) fn remove(&mut self, id: u32) -> Option<Segment> {
        self.by_rank.retain(|_, other| *other != id);
        self.by_id.remove(&id)
    }

    /// The lowest rank of all.
    pub(super) fn oldest_rank(&self) -> u32 {
        self.by_rank.keys().next().copied().unwrap_or(u32::MAX)
    }

    /// Bytes of all segment files.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.by_id.values().map(|segment| segment.file.capacity).sum()
    }

    /// Counts put records of this size together as live; returns false when their segment is unknown.
    pub(super) fn live(&mut self, id: u32, bytes: u64) -> bool {
        let Some(segment) = self.by_id.get_mut(&id) else { return false };
        segment.live_bytes += bytes;
        true
    }

    /// Counts put records of this size together as dead; returns true when none in the segment is live any more.
    pub(super) fn dead(&mut self, id: u32, bytes: u64) -> bool {
        let Some(segment) = self.by_id.get_mut(&id) else { return false };
        segment.live_bytes = segment.live_bytes.saturating_sub(bytes);
        segment.live_bytes == 0
    }

    /// Counts removal records of segment `id`, which is at `ranks`, if an older segment still needs them.
    pub(super) fn note_removal(&mut self, id: u32, ranks: Ranks, shadows: Shadows, bytes: u32) {
        if self.is_shadow_alive(shadows, ranks)
            && let Some(segment) = self.by_id.get_mut(&id)
        {
            *segment.removals.entry(shadows).or_default() += u64::from(bytes);
        }
    }

    /// Adds the counts of `other`, which has the same segments with other records.
    pub(super) fn absorb(&mut self, other: Self) {
        for (id, other) in other.by_id {
            let Some(segment) = self.by_id.get_mut(&id) else { continue };
            segment.live_bytes += other.live_bytes;
            for (shadows, bytes) in other.removals {
                *segment.removals.entry(shadows).or_default() += bytes;
            }
        }
    }

    /// Whether a segment other than the one at `own` may contain records to which the `shadows` of a record in that
    /// segment refer.
    pub(super) fn is_shadow_alive(&self, shadows: Shadows, own: Ranks) -> bool {
        self.is_shadow_alive_since(shadows, own, own.high)
    }

    /// The same for a record that was written at rank `written` or earlier and is, or will be, in the segment at `own`.
    pub(super) fn is_shadow_alive_since(&self, shadows: Shadows, own: Ranks, written: u32) -> bool {
        self.holders(shadows, own, written).next().is_some()
    }

    /// The segments outside `own` that may contain older versions of the keys of a record with these `shadows`, written
    /// at rank `written` or earlier.
    pub(super) fn holders(
        &self,
        shadows: Shadows,
        own: Ranks,
        written: u32,
    ) -> impl Iterator<Item = &Segment> + '_ {
        let range = match shadows {
            Shadows::Nothing => 0..0,
            Shadows::Exact(rank) if own.contains(rank) => 0..0,
            Shadows::Exact(rank) => self.covering(rank).map_or(0..0, |ranks| ranks.low..ranks.low + 1),
            Shadows::Since(rank) => self.covering(rank).map_or(rank, |ranks| ranks.low)..own.low,
        };
        // Called for each record, and the range is mostly empty.
        let range = (!range.is_empty()).then_some(range);
        // The newest first: they are seldom copies, so the first one usually decides.
        let ids = range.into_iter().flat_map(|range| self.by_rank.range(range).rev());
        let segments = ids.filter_map(|(_, id)| self.by_id.get(id));
        segments.filter(move |segment| segment.ranks.cutoff <= written)
    }

    /// Bytes of `segment` that must be kept: live values, and removals that an older segment still needs.
    pub(super) fn kept_bytes(&self, segment: &Segment) -> u64 {
        let removals =
            segment.removals.iter().filter(|(shadows, _)| self.is_shadow_alive(**shadows, segment.ranks));
        segment.live_bytes + removals.map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// The lowest rank to which records may still be added: all records at lower ranks have been applied.
    pub(super) fn first_open_rank(&self) -> u32 {
        let open = self.in_order().find(|segment| segment.sealed_end.is_none());
        let last = || self.by_rank.keys().next_back().copied().unwrap_or(0);
        open.map_or_else(last, |segment| segment.ranks.low)
    }

    fn covering(&self, rank: u32) -> Option<Ranks> {
        let (_, id) = self.by_rank.range(..=rank).next_back()?;
        self.by_id.get(id).map(|segment| segment.ranks).filter(|ranks| ranks.contains(rank))
    }
}

/// Size of the put record at a location.
pub(super) fn record_bytes(location: Location) -> u64 {
    u64::from(RECORD_HEADER_BYTES + location.value_len())
}
