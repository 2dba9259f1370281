//! Values that opening had to read anyway, kept in memory for the first scan of each partition.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::index::Location;
use crate::{PartitionId, Space};

/// Values of the spaces read at start, by segment, until every partition was scanned once.
#[derive(Debug, Default)]
pub(super) struct StartupCache {
    segments: HashMap<u32, StartupSegment>,
    bytes: usize,
    bytes_max: usize,
    /// Whether a value was looked up since the last call of [`Self::take_used`].
    is_used: bool,
    /// Partitions that were not scanned to the end yet.
    unscanned: HashSet<(Space, PartitionId)>,
}

#[derive(Debug)]
struct StartupSegment {
    bytes: Bytes,
    /// Record offset in the segment → value offset in `bytes`, ascending.
    places: Box<[(u32, u32)]>,
}

/// Values of one segment to be kept, without the other data of its hint.
#[derive(Debug, Default)]
pub(super) struct StartupValues {
    bytes: Vec<u8>,
    places: Vec<(u32, u32)>,
}

impl StartupValues {
    /// Removes all values, but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Adds the value of the record at this offset of the segment; must be called in the order of offsets.
    pub(super) fn push(&mut self, offset: u32, value: &[u8]) {
        if let Ok(at) = u32::try_from(self.bytes.len()) {
            self.places.push((offset, at));
            self.bytes.extend_from_slice(value);
        }
    }
}

impl StartupCache {
    /// An empty collection with a limit of this many bytes.
    pub(super) fn with_room(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Keeps the values of a segment.
    pub(super) fn add(&mut self, id: u32, values: &StartupValues) {
        let StartupValues { bytes, places } = values;
        let len = bytes.len() + places.len() * size_of::<(u32, u32)>();
        if !places.is_empty() && self.bytes + len <= self.bytes_max {
            self.bytes += len;
            let segment =
                StartupSegment { bytes: Bytes::copy_from_slice(bytes), places: places.as_slice().into() };
            self.segments.insert(id, segment);
        }
    }

    /// Sets the partitions that will be scanned.
    pub(super) fn expect(&mut self, partitions: impl Iterator<Item = (Space, PartitionId)>) {
        self.unscanned = partitions.filter(|(space, _)| *space != Space::Body).collect();
        self.drop_if_done();
    }

    /// A cursor for looking up values.
    pub(super) fn look_up(&mut self) -> LookUp<'_> {
        self.is_used = true;
        LookUp { cache: self, segment: None, next: 0 }
    }

    /// Whether a value was looked up since the last call.
    pub(super) fn take_used(&mut self) -> bool {
        std::mem::take(&mut self.is_used)
    }

    /// Records that a partition was scanned to its end.
    pub(super) fn scanned(&mut self, space: Space, partition: PartitionId) {
        self.unscanned.remove(&(space, partition));
        self.drop_if_done();
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn drop_if_done(&mut self) {
        if self.unscanned.is_empty() {
            self.clear();
        }
    }
}

/// Finds values; fast when consecutive look-ups have increasing offsets.
#[derive(Debug)]
pub(super) struct LookUp<'a> {
    cache: &'a StartupCache,
    /// Position of the last value found, or of its place.
    segment: Option<(u32, &'a StartupSegment)>,
    next: usize,
}

impl LookUp<'_> {
    /// The value of a record, if it is kept.
    pub(super) fn get(&mut self, location: Location) -> Option<Bytes> {
        let segment = match self.segment {
            Some((id, segment)) if id == location.segment => segment,
            _ => {
                let segment = self.cache.segments.get(&location.segment)?;
                (self.segment, self.next) = (Some((location.segment, segment)), 0);
                segment
            }
        };
        let place = self.place(&segment.places, location.offset)?;
        let (_, at) = segment.places.get(place)?;
        let start = *at as usize;
        let end = start + location.value_len() as usize;
        (end <= segment.bytes.len()).then(|| segment.bytes.slice(start..end))
    }

    /// Searches from the last position on, in steps that double.
    fn place(&mut self, places: &[(u32, u32)], offset: u32) -> Option<usize> {
        let is_before = |place: &(u32, u32)| place.0 < offset;
        let mut from = self.next;
        if from > 0 && places.get(from - 1).is_none_or(|before| !is_before(before)) {
            from = 0;
        }
        let mut step = 1;
        while places.get(from + step - 1).is_some_and(is_before) {
            from += step;
            step *= 2;
        }
        let searched = places.get(from..(from + step).min(places.len()))?;
        let found = from + searched.partition_point(is_before);
        self.next = found;
        places.get(found).filter(|place| place.0 == offset).map(|_| found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_found_by_their_place() {
        let mut values = StartupValues::default();
        for (offset, value) in [(64, &b"one"[..]), (128, b""), (192, b"three")] {
            values.push(offset, value);
        }
        let mut cache = StartupCache::with_room(1 << 20);
        cache.add(7, &values);
        let mut look_up = cache.look_up();
        for (offset, value) in [(64, &b"one"[..]), (128, b""), (192, b"three")] {
            let len = u32::try_from(value.len()).unwrap();
            assert_eq!(look_up.get(Location::new(7, offset, len)).as_deref(), Some(value));
        }
        assert_eq!(look_up.get(Location::new(7, 65, 3)), None);
        assert_eq!(look_up.get(Location::new(8, 64, 3)), None);
    }

    proptest! {
        /// Look-ups in any order find exactly the values that are kept.
        #[test]
        fn any_order_of_look_ups_finds_the_same(
            kept in vec(btree_set(0_u32..400, 0..60), 1..4),
            asked in vec((0_usize..4, 0_u32..400), 0..200),
        ) {
            let mut cache = StartupCache::with_room(1 << 20);
            for (id, offsets) in kept.iter().enumerate() {
                let mut values = StartupValues::default();
                offsets.iter().for_each(|offset| values.push(*offset, &offset.to_le_bytes()));
                cache.add(id as u32, &values);
            }
            let mut look_up = cache.look_up();
            for (id, offset) in asked {
                let expected = kept.get(id).is_some_and(|kept| kept.contains(&offset)).then(|| offset.to_le_bytes());
                let found = look_up.get(Location::new(id as u32, offset, 4));
                prop_assert_eq!(found.as_deref(), expected.as_ref().map(|value| &value[..]));
            }
        }
    }
}
