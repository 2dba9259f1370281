//! In-memory store of small values, packed into pages: those of the spaces `Meta` and `Head`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

use crate::{Key, PartitionId, Space};

/// Consecutive numbers that share a page. A change moves the rest of its page, so pages are small.
const PAGE_NUMBERS: u64 = 32;
/// Bytes of number and length before each value.
const ENTRY_HEADER_BYTES: usize = 3;

/// The values of up to [`PAGE_NUMBERS`] neighbouring numbers: `number u8 | length u16 | value`, ascending.
#[derive(Debug, Default)]
struct Page(Vec<u8>);

/// Position of an entry in a page.
#[derive(Debug, Clone, Copy)]
struct Span {
    slot: u8,
    start: usize,
    end: usize,
}

impl Page {
    fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let header: &[u8; ENTRY_HEADER_BYTES] = self.0.get(at..)?.first_chunk()?;
            let [slot, low, high] = *header;
            let end = at + ENTRY_HEADER_BYTES + usize::from(u16::from_le_bytes([low, high]));
            let span = Span { slot, start: at, end };
            at = end;
            Some(span)
        })
    }

    fn value(&self, span: Span) -> &[u8] {
        self.0.get(span.start + ENTRY_HEADER_BYTES..span.end).unwrap_or_default()
    }

    /// The position of the entry of `slot`, or its insertion point.
    fn find(&self, slot: u8) -> Span {
        let end = Span { slot, start: self.0.len(), end: self.0.len() };
        match self.spans().find(|span| span.slot >= slot) {
            Some(span) if span.slot == slot => span,
            Some(span) => Span { slot, start: span.start, end: span.start },
            None => end,
        }
    }

    /// Returns true when there was a value before.
    fn replace(&mut self, slot: u8, entry: &[u8]) -> bool {
        let span = self.find(slot);
        self.0.splice(span.start..span.end, entry.iter().copied());
        span.end > span.start
    }
}

/// The pages of one space of one partition, by number / [`PAGE_NUMBERS`].
type Tree = BTreeMap<u64, Page>;

/// All small values.
#[derive(Debug, Default)]
pub(super) struct Pages {
    trees: FxHashMap<(Space, PartitionId), Tree>,
}

/// The slot of `number` in its page.
const fn slot(number: u64) -> u8 {
    (number % PAGE_NUMBERS) as u8
}

impl Pages {
    pub(super) fn get(&self, key: Key) -> Option<&[u8]> {
        let page = self.trees.get(&(key.space, key.partition))?.get(&(key.number / PAGE_NUMBERS))?;
        let span = page.find(slot(key.number));
        (span.end > span.start).then(|| page.value(span))
    }

    /// `value` is at most [`super::record::INLINE_BYTES_MAX`] bytes.
    pub(super) fn insert(&mut self, key: Key, value: &[u8]) {
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        let mut entry = Vec::with_capacity(ENTRY_HEADER_BYTES + value.len());
        entry.push(slot(key.number));
        entry.extend_from_slice(&len.to_le_bytes());
        entry.extend_from_slice(value.get(..usize::from(len)).unwrap_or_default());
        let tree = self.trees.entry((key.space, key.partition)).or_default();
        tree.entry(key.number / PAGE_NUMBERS).or_default().replace(slot(key.number), &entry);
    }

    /// Returns true when there was a value.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let place = (key.space, key.partition);
        let Some(tree) = self.trees.get_mut(&place) else { return false };
        let Entry::Occupied(mut page) = tree.entry(key.number / PAGE_NUMBERS) else { return false };
        let removed = page.get_mut().replace(slot(key.number), &[]);
        if page.get().0.is_empty() {
            page.remove();
        }
        if tree.is_empty() {
            self.trees.remove(&place);
        }
        removed
    }

    pub(super) fn remove_range(
        &mut self,
        space: Space,
        partition: PartitionId,
        numbers: RangeInclusive<u64>,
    ) {
        let Some(tree) = self.trees.get_mut(&(space, partition)) else { return };
        let (first, last) = numbers.into_inner();
        if first > last {
            return;
        }
        let mut emptied = Vec::new();
        for (page_number, page) in tree.range_mut(first / PAGE_NUMBERS..=last / PAGE_NUMBERS) {
            let base = page_number * PAGE_NUMBERS;
            let is_doomed = |span: &Span| (first..=last).contains(&(base + u64::from(span.slot)));
            let doomed = page.spans().filter(is_doomed);
            let range = doomed.fold(None, |range: Option<(usize, usize)>, span| {
                Some((range.map_or(span.start, |(start, _)| start), span.end))
            });
            if let Some((start, end)) = range {
                page.0.drain(start..end);
            }
            if page.0.is_empty() {
                emptied.push(*page_number);
            }
        }
        for page_number in emptied {
            tree.remove(&page_number);
        }
        if tree.is_empty() {
            self.trees.remove(&(space, partition));
        }
    }

    /// Values from `from` on, in number order.
    pub(super) fn range(
        &self,
        space: Space,
        partition: PartitionId,
        from: u64,
    ) -> impl Iterator<Item = (u64, &[u8])> + '_ {
        let tree = self.trees.get(&(space, partition));
        let pages = tree.into_iter().flat_map(move |tree| tree.range(from / PAGE_NUMBERS..));
        let entries = pages.flat_map(|(page_number, page)| {
            let base = page_number * PAGE_NUMBERS;
            page.spans().map(move |span| (base + u64::from(span.slot), page.value(span)))
        });
        entries.filter(move |(number, _)| *number >= from)
    }

    /// The spaces and partitions that have values.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (Space, PartitionId)> + '_ {
        self.trees.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const QUEUE: PartitionId = PartitionId(4);

    fn step() -> impl Strategy<Value = (u8, u64, u64, Vec<u8>)> {
        (0..8_u8, 0..200_u64, 0..100_u64, prop::collection::vec(any::<u8>(), 0..40))
    }

    proptest! {
        #[test]
        fn pages_agree_with_an_ordered_map(steps in prop::collection::vec(step(), 1..200), from in 0..200_u64) {
            let mut pages = Pages::default();
            let mut model = BTreeMap::new();
            for (what, number, len, value) in steps {
                let key = Key::new(Space::Head, QUEUE, number);
                match what {
                    0 => {
                        pages.remove_range(Space::Head, QUEUE, number..=number + len);
                        model.retain(|known, _| !(number..=number + len).contains(known));
                    }
                    1 | 2 => prop_assert_eq!(pages.remove(key), model.remove(&number).is_some()),
                    _ => {
                        pages.insert(key, &value);
                        model.insert(number, value);
                    }
                }
                prop_assert_eq!(pages.get(key), model.get(&number).map(Vec::as_slice));
            }
            let found: Vec<_> = pages.range(Space::Head, QUEUE, from).map(|(number, value)| (number, value.to_vec())).collect();
            let expected: Vec<_> = model.range(from..).map(|(number, value)| (*number, value.clone())).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(pages.partitions().count(), usize::from(!model.is_empty()));
        }
    }

    #[test]
    fn the_largest_numbers_have_their_page() {
        let mut pages = Pages::default();
        let key = Key::new(Space::Meta, QUEUE, u64::MAX);
        pages.insert(key, b"last");
        assert_eq!(pages.get(key), Some(&b"last"[..]));
        pages.remove_range(Space::Meta, QUEUE, 5..=u64::MAX);
        assert_eq!(pages.get(key), None);
    }
}
