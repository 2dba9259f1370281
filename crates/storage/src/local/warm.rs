//! Values that opening had to read anyway, kept for the first scan of each partition.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::index::Location;
use crate::{PartitionId, Space};

/// Kept at most, in bytes; values beyond are read from their segments, bodies between them included. Those of more than ten million
/// messages.
const WARM_BYTES_MAX: usize = 256 << 20;

/// The values of what is read on start, by segment, until every partition was scanned once.
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

/// Values of one segment, to be kept: one behind the other, without what stands between them in a hint.
#[derive(Debug, Default)]
pub(super) struct WarmValues {
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

impl WarmValues {
    /// Adds the value of the record at this offset of the segment; in the order of offsets.
    pub(super) fn push(&mut self, offset: u32, value: &[u8]) {
        if let Ok(at) = u32::try_from(self.bytes.len()) {
            self.places.push((offset, at));
            self.bytes.extend_from_slice(value);
        }
    }
}

impl Warm {
    /// Keeps the values of a segment.
    pub(super) fn add(&mut self, id: u32, values: WarmValues) {
        let WarmValues { mut bytes, mut places } = values;
        let len = bytes.len() + places.len() * size_of::<(u32, u32)>();
        if !places.is_empty() && self.bytes + len <= WARM_BYTES_MAX {
            self.bytes += len;
            bytes.shrink_to_fit();
            places.shrink_to_fit();
            self.segments.insert(id, WarmSegment { bytes: bytes.into(), places });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_place() {
        let mut values = WarmValues::default();
        for (offset, value) in [(64, &b"one"[..]), (128, b""), (192, b"three")] {
            values.push(offset, value);
        }
        let mut warm = Warm::default();
        warm.add(7, values);
        for (offset, value) in [(64, &b"one"[..]), (128, b""), (192, b"three")] {
            let len = u32::try_from(value.len()).unwrap();
            assert_eq!(warm.get(Location::new(7, offset, len)).as_deref(), Some(value));
        }
        assert_eq!(warm.get(Location::new(7, 65, 3)), None);
        assert_eq!(warm.get(Location::new(8, 64, 3)), None);
    }
}
