//! Recently written bodies, so that a message that is received soon need not be read back from the disk.
//!
//! Each partition has its own cache, oldest bodies first; all share one [`CacheBudget`]. A partition may hold a multiple of
//! the free budget, so a busy partition gets most of it, an idle one can't starve a new one, and the sum never exceeds the
//! budget, except for bodies that are not durable yet: these stay, because they can't be read back.
//!
//! The cache is the first to shrink when the process's memory budget gets short: it may hold a quarter of what others leave
//! of it.
//!
//! A body is a slice of the buffer it arrived in and keeps that whole buffer alive, also the messages of other partitions in
//! it. Small bodies are therefore copied: otherwise a thousand bodies of some bytes each could keep a thousand read buffers
//! of the front end. A large body is not much smaller than its buffer. Removed bodies stay charged while an older one is
//! still cached, because it may share their buffer; once removed bodies outweigh the live ones, the live ones are copied
//! into buffers of their own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use peeklock_budget::{Budget, Owner, Share};

use crate::BodyRef;

/// A partition may hold this many times the free budget.
const SHARE_OF_FREE: usize = 4;

/// The limit of all caches is what others leave of the process's budget, divided by this.
const PART_OF_REST: usize = 4;

/// Smallest body that is not copied, in bytes: a quarter of the largest read of the front end.
const SHARED_BYTES_MIN: usize = 32 << 10;

/// Bookkeeping per body in bytes, charged with it.
const SLOT_BYTES: usize = size_of::<Slot>();

/// Memory budget for the bodies of all partitions.
#[derive(Debug)]
pub(super) struct CacheBudget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    process: Budget,
}

impl CacheBudget {
    /// A budget of `limit_bytes`, lower while the process's budget is short.
    pub(super) fn new(limit_bytes: usize, process: Budget) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: AtomicUsize::new(0), process })
    }

    /// The process's budget, of which this is a part.
    pub(super) fn process(&self) -> &Budget {
        &self.process
    }

    /// How much a partition may hold at present, in bytes.
    fn share(&self) -> usize {
        let used = self.used_bytes.load(Ordering::Relaxed);
        self.limit_now().saturating_sub(used).saturating_mul(SHARE_OF_FREE)
    }

    fn limit_now(&self) -> usize {
        let rest = self.process.free_bytes().saturating_add(self.process.used_by(Owner::BodyCache));
        self.limit_bytes.min(rest / PART_OF_REST)
    }

    #[cfg(test)]
    pub(super) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// The recent bodies of one partition.
#[derive(Debug)]
pub(super) struct BodyCache {
    budget: Arc<CacheBudget>,
    /// Ascending by number; the front is never a removed body.
    slots: VecDeque<Slot>,
    /// The cost of all slots, including removed bodies.
    charged_bytes: usize,
    /// The part of it that belongs to removed bodies.
    removed_bytes: usize,
    /// The value reported to the process's budget.
    reported: Share,
}

#[derive(Debug)]
struct Slot {
    number: u64,
    content: Option<Bytes>,
    cost: u32,
}

impl BodyCache {
    pub(super) fn new(budget: Arc<CacheBudget>) -> Self {
        let reported = budget.process.share(Owner::BodyCache);
        Self { budget, slots: VecDeque::new(), charged_bytes: 0, removed_bytes: 0, reported }
    }

    /// Adds a body; one that does not have the greatest number so far is ignored.
    pub(super) fn insert(&mut self, body: BodyRef, content: Bytes) {
        if self.slots.back().is_some_and(|last| last.number >= body.0) {
            return;
        }
        let cost = u32::try_from(content.len() + SLOT_BYTES).unwrap_or(u32::MAX);
        self.charge(cost as usize);
        let content = if may_share(&content) { content } else { Bytes::copy_from_slice(&content) };
        self.slots.push_back(Slot { number: body.0, content: Some(content), cost });
    }

    /// The body, if it is cached.
    pub(super) fn get(&self, body: BodyRef) -> Option<Bytes> {
        self.slots.get(self.position(body)?)?.content.clone()
    }

    /// Removes a body that can't be requested any more.
    pub(super) fn remove(&mut self, body: BodyRef) {
        let Some(slot) = self.position(body).and_then(|position| self.slots.get_mut(position)) else {
            return;
        };
        if slot.content.take().is_some() {
            self.removed_bytes += slot.cost as usize;
        }
        self.drop_removed_front();
        if self.removed_bytes > self.charged_bytes / 2 {
            self.compact();
        }
    }

    /// Evicts the oldest bodies until the partition is within its share. Bodies after `durable` stay, because the store
    /// can't return them yet.
    pub(super) fn shrink(&mut self, durable: Option<BodyRef>) {
        let Some(durable) = durable else { return };
        while self.charged_bytes > self.budget.share() {
            match self.slots.front() {
                Some(front) if front.number <= durable.0 => self.pop_front(),
                _ => break,
            }
            self.drop_removed_front();
        }
    }

    /// Reports the charged bytes to the process's budget; called once per turn.
    pub(super) fn report(&mut self) {
        self.reported.set(self.charged_bytes);
    }

    /// Removes all bodies.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.discharge(self.charged_bytes);
        self.report();
        self.removed_bytes = 0;
    }

    /// Numbers are nearly dense, so the distance from the front is usually the position.
    fn position(&self, body: BodyRef) -> Option<usize> {
        let first = self.slots.front()?.number;
        let guess = usize::try_from(body.0.checked_sub(first)?).ok()?;
        if self.slots.get(guess).is_some_and(|slot| slot.number == body.0) {
            return Some(guess);
        }
        self.slots.binary_search_by_key(&body.0, |slot| slot.number).ok()
    }

    fn pop_front(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            if slot.content.is_none() {
                self.removed_bytes -= slot.cost as usize;
            }
            self.discharge(slot.cost as usize);
        }
    }

    fn drop_removed_front(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.content.is_none()) {
            self.pop_front();
        }
        if self.slots.is_empty() && self.slots.capacity() > 1024 {
            self.slots = VecDeque::new();
        }
    }

    /// Copies live bodies into buffers of their own and drops the removed slots; costs less than was removed since the last
    /// time.
    fn compact(&mut self) {
        self.slots.retain_mut(|slot| {
            if let Some(content) = slot.content.as_mut().filter(|content| may_share(content)) {
                *content = Bytes::copy_from_slice(content);
            }
            slot.content.is_some()
        });
        self.discharge(self.removed_bytes);
        self.removed_bytes = 0;
    }

    fn charge(&mut self, bytes: usize) {
        self.charged_bytes += bytes;
        self.budget.used_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn discharge(&mut self, bytes: usize) {
        self.charged_bytes -= bytes;
        self.budget.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for BodyCache {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Whether a body in the cache may be a slice of a buffer with other messages.
fn may_share(content: &[u8]) -> bool {
    content.len() >= SHARED_BYTES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1024;

    fn budget_of(bytes: usize) -> Arc<CacheBudget> {
        CacheBudget::new(bytes, Budget::default())
    }

    #[test]
    fn the_cache_gives_way_when_the_process_has_little_left() {
        let process = Budget::new(1024 * KB);
        let budget = CacheBudget::new(200 * KB, process.clone());
        let mut cache = filled(&budget, 1..=150);
        cache.shrink(Some(BodyRef(150)));
        cache.report();
        assert!(process.used_by(Owner::BodyCache) > 100 * KB);
        let mut connection = process.share(Owner::Incoming);
        connection.set(960 * KB);
        cache.insert(BodyRef(151), content(151));
        cache.shrink(Some(BodyRef(151)));
        cache.report();
        assert!(process.used_by(Owner::BodyCache) <= 16 * KB);
        assert_eq!(cache.get(BodyRef(151)), Some(content(151)));
    }

    fn content(number: u64) -> Bytes {
        Bytes::from(vec![u8::try_from(number % 251).unwrap(); KB])
    }

    fn filled(budget: &Arc<CacheBudget>, numbers: std::ops::RangeInclusive<u64>) -> BodyCache {
        let mut cache = BodyCache::new(Arc::clone(budget));
        for number in numbers {
            cache.insert(BodyRef(number), content(number));
        }
        cache
    }

    #[test]
    fn the_oldest_durable_contents_make_room() {
        let budget = budget_of(100 * KB);
        let mut cache = filled(&budget, 1..=200);
        cache.shrink(Some(BodyRef(200)));
        assert!(budget.used_bytes() <= 100 * KB);
        assert_eq!(cache.get(BodyRef(1)), None);
        assert_eq!(cache.get(BodyRef(200)), Some(content(200)));
    }

    #[test]
    fn bodies_that_are_not_durable_stay_whatever_the_budget() {
        let budget = budget_of(10 * KB);
        let mut cache = filled(&budget, 1..=50);
        cache.shrink(Some(BodyRef(20)));
        assert_eq!(cache.get(BodyRef(20)), None);
        assert!((21..=50).all(|number| cache.get(BodyRef(number)) == Some(content(number))));
    }

    #[test]
    fn a_newcomer_finds_room_beside_a_partition_that_filled_its_share() {
        let budget = budget_of(100 * KB);
        let mut busy = filled(&budget, 1..=200);
        busy.shrink(Some(BodyRef(200)));
        let mut newcomer = filled(&budget, 1..=1);
        newcomer.shrink(Some(BodyRef(1)));
        assert_eq!(newcomer.get(BodyRef(1)), Some(content(1)));
    }

    #[test]
    fn small_bodies_keep_nothing_of_the_buffer_in_which_they_arrived() {
        let budget = budget_of(1024 * KB);
        let buffer = Bytes::from(vec![7; 128 * KB]);
        let mut cache = BodyCache::new(Arc::clone(&budget));
        cache.insert(BodyRef(1), buffer.slice(..10));
        cache.insert(BodyRef(2), buffer.slice(10..SHARED_BYTES_MIN));
        assert!(buffer.is_unique());
        cache.insert(BodyRef(3), buffer.slice(..SHARED_BYTES_MIN));
        assert!(!buffer.is_unique(), "not copied");
        assert_eq!(cache.get(BodyRef(1)), Some(buffer.slice(..10)));
    }

    #[test]
    fn removed_contents_are_charged_until_nothing_can_share_their_buffer() {
        const SIZE: usize = SHARED_BYTES_MIN;
        let budget = budget_of(1024 * SIZE);
        let buffer = Bytes::from(vec![7; 64 * SIZE]);
        let mut cache = BodyCache::new(Arc::clone(&budget));
        for number in 0..64_usize {
            let slice = buffer.slice(number * SIZE..(number + 1) * SIZE);
            cache.insert(BodyRef(number as u64 + 1), slice);
        }
        for number in 2..=32 {
            cache.remove(BodyRef(number));
        }
        assert!(budget.used_bytes() > 64 * SIZE, "the first content still holds the whole buffer");
        for number in 33..=64 {
            cache.remove(BodyRef(number));
        }
        assert!(budget.used_bytes() < 40 * SIZE);
        let survivor = cache.get(BodyRef(1)).unwrap();
        assert_eq!(survivor, buffer.slice(..SIZE));
        drop(cache);
        assert_eq!(budget.used_bytes(), 0);
        assert!(buffer.is_unique(), "the survivor has a buffer of its own");
    }

    #[test]
    fn gaps_in_the_numbers_do_no_harm() {
        let budget = budget_of(1024 * KB);
        let mut cache = BodyCache::new(budget);
        for number in [3, 4, 9, 1_000_000] {
            cache.insert(BodyRef(number), content(number));
        }
        assert_eq!(cache.get(BodyRef(9)), Some(content(9)));
        assert_eq!(cache.get(BodyRef(5)), None);
        cache.remove(BodyRef(3));
        cache.remove(BodyRef(5));
        assert_eq!(cache.get(BodyRef(1_000_000)), Some(content(1_000_000)));
        assert_eq!(cache.get(BodyRef(3)), None);
    }
}
