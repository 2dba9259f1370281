//! The state that results from replaying a log.

use bytes::Bytes;

use super::log::RecordPlace;
use super::pages::Pages;
use super::part::{Bound, Part, PartBuilder, PartValue};
use super::record::{Change, Commit, Position, frame_len};
use super::rows::{Row, Rows};
use crate::index::{Index, Location};
use crate::{Key, PartitionId, Space};

/// All live entries: small values themselves, the others as positions in the bodies of records.
#[derive(Debug, Default)]
pub(super) struct State {
    pages: Pages,
    index: Index,
    pub(super) rows: Rows,
}

/// Location of a value that is not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) position: Position,
    /// Length of the value in bytes.
    pub(super) len: u32,
}

impl Stored {
    /// Length of its frame in bytes.
    pub(super) fn frame_len(self, key: Key) -> u32 {
        frame_len(key, self.len)
    }
}

/// A live key's value or its location.
#[derive(Debug, Clone)]
pub(super) enum Found {
    Value(Bytes),
    Stored(Stored),
}

impl State {
    /// Applies the changes of the record at `place`.
    pub(super) fn apply(&mut self, place: RecordPlace, commit: &Commit) {
        let row = (commit.bodies_len > 0).then(|| self.rows.open(place, commit.bodies_len.into()));
        for change in &commit.changes {
            match change {
                Change::Put { key, value } => self.put(*key, value),
                Change::Store { key, len, offset } => self.store(*key, row, *len, *offset),
                Change::Delete { key } => self.remove(*key),
                Change::DeleteRange { space, partition, first, last } => {
                    self.remove_range(*space, *partition, *first, *last);
                }
                Change::Move { key, len, offset, from } => {
                    if self.stored(*key).is_some_and(|stored| stored.position == *from) {
                        self.store(*key, row, *len, *offset);
                    }
                }
            }
        }
    }

    fn put(&mut self, key: Key, value: &[u8]) {
        self.bury(key);
        self.pages.insert(key, value);
    }

    fn store(&mut self, key: Key, row: Option<u32>, len: u32, offset: u32) {
        let Some(row) = row else { return };
        self.pages.remove(key);
        self.rows.live(row, len);
        if let Some(before) = self.index.insert(key, Location::new(row, offset, len), None) {
            self.rows.dead(before.segment, before.value_len());
        }
    }

    fn bury(&mut self, key: Key) {
        if let Some(before) = self.index.remove(key) {
            self.rows.dead(before.segment, before.value_len());
        }
    }

    fn remove(&mut self, key: Key) {
        self.pages.remove(key);
        self.bury(key);
    }

    fn remove_range(&mut self, space: Space, partition: PartitionId, first: u64, last: u64) {
        if first > last {
            return;
        }
        self.pages.remove_range(space, partition, first..=last);
        let rows = &mut self.rows;
        self.index.remove_range(space, partition, first..=last, |before| {
            rows.dead(before.segment, before.value_len());
        });
    }

    /// The location of a live value that is not in memory.
    pub(super) fn stored(&self, key: Key) -> Option<Stored> {
        self.locate(self.index.get(key)?)
    }

    fn locate(&self, location: Location) -> Option<Stored> {
        let place = self.rows.get(location.segment)?.place;
        Some(Stored { position: Position { place, offset: location.offset }, len: location.value_len() })
    }

    pub(super) fn get(&self, key: Key) -> Option<Found> {
        match self.pages.get(key) {
            Some(value) => Some(Found::Value(Bytes::copy_from_slice(value))),
            None => self.stored(key).map(Found::Stored),
        }
    }

    /// The live entries of a partition from `from` on, in number order.
    pub(super) fn range(
        &self,
        space: Space,
        partition: PartitionId,
        from: u64,
    ) -> impl Iterator<Item = (u64, PartValue<'_>)> + '_ {
        let mut small = self.pages.range(space, partition, from).peekable();
        let mut stored = self.index.range(space, partition, from).peekable();
        std::iter::from_fn(move || {
            let is_small_next = match (small.peek(), stored.peek()) {
                (Some((small, _)), Some((stored, _))) => small < stored,
                (small, _) => small.is_some(),
            };
            if is_small_next {
                return small.next().map(|(number, value)| (number, PartValue::Small(value)));
            }
            let (number, location) = stored.next()?;
            Some((number, PartValue::Stored(self.locate(location)?)))
        })
    }

    /// The spaces and partitions with live keys, in order.
    pub(super) fn partitions(&self) -> Vec<(Space, PartitionId)> {
        let mut all: Vec<_> = self.pages.partitions().chain(self.index.partitions()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The live entries from `from` on, as a part of a checkpoint of about `bytes` bytes.
    pub(super) fn part(&self, from: Bound, bytes: usize) -> Part {
        let mut builder = PartBuilder::new(from);
        let Bound::Key(first) = from else { return builder.finish(Bound::End) };
        for (space, partition) in self.partitions() {
            if (space, partition) < (first.space, first.partition) {
                continue;
            }
            let is_first = (space, partition) == (first.space, first.partition);
            for (number, value) in self.range(space, partition, if is_first { first.number } else { 0 }) {
                let key = Key::new(space, partition, number);
                if builder.len() >= bytes {
                    return builder.finish(Bound::Key(key));
                }
                let row_bytes = match &value {
                    PartValue::Stored(stored) => self.row_of(*stored).map_or(0, |row| row.total_bytes),
                    PartValue::Small(_) => 0,
                };
                builder.push(key, &value, row_bytes);
            }
        }
        builder.finish(Bound::End)
    }

    fn row_of(&self, stored: Stored) -> Option<Row> {
        self.rows.get(self.rows.id_of(stored.position.place)?)
    }

    /// Replaces all entries in the range of a part by its contents; `None` if the part is invalid.
    pub(super) fn replace(&mut self, part: &Bytes) -> Option<()> {
        let part = Part::decode(part)?;
        self.clear(part.from, part.to);
        for (place, bytes) in &part.rows {
            self.rows.open(*place, *bytes);
        }
        part.entries(|key, value| {
            match value {
                PartValue::Small(value) => self.put(key, value),
                PartValue::Stored(Stored { position, len }) => {
                    let row = self.rows.id_of(position.place);
                    self.store(key, row, len, position.offset);
                }
            };
        })
    }

    fn clear(&mut self, from: Bound, to: Bound) {
        let Bound::Key(first) = from else { return };
        for (space, partition) in self.partitions() {
            let place = (space, partition);
            let low = match place.cmp(&(first.space, first.partition)) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => first.number,
                std::cmp::Ordering::Greater => 0,
            };
            let high = match to {
                Bound::Key(end) if place > (end.space, end.partition) => continue,
                Bound::Key(end) if place == (end.space, end.partition) => match end.number.checked_sub(1) {
                    Some(high) => high,
                    None => continue,
                },
                _ => u64::MAX,
            };
            self.remove_range(space, partition, low, high);
        }
    }
}
