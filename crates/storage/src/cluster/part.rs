//! Checkpoints: all live entries, as records of the log.
//!
//! A part is written while no other record is under way, and lists exactly the live entries between two keys at its
//! place in the log. The parts of a checkpoint follow each other in key order, with commits between them, up to the
//! last key; then the mark records the place of the first part. A reader that starts there, and lets each part replace
//! the entries in its range, has read every key once and every change since.
//!
//! ```text
//! part     from | to | count of rows | place and bytes of each row | entry, entry, …
//! bound    1 u8 | key      or 0 u8 for the end
//! entry    what and space u8 | partition | number | …
//!          small  | length | value
//!          stored | number of the row in the part | offset | length
//! mark     place of the first part | bytes of the heads of all parts
//! ```

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::codec::{Decoder, put_key, put_place, put_varint, space};
use super::log::RecordPlace;
use super::record::{Position, payload};
use super::state::Stored;
use crate::{Key, PartitionId, Space};

const SMALL: u8 = 0;
const STORED: u8 = 1;

/// Start or end of a part's key range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// Before this key.
    Key(Key),
    /// After all keys.
    End,
}

impl Bound {
    /// Before all keys.
    pub(super) const START: Self = Self::Key(Key::new(Space::Meta, PartitionId(0), 0));

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Key(key) => {
                out.push(1);
                put_key(out, key);
            }
            Self::End => out.push(0),
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Option<Self> {
        match decoder.u8()? {
            0 => Some(Self::End),
            1 => Some(Self::Key(decoder.key()?)),
            _ => None,
        }
    }
}

/// A live value in a part.
#[derive(Debug, Clone, Copy)]
pub(super) enum PartValue<'a> {
    Small(&'a [u8]),
    Stored(Stored),
}

/// Builds a part.
#[derive(Debug)]
pub(super) struct PartBuilder {
    from: Bound,
    rows: Vec<(RecordPlace, u64)>,
    numbers: FxHashMap<RecordPlace, u64>,
    entries: Vec<u8>,
}

impl PartBuilder {
    pub(super) fn new(from: Bound) -> Self {
        Self { from, rows: Vec::new(), numbers: FxHashMap::default(), entries: Vec::new() }
    }

    /// Approximate size in bytes.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + 8 * self.rows.len()
    }

    /// Adds an entry. For a stored value, `row_bytes` is the length of its row.
    pub(super) fn push(&mut self, key: Key, value: &PartValue<'_>, row_bytes: u64) {
        let what = match value {
            PartValue::Small(_) => SMALL,
            PartValue::Stored(_) => STORED,
        };
        self.entries.push(what << 4 | key.space as u8);
        put_place(&mut self.entries, key.partition, key.number);
        match value {
            PartValue::Small(value) => {
                put_varint(&mut self.entries, value.len() as u64);
                self.entries.extend_from_slice(value);
            }
            PartValue::Stored(Stored { position, len }) => {
                let next = self.rows.len() as u64;
                let number = *self.numbers.entry(position.place).or_insert(next);
                if number == next {
                    self.rows.push((position.place, row_bytes));
                }
                put_varint(&mut self.entries, number);
                put_varint(&mut self.entries, position.offset.into());
                put_varint(&mut self.entries, (*len).into());
            }
        }
    }

    pub(super) fn finish(self, to: Bound) -> Part {
        let mut payload = payload();
        self.from.encode(&mut payload);
        to.encode(&mut payload);
        put_varint(&mut payload, self.rows.len() as u64);
        for (place, bytes) in &self.rows {
            put_varint(&mut payload, place.0);
            put_varint(&mut payload, *bytes);
        }
        payload.extend_from_slice(&self.entries);
        Part { to, payload }
    }
}

/// A part that is ready to be sealed.
#[derive(Debug)]
pub(super) struct Part {
    /// Start of the next part.
    pub(super) to: Bound,
    pub(super) payload: Vec<u8>,
}

/// A decoded part.
#[derive(Debug)]
pub(super) struct PartRead<'a> {
    pub(super) from: Bound,
    pub(super) to: Bound,
    /// Places and lengths of the bodies that the part refers to.
    pub(super) rows: Vec<(RecordPlace, u64)>,
    entries: Decoder<'a>,
}

impl Part {
    /// Decodes a payload; `None` if it is invalid.
    pub(super) fn decode(payload: &Bytes) -> Option<PartRead<'_>> {
        let mut decoder = Decoder::new(payload);
        let from = Bound::decode(&mut decoder)?;
        let to = Bound::decode(&mut decoder)?;
        let mut rows = Vec::new();
        for _ in 0..decoder.varint()? {
            rows.push((RecordPlace(decoder.varint()?), decoder.varint()?));
        }
        Some(PartRead { from, to, rows, entries: decoder })
    }
}

impl<'a> PartRead<'a> {
    /// Calls `found` for every entry; `None` if any is invalid.
    pub(super) fn entries(mut self, mut found: impl FnMut(Key, PartValue<'a>)) -> Option<()> {
        while !self.entries.rest().is_empty() {
            let what = self.entries.u8()?;
            let key = self.entries.key_in(space(what & 0xf)?)?;
            match what >> 4 {
                SMALL => {
                    let len = usize::try_from(self.entries.varint()?).ok()?;
                    found(key, PartValue::Small(self.entries.take(len)?));
                }
                STORED => {
                    let row = usize::try_from(self.entries.varint()?).ok()?;
                    let (place, _) = *self.rows.get(row)?;
                    let offset = self.entries.varint32()?;
                    let len = self.entries.varint32()?;
                    found(key, PartValue::Stored(Stored { position: Position { place, offset }, len }));
                }
                _ => return None,
            }
        }
        Some(())
    }
}

/// Decodes the payload of a part and of a mark, and visits every entry.
pub(crate) fn exercise(payload: &Bytes) {
    if let Some(part) = Part::decode(payload) {
        let _ = part.entries(|_, _| {});
    }
    let _ = Mark::decode(payload);
}

/// The end of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Place of its first part, where reading begins.
    pub(super) begins: RecordPlace,
    /// Bytes of the heads of all its parts.
    pub(super) bytes: u64,
}

impl Mark {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut payload = payload();
        put_varint(&mut payload, self.begins.0);
        put_varint(&mut payload, self.bytes);
        payload
    }

    pub(super) fn decode(payload: &Bytes) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        let mark = Self { begins: RecordPlace(decoder.varint()?), bytes: decoder.varint()? };
        decoder.rest().is_empty().then_some(mark)
    }
}
