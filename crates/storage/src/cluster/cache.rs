//! Cache of the bodies written last: most messages are delivered and removed before they would have to be read.

use std::collections::VecDeque;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::log::RecordPlace;
use super::record::Position;

/// Number of removed keys that `order` may always hold.
const LEFT_BEHIND_MIN: usize = 64;

/// Bodies by position in the log. The oldest are evicted first.
#[derive(Debug)]
pub(super) struct Cache {
    bodies: FxHashMap<RecordPlace, Bytes>,
    /// Keys in order of insertion; some may have been removed from `bodies`, at most half of them beyond
    /// [`LEFT_BEHIND_MIN`].
    order: VecDeque<RecordPlace>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bodies: FxHashMap::default(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub(super) fn insert(&mut self, place: RecordPlace, bodies: Bytes) {
        if bodies.len() > self.bytes_max {
            return;
        }
        self.bytes += bodies.len();
        self.bodies.insert(place, bodies);
        self.order.push_back(place);
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(oldest);
        }
    }

    pub(super) fn remove(&mut self, place: RecordPlace) {
        self.forget(place);
        while self.order.front().is_some_and(|oldest| !self.bodies.contains_key(oldest)) {
            self.order.pop_front();
        }
        if self.order.len() > 2 * self.bodies.len() + LEFT_BEHIND_MIN {
            let bodies = &self.bodies;
            self.order.retain(|place| bodies.contains_key(place));
        }
    }

    fn forget(&mut self, place: RecordPlace) {
        if let Some(bodies) = self.bodies.remove(&place) {
            self.bytes -= bodies.len();
        }
    }

    /// The frame at this position, if it is cached.
    pub(super) fn get(&self, position: Position, frame_len: u32) -> Option<Bytes> {
        let bodies = self.bodies.get(&position.place)?;
        let start = position.offset as usize;
        let end = start.checked_add(frame_len as usize)?;
        (end <= bodies.len()).then(|| bodies.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_bodies_go_first_and_removed_ones_take_no_room() {
        let mut cache = Cache::new(100);
        let at = |place| Position { place: RecordPlace(place), offset: 5 };
        for place in 1..=5 {
            cache.insert(RecordPlace(place), Bytes::from(vec![0; 30]));
        }
        assert!(cache.get(at(2), 10).is_none());
        assert_eq!(cache.get(at(3), 25).map(|bytes| bytes.len()), Some(25));
        assert!(cache.get(at(3), 26).is_none(), "beyond its end");
        cache.remove(RecordPlace(4));
        cache.insert(RecordPlace(6), Bytes::from(vec![0; 30]));
        assert!(cache.get(at(3), 1).is_some() && cache.get(at(4), 1).is_none());
        cache.insert(RecordPlace(7), Bytes::from(vec![0; 101]));
        assert!(cache.get(at(7), 1).is_none(), "larger than the cache");
        assert_eq!(cache.bytes, 90);
        (1..=7).for_each(|place| cache.remove(RecordPlace(place)));
        assert_eq!((cache.bytes, cache.order.len()), (0, 0));
    }

    #[test]
    fn removed_bodies_behind_one_that_stays_take_no_room() {
        let mut cache = Cache::new(1_000_000);
        cache.insert(RecordPlace(0), Bytes::from(vec![0; 30]));
        for place in 1..=100_000 {
            cache.insert(RecordPlace(place), Bytes::from(vec![0; 30]));
            if let Some(older) = place.checked_sub(10).filter(|older| *older > 0) {
                cache.remove(RecordPlace(older));
            }
            assert!(cache.order.len() <= 2 * cache.bodies.len() + LEFT_BEHIND_MIN, "{}", cache.order.len());
        }
        assert!(cache.get(Position { place: RecordPlace(0), offset: 0 }, 30).is_some());
        assert_eq!(cache.bytes, 11 * 30);
    }
}
