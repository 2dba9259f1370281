//! Values that opening had to read anyway, kept for the first scan of each partition.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::hint::Hint;
use crate::index::Location;
use crate::{PartitionId, Space};

/// Bytes of hints kept at most; values beyond are read from their segments.
const WARM_BYTES_MAX: usize = 256 << 20;

/// The values of the hints, by segment, until every partition was scanned once.
#[derive(Debug, Default)]
pub(super) struct Warm {
    segments: HashMap<u32, WarmSegment>,
    bytes: usize,
    /// What was not scanned to the end yet.
    unscanned: HashSet<(Space, PartitionId)>,
}

#[derive(Debug)]
struct WarmSegment {
    bytes: Bytes,
    /// Record position in the segment → value position in `bytes`, ascending.
    places: Vec<(u32, u32)>,
}

impl Warm {
    /// Keeps the values of a hint.
    pub(super) fn add(&mut self, id: u32, hint: &Hint, places: Vec<(u32, u32)>) {
        if !places.is_empty() && self.bytes + hint.bytes.len() <= WARM_BYTES_MAX {
            self.bytes += hint.bytes.len();
            self.segments.insert(id, WarmSegment { bytes: hint.bytes.clone(), places });
        }
    }

    /// Names the partitions that will be scanned.
    pub(super) fn expect(&mut self, partitions: impl Iterator<Item = (Space, PartitionId)>) {
        self.unscanned = partitions.filter(|(space, _)| *space != Space::Body).collect();
        self.drop_if_done();
    }

    /// The value of a record, if it is here.
    pub(super) fn get(&self, location: Location) -> Option<Bytes> {
        let segment = self.segments.get(&location.segment)?;
        let place = segment.places.binary_search_by_key(&location.offset, |(offset, _)| *offset).ok()?;
        let (_, at) = segment.places.get(place)?;
        let start = *at as usize;
        let end = start + location.value_len() as usize;
        (end <= segment.bytes.len()).then(|| segment.bytes.slice(start..end))
    }

    /// A partition was scanned to its end.
    pub(super) fn scanned(&mut self, space: Space, partition: PartitionId) {
        self.unscanned.remove(&(space, partition));
        self.drop_if_done();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn drop_if_done(&mut self) {
        if self.unscanned.is_empty() {
            self.clear();
        }
    }
}
