//! 256 consecutive keys: a sorted list while few of them are live, an array when many are.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::Location;

const SLOTS: usize = 256;
/// A list becomes an array at this many keys; at 16 bytes each, the list then takes more than half of the array's 3
/// KiB.
const DENSE_KEYS_MIN: usize = 96;
/// An array becomes a list again at this many keys.
const SPARSE_KEYS_MAX: usize = 64;

const NOWHERE: Location = Location::new(0, 0, 0);

/// Up to 256 locations by the low byte of their number.
#[derive(Debug)]
pub(super) enum Chunk {
    /// Ascending by low byte. Messages mostly leave in the order in which they came, from its front.
    Sparse(VecDeque<(u8, Location)>),
    /// Segment 0 marks a free slot.
    Dense { live: u16, slots: Box<[Location; SLOTS]> },
}

impl Default for Chunk {
    fn default() -> Self {
        Self::Sparse(VecDeque::new())
    }
}

impl Chunk {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Sparse(list) => list.is_empty(),
            Self::Dense { live, .. } => *live == 0,
        }
    }

    pub(super) fn get(&self, slot: u8) -> Option<Location> {
        match self {
            Self::Sparse(list) => find(list, slot).map(|(_, location)| location),
            Self::Dense { slots, .. } => slots.get(usize::from(slot)).copied().filter(is_live),
        }
    }

    pub(super) fn insert(&mut self, slot: u8, location: Location) -> Option<Location> {
        if let Self::Sparse(list) = self
            && list.len() >= DENSE_KEYS_MIN
        {
            *self = Self::dense(list);
        }
        match self {
            Self::Sparse(list) => match list.back() {
                Some((last, _)) if *last >= slot => insert_sorted(list, slot, location),
                _ => {
                    list.push_back((slot, location));
                    None
                }
            },
            Self::Dense { live, slots } => {
                let place = slots.get_mut(usize::from(slot))?;
                let before = Some(std::mem::replace(place, location)).filter(is_live);
                *live += u16::from(before.is_none());
                before
            }
        }
    }

    pub(super) fn remove(&mut self, slot: u8) -> Option<Location> {
        let before = match self {
            Self::Sparse(list) => {
                let (place, location) = find(list, slot)?;
                match place {
                    0 => list.pop_front(),
                    place => list.remove(place),
                };
                Some(location)
            }
            Self::Dense { live, slots } => {
                let place = slots.get_mut(usize::from(slot))?;
                let before = Some(std::mem::replace(place, NOWHERE)).filter(is_live);
                *live -= u16::from(before.is_some());
                before
            }
        };
        self.shrink();
        before
    }

    pub(super) fn remove_range(
        &mut self,
        slots: RangeInclusive<u8>,
        mut forgotten: impl FnMut(u8, Location),
    ) {
        match self {
            Self::Sparse(list) => list.retain(|(slot, location)| {
                let keep = !slots.contains(slot);
                if !keep {
                    forgotten(*slot, *location);
                }
                keep
            }),
            Self::Dense { live, slots: places } => {
                for slot in slots {
                    let Some(place) = places.get_mut(usize::from(slot)) else { continue };
                    if is_live(place) {
                        forgotten(slot, std::mem::replace(place, NOWHERE));
                        *live -= 1;
                    }
                }
            }
        }
        self.shrink();
    }

    pub(super) fn iter_from(&self, first: u8) -> impl Iterator<Item = (u8, Location)> + '_ {
        let (list, slots): (_, &[Location]) = match self {
            Self::Sparse(list) => (Some(list), &[]),
            Self::Dense { slots, .. } => (None, slots.as_slice()),
        };
        let dense =
            (0..=u8::MAX).zip(slots).map(|(slot, location)| (slot, *location)).filter(|(_, at)| is_live(at));
        list.into_iter().flatten().copied().chain(dense).filter(move |(slot, _)| *slot >= first)
    }

    fn dense(list: &VecDeque<(u8, Location)>) -> Self {
        let mut slots = Box::new([NOWHERE; SLOTS]);
        let mut live = 0;
        for (slot, location) in list {
            if let Some(place) = slots.get_mut(usize::from(*slot)) {
                *place = *location;
                live += 1;
            }
        }
        Self::Dense { live, slots }
    }

    fn shrink(&mut self) {
        match self {
            Self::Dense { live, .. } if usize::from(*live) <= SPARSE_KEYS_MAX => {
                *self = Self::Sparse(self.iter_from(0).collect());
            }
            Self::Sparse(list) if list.capacity() > 4 * list.len().max(4) => list.shrink_to_fit(),
            _ => {}
        }
    }
}

/// The place of a slot in a sorted list, and its location.
fn find(list: &VecDeque<(u8, Location)>, slot: u8) -> Option<(usize, Location)> {
    // In a list without gaps, the first slot tells the place of each other.
    let expected = usize::from(slot.wrapping_sub(list.front()?.0));
    match list.get(expected) {
        Some((found, location)) if *found == slot => Some((expected, *location)),
        _ => {
            let place = list.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
            list.get(place).map(|(_, location)| (place, *location))
        }
    }
}

fn insert_sorted(list: &mut VecDeque<(u8, Location)>, slot: u8, location: Location) -> Option<Location> {
    match list.binary_search_by_key(&slot, |(slot, _)| *slot) {
        Ok(place) => list.get_mut(place).map(|(_, at)| std::mem::replace(at, location)),
        Err(place) => {
            list.insert(place, (slot, location));
            None
        }
    }
}

const fn is_live(location: &Location) -> bool {
    location.segment != 0
}
