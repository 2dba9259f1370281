//! Recently written bodies, so that a message that is received soon need not be read back from the disk.
//!
//! Each partition has its own cache, oldest bodies first; all share one [`CacheBudget`]. A partition may hold a multiple of
//! the free budget, so a busy partition gets most of it, an idle one can't starve a new one, and the sum never exceeds the
//! budget, except for bodies that are not durable yet: these stay, because they can't be read back.
//!
//! The cache is the first to shrink when the process's memory budget gets short: it may hold a quarter of what others leave
//! of it.
//!
//! A body is a slice of the buffer it arrived in and keeps that whole buffer alive, with messages of other partitions and
//! with bodies that were removed. So bodies of a turn that are a small part of their buffer are copied, once for all of
//! them; the others keep a few times the memory that is charged for them. Removed bodies stay charged while an older body
//! is still cached, because it may share their buffer; once removed bodies outweigh the live ones, the live ones are copied
//! into buffers of their own.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use peeklock_budget::{Budget, Owner, Share};

use crate::BodyRef;

/// A partition may hold this many times the free budget.
const SHARE_OF_FREE: usize = 4;

/// The limit of all caches is what others leave of the process's budget, divided by this.
const PART_OF_REST: usize = 4;

/// Largest buffer in which the front end reads messages, unless a message is larger.
const BUFFER_BYTES_MAX: usize = 128 << 10;

/// Bodies of a turn that are a smaller part of their buffer, in bytes, are copied.
const PART_BYTES_MIN: usize = 32 << 10;

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
    /// Bodies with a lower number than one that was there before, as transactions add them under reserved numbers. They
    /// stay until they are durable.
    late: BTreeMap<u64, Bytes>,
    /// The cost of all slots, including removed bodies, and of the late bodies.
    charged_bytes: usize,
    /// The part of it that belongs to removed bodies.
    removed_bytes: usize,
    /// The first body since the end of the last turn.
    fresh_from: Option<u64>,
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
        let (slots, late) = (VecDeque::new(), BTreeMap::new());
        Self { budget, slots, late, charged_bytes: 0, removed_bytes: 0, fresh_from: None, reported }
    }

    /// Adds a body.
    pub(super) fn insert(&mut self, body: BodyRef, content: Bytes) {
        let charged = cost(&content);
        self.charge(charged as usize);
        if self.slots.back().is_some_and(|last| last.number >= body.0) {
            if let Some(replaced) = self.late.insert(body.0, content) {
                self.discharge(cost(&replaced) as usize);
            }
            return;
        }
        self.fresh_from.get_or_insert(body.0);
        self.slots.push_back(Slot { number: body.0, content: Some(content), cost: charged });
    }

    /// The body, if it is cached.
    pub(super) fn get(&self, body: BodyRef) -> Option<Bytes> {
        match self.position(body) {
            Some(position) => self.slots.get(position)?.content.clone(),
            None => self.late.get(&body.0).cloned(),
        }
    }

    /// Removes a body that can't be requested any more.
    pub(super) fn remove(&mut self, body: BodyRef) {
        let Some(slot) = self.position(body).and_then(|position| self.slots.get_mut(position)) else {
            return self.remove_late(body.0);
        };
        if slot.content.take().is_some() {
            self.removed_bytes += slot.cost as usize;
        }
        self.drop_removed_front();
        if self.removed_bytes > self.charged_bytes / 2 {
            self.compact();
        }
    }

    fn remove_late(&mut self, number: u64) {
        if let Some(content) = self.late.remove(&number) {
            self.discharge(cost(&content) as usize);
        }
    }

    /// Ends a turn: gives small bodies memory of their own, and evicts the oldest bodies until the partition is within its
    /// share. Bodies after `durable` stay, because the store can't return them yet.
    pub(super) fn end_turn(&mut self, durable: Option<BodyRef>) {
        self.copy_small_parts();
        self.shrink(durable);
        self.report();
    }

    fn shrink(&mut self, durable: Option<BodyRef>) {
        let Some(durable) = durable else { return };
        while let Some((&number, _)) = self.late.first_key_value().filter(|(number, _)| **number <= durable.0)
        {
            self.remove_late(number);
        }
        while self.charged_bytes > self.budget.share() {
            match self.slots.front() {
                Some(front) if front.number <= durable.0 => self.pop_front(),
                _ => break,
            }
            self.drop_removed_front();
        }
    }

    /// Copies those bodies of this turn that are a small part of the buffer in which they arrived.
    fn copy_small_parts(&mut self) {
        let Some(first) = self.fresh_from.take() else { return };
        let mut begin = self.slots.partition_point(|slot| slot.number < first);
        while begin < self.slots.len() {
            let (end, bytes) = self.part(begin);
            if bytes < PART_BYTES_MIN {
                self.copy(begin..end, bytes);
            }
            begin = end;
        }
    }

    /// The end of the slots from `begin` on whose bodies may be in one buffer, as their addresses are close together; and
    /// the bytes of these bodies.
    fn part(&self, begin: usize) -> (usize, usize) {
        let (mut end, mut bytes, mut start) = (begin, 0, None);
        for slot in self.slots.range(begin..) {
            if let Some(content) = &slot.content {
                let address = content.as_ptr().addr();
                if start.get_or_insert(address).abs_diff(address) >= BUFFER_BYTES_MAX {
                    break;
                }
                bytes += content.len();
            }
            end += 1;
        }
        (end, bytes)
    }

    /// Copies bodies with this many bytes in all.
    fn copy(&mut self, slots: Range<usize>, bytes: usize) {
        let mut block = BytesMut::with_capacity(bytes);
        for content in self.slots.range_mut(slots).filter_map(|slot| slot.content.as_mut()) {
            block.extend_from_slice(content);
            *content = block.split().freeze();
        }
    }

    /// Reports the charged bytes to the process's budget.
    fn report(&mut self) {
        self.reported.set(self.charged_bytes);
    }

    /// Removes all bodies.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.late.clear();
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
            if let Some(content) = &mut slot.content {
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

/// What a body is charged, in bytes.
fn cost(content: &Bytes) -> u32 {
    u32::try_from(content.len() + SLOT_BYTES).unwrap_or(u32::MAX)
}

impl Drop for BodyCache {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests;
