//! The segments on disk: their order, and what of each is still needed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::filesystem::File;
use super::format::Shadows;

/// A segment file. A reader holds an [`Arc`] of it, and a file is recycled only when nobody does.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) id: u32,
    pub(super) salt: u64,
    pub(super) capacity: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

/// A segment's place in the order of replay: it stands for all ranks from `low` to `high`. A segment written by
/// commits has one rank, its id; a segment written by the cleaner covers those of what it replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranks {
    pub(super) low: u32,
    pub(super) high: u32,
    /// The segment holds no put that a removal written at a lower rank than this one removes. Of a segment written
    /// by commits it is its own rank; of a copy it is the rank that was open when its survivors were determined, or
    /// [`NO_PUTS`].
    pub(super) cutoff: u32,
}

/// The cutoff of a copy that holds no put at all.
pub(super) const NO_PUTS: u32 = u32::MAX;

impl Ranks {
    pub(super) const fn one(rank: u32) -> Self {
        Self { low: rank, high: rank, cutoff: rank }
    }

    pub(super) const fn contains(self, rank: u32) -> bool {
        self.low <= rank && rank <= self.high
    }
}

/// What is known about one segment.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    pub(super) file: Arc<SegmentFile>,
    pub(super) ranks: Ranks,
    /// One past the last frame, once nothing is appended any more and the manifest says so.
    pub(super) sealed_end: Option<u64>,
    /// Bytes of the put records that the index points at.
    pub(super) live_bytes: u64,
    /// Bytes of removal records by what they keep from coming back.
    pub(super) removals: BTreeMap<Shadows, u64>,
    /// The cleaner works on it: hands off.
    pub(super) cleaning: bool,
    /// Damage was found while cleaning: left alone, so that the operator finds it as it is.
    pub(super) damaged: bool,
}

/// All segments.
#[derive(Debug, Default, Clone)]
pub(super) struct Segments {
    by_id: BTreeMap<u32, Segment>,
    /// Lowest rank → id: the order of replay.
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

    /// Marks segments as being worked on by the cleaner, or no more.
    pub(super) fn set_cleaning(&mut self, ids: &[u32], cleaning: bool) {
        self.by_id.iter_mut().filter(|(id, _)| ids.contains(id)).for_each(|(_, one)| one.cleaning = cleaning);
    }

    /// Marks segments as damaged: the cleaner leaves them as they are.
    pub(super) fn set_damaged(&mut self, ids: &[u32]) {
        self.by_id.iter_mut().filter(|(id, _)| ids.contains(id)).for_each(|(_, one)| one.damaged = true);
    }

    /// In the order of replay, oldest first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Segment> {
        self.by_rank.values().filter_map(|id| self.by_id.get(id))
    }

    /// Takes segments out of the order of replay; they stay readable by id.
    pub(super) fn unrank(&mut self, ids: &[u32]) {
        self.by_rank.retain(|_, id| !ids.contains(id));
    }

    /// Forgets a segment.
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

    /// A put record came to life; false when nothing is known of its segment.
    pub(super) fn live(&mut self, id: u32, bytes: u32) -> bool {
        let Some(segment) = self.by_id.get_mut(&id) else { return false };
        segment.live_bytes += u64::from(bytes);
        true
    }

    /// A put record died; true when it was the segment's last.
    pub(super) fn dead(&mut self, id: u32, bytes: u32) -> bool {
        let Some(segment) = self.by_id.get_mut(&id) else { return false };
        segment.live_bytes = segment.live_bytes.saturating_sub(u64::from(bytes));
        segment.live_bytes == 0
    }

    /// A removal record was written.
    pub(super) fn removal(&mut self, id: u32, shadows: Shadows, bytes: u32) {
        if let Some(segment) = self.by_id.get_mut(&id) {
            *segment.removals.entry(shadows).or_default() += u64::from(bytes);
        }
    }

    /// Adds the accounts of `other`, the same segments with other records.
    pub(super) fn absorb(&mut self, other: Self) {
        for (id, other) in other.by_id {
            let Some(segment) = self.by_id.get_mut(&id) else { continue };
            segment.live_bytes += other.live_bytes;
            for (shadows, bytes) in other.removals {
                *segment.removals.entry(shadows).or_default() += bytes;
            }
        }
    }

    /// Whether a segment other than the one at `own` may hold what `shadows`, of a record in that one, speaks of.
    pub(super) fn is_shadow_alive(&self, shadows: Shadows, own: Ranks) -> bool {
        self.is_shadow_alive_since(shadows, own, own.high)
    }

    /// The same for a record that was written at rank `written` or earlier and stands, or will stand, at `own`.
    pub(super) fn is_shadow_alive_since(&self, shadows: Shadows, own: Ranks, written: u32) -> bool {
        self.holders(shadows, own, written).next().is_some()
    }

    /// The segments outside `own` that may hold older versions of the keys of a record with these `shadows`, written
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
        // Asked for each record, and mostly there is nothing to look for.
        let range = (!range.is_empty()).then_some(range);
        // The newest first: they are seldom copies, so that the question is mostly answered by the first.
        let ids = range.into_iter().flat_map(|range| self.by_rank.range(range).rev());
        let segments = ids.filter_map(|(_, id)| self.by_id.get(id));
        segments.filter(move |segment| segment.ranks.cutoff <= written)
    }

    /// Bytes of `segment` that must survive it: live values, and removals that something older still needs.
    pub(super) fn kept_bytes(&self, segment: &Segment) -> u64 {
        let removals =
            segment.removals.iter().filter(|(shadows, _)| self.is_shadow_alive(**shadows, segment.ranks));
        segment.live_bytes + removals.map(|(_, bytes)| bytes).sum::<u64>()
    }

    /// The lowest rank to which records may still be added: every record at a lower one has been applied.
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
