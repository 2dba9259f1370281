//! Hint files: the data of a sealed segment that opening needs, without message bodies.
//!
//! A hint lists the puts that were live when it was written and the removals that an older segment still needed, in log
//! order, with the values of the spaces that are read at start. It is derived data: a missing or damaged hint is
//! rebuilt from its segment.

use std::io;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::directory::Directory;
use super::fields::{Append, Fields};
use super::format::{FORMAT_VERSION, Kind, RECORD_HEADER_BYTES, RecordHeader, Shadows};
use super::state::{Placed, State};
use super::walk::VISIT_RECORDS_MAX;
use crate::{PartitionId, Space, checksum};

const MAGIC: &[u8; 8] = b"PKLKHNT\n";
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 8;
/// Largest listing; a segment with more records is read to write its hint.
const LISTING_BYTES_MAX: usize = 16 << 20;
/// A listing beyond this size reserves its maximum size at once: the system provides the memory only as it is written
/// to, and the listing is not moved each time it grows.
const LISTING_BYTES_GROWN: usize = 64 << 10;

/// The segment, and the part of it, that a hint describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) id: u32,
    pub(super) salt: u64,
    pub(super) end: u64,
}

impl Subject {
    /// The header of its hint.
    fn header(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.append_u32(FORMAT_VERSION);
        bytes.append_u32(self.id);
        bytes.append_u64(self.salt);
        bytes.append_u64(self.end);
        bytes
    }
}

/// Builds the entries of a hint.
#[derive(Debug)]
pub(super) struct HintBuilder {
    bytes: Vec<u8>,
    numbers: FxHashMap<(Space, PartitionId), u64>,
}

impl HintBuilder {
    pub(super) fn new(subject: Subject) -> Self {
        Self::in_buffer(Vec::new(), subject)
    }

    /// Like `new`, in an empty buffer that was used before.
    pub(super) fn in_buffer(mut bytes: Vec<u8>, subject: Subject) -> Self {
        bytes.extend_from_slice(&subject.header());
        Self { bytes, numbers: FxHashMap::default() }
    }

    /// Converts a complete listing in place, keeping the entries that `choose` selects. `choose` receives a few records
    /// at a time, and appends to its second argument whether each is wanted.
    pub(super) fn from_listing(
        listing: Listing,
        subject: Subject,
        choose: impl FnMut(&[Placed], &mut Vec<bool>),
    ) -> io::Result<Self> {
        let mut hint = Self { bytes: listing.bytes, numbers: FxHashMap::default() };
        if let Some(place) = hint.bytes.get_mut(..HEADER_BYTES) {
            place.copy_from_slice(&subject.header());
        }
        hint.sift(choose)?;
        Ok(hint)
    }

    /// Moves the selected entries together; if all are selected, no byte moves.
    fn sift(&mut self, mut choose: impl FnMut(&[Placed], &mut Vec<bool>)) -> io::Result<()> {
        let (mut from, mut kept_end) = (HEADER_BYTES, HEADER_BYTES);
        let (mut some, mut ends, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        while from < self.bytes.len() {
            some.clear();
            ends.clear();
            wanted.clear();
            self.look_ahead(from, &mut some, &mut ends);
            if some.is_empty() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a listing is cut short"));
            }
            choose(&some, &mut wanted);
            let next = ends.last().copied().unwrap_or(self.bytes.len());
            let mut seen = 0;
            for run in wanted.chunk_by(|one, next| one == next) {
                seen += run.len();
                let end = ends.get(seen - 1).copied().unwrap_or(from);
                if run.first() == Some(&true) {
                    if kept_end < from {
                        self.bytes.copy_within(from..end, kept_end);
                    }
                    kept_end += end - from;
                }
                from = end;
            }
            from = next;
        }
        self.bytes.truncate(kept_end);
        Ok(())
    }

    /// Decodes a few entries from `from` on, with the end of each, and records the numbers of the puts among them.
    fn look_ahead(&mut self, from: usize, some: &mut Vec<Placed>, ends: &mut Vec<usize>) {
        let mut fields = Fields(self.bytes.get(from..).unwrap_or_default());
        while some.len() < VISIT_RECORDS_MAX
            && let Some(entry) = entry(&mut fields)
        {
            some.push(entry.placed);
            ends.push(self.bytes.len() - fields.0.len());
        }
        for placed in some.iter().filter(|placed| placed.header.kind == Kind::Put) {
            self.note_put(placed.header);
        }
    }

    /// Adds a record of the segment.
    pub(super) fn push(&mut self, placed: &Placed, value: &[u8]) {
        let header = placed.header;
        // The record's encoded header, with its offset in place of the checksum.
        let encoded = header.encode();
        self.bytes.append_u32(placed.offset);
        self.bytes.extend_from_slice(encoded.get(4..).unwrap_or_default());
        if is_value_kept(header) {
            self.bytes.extend_from_slice(value);
        }
    }

    /// Records that the segment contains a put of this number, live or not.
    pub(super) fn note_put(&mut self, header: RecordHeader) {
        let highest = self.numbers.entry((header.key.space, header.key.partition)).or_default();
        *highest = (*highest).max(header.key.number);
    }

    /// The hint's bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let numbers_at = self.bytes.len() as u64;
        let mut numbers: Vec<_> = self.numbers.into_iter().collect();
        numbers.sort_unstable();
        for ((space, partition), number) in numbers {
            self.bytes.append_u8(space as u8);
            self.bytes.append_u64(partition.0);
            self.bytes.append_u64(number);
        }
        self.bytes.append_u64(numbers_at);
        let crc = checksum::of(&self.bytes);
        self.bytes.append_u32(crc);
        self.bytes
    }
}

/// Whether the value is part of the hint: those of spaces read at start, and the ends of ranges.
pub(super) fn is_value_kept(header: RecordHeader) -> bool {
    match header.kind {
        Kind::Put => header.key.space != Space::Body,
        Kind::Delete => false,
        Kind::DeleteRange => true,
    }
}

/// Appends to `needed`, for each of some records of segment `id`, whether a hint written now must list it. `put_bytes`
/// is the size of all puts of the segment, live or not, if known.
pub(super) fn choose_needed<'a>(
    state: &State,
    id: u32,
    put_bytes: Option<u64>,
    some: impl Iterator<Item = &'a Placed>,
    needed: &mut Vec<bool>,
) {
    let Some(segment) = state.segments.get(id) else {
        needed.extend(some.map(|_| false));
        return;
    };
    // The segment's live bytes include all bytes of a put while the index points at it, and none afterwards, unless its
    // partition was removed just now.
    let all_puts_live = put_bytes == Some(segment.live_bytes) && state.counts_are_exact();
    // Consecutive removals mostly refer to the same segment, so the last result is cached.
    let mut last = (Shadows::Nothing, false);
    for placed in some {
        let shadows = placed.header.shadows;
        let is_needed = match placed.header.kind {
            Kind::Put => all_puts_live || is_live(state, id, placed),
            Kind::Delete | Kind::DeleteRange if shadows == last.0 => last.1,
            Kind::Delete | Kind::DeleteRange => state.segments.is_shadow_alive(shadows, segment.ranks),
        };
        if placed.header.kind == Kind::Put {
            debug_assert!(!is_needed || is_live(state, id, placed), "{placed:?} is dead in segment {id}");
        } else {
            last = (shadows, is_needed);
        }
        needed.push(is_needed);
    }
}

/// Whether the index points at this put of segment `id`.
fn is_live(state: &State, id: u32, placed: &Placed) -> bool {
    let location = state.index.get(placed.header.key);
    location.is_some_and(|location| location.segment == id && location.offset == placed.offset)
}

/// An entry of a hint.
#[derive(Debug, Clone, Copy)]
pub(super) struct HintEntry<'a> {
    pub(super) placed: Placed,
    /// The value, if the hint contains it.
    pub(super) value: Option<&'a [u8]>,
}

/// The records of a segment in the form of hint entries, collected while the segment is filled. Its hint can then be
/// made without reading the segment back, and mostly without copying.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Room for a hint's header, then entries.
    bytes: Vec<u8>,
    put_bytes: u64,
    is_complete: bool,
}

impl Listing {
    /// The listing of a segment without records, in an empty buffer.
    pub(super) fn new(mut buffer: Vec<u8>) -> Self {
        buffer.resize(HEADER_BYTES, 0);
        Self { bytes: buffer, put_bytes: 0, is_complete: true }
    }

    /// Returns its buffer.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// Adds a record. `encoded` is the record as stored in its segment.
    pub(super) fn push(&mut self, placed: &Placed, encoded: &[u8]) {
        if !self.is_complete {
            return;
        }
        let header = placed.header;
        if header.kind == Kind::Put {
            self.put_bytes += u64::from(RECORD_HEADER_BYTES + header.value_len);
        }
        let kept = if is_value_kept(header) {
            encoded
        } else {
            encoded.get(..RECORD_HEADER_BYTES as usize).unwrap_or(encoded)
        };
        let at = self.bytes.len();
        if at + kept.len() > LISTING_BYTES_MAX {
            return self.give_up();
        }
        if at > LISTING_BYTES_GROWN {
            // Has no effect after the first time.
            self.bytes.reserve_exact(LISTING_BYTES_MAX - at);
        }
        self.bytes.extend_from_slice(kept);
        // The offset replaces the checksum.
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&placed.offset.to_le_bytes());
        }
    }

    /// Marks the listing as incomplete: the hint is then made by reading the segment.
    pub(super) fn give_up(&mut self) {
        self.bytes.clear();
        self.is_complete = false;
    }

    /// Whether every record of the segment is listed.
    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Bytes of all listed put records, values included.
    pub(super) const fn put_bytes(&self) -> u64 {
        self.put_bytes
    }
}

/// A read and verified hint.
#[derive(Debug, Clone)]
pub(super) struct Hint {
    pub(super) bytes: Bytes,
    entries_end: usize,
}

impl Hint {
    /// Decodes and verifies a hint, or returns the reason why it is invalid.
    pub(super) fn decode(bytes: Bytes, subject: Subject) -> Result<Self, String> {
        let (covered, crc) = bytes.split_last_chunk::<4>().ok_or("cut short")?;
        if checksum::of(covered) != u32::from_le_bytes(*crc) {
            return Err("the checksum does not match".to_owned());
        }
        let mut fields = Fields(covered);
        let is_ours = fields.bytes(MAGIC.len()) == Some(MAGIC) && fields.u32() == Some(FORMAT_VERSION);
        let speaks_of = (fields.u32(), fields.u64(), fields.u64());
        if !is_ours || speaks_of != (Some(subject.id), Some(subject.salt), Some(subject.end)) {
            return Err("it speaks of another segment or format".to_owned());
        }
        let (_, numbers_at) = covered.split_last_chunk::<8>().ok_or("cut short")?;
        let entries_end = usize::try_from(u64::from_le_bytes(*numbers_at)).map_err(|_| "cut short")?;
        if !(HEADER_BYTES..=covered.len() - 8).contains(&entries_end) {
            return Err("its parts do not fit".to_owned());
        }
        Ok(Self { bytes, entries_end })
    }

    /// Reads the hint of `subject`; the error is the reason why it can't be used.
    pub(super) fn load(directory: &Directory, subject: Subject) -> Result<Self, String> {
        Self::load_into(Vec::new(), directory, subject)
    }

    /// Like [`Self::load`], into a buffer used before: new memory costs a process more than reading into it.
    pub(super) fn load_into(
        mut bytes: Vec<u8>,
        directory: &Directory,
        subject: Subject,
    ) -> Result<Self, String> {
        let read = || -> io::Result<Vec<u8>> {
            let file = directory.filesystem.open(&directory.hint_path(subject.id), false)?;
            bytes.resize(usize::try_from(file.len()?).unwrap_or(0), 0);
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        let bytes = read().map_err(|error| error.to_string())?;
        Self::decode(Bytes::from(bytes), subject)
    }

    /// Passes every entry to `visit`, in log order.
    pub(super) fn entries(&self, mut visit: impl FnMut(HintEntry<'_>)) {
        let mut fields = Fields(self.bytes.get(HEADER_BYTES..self.entries_end).unwrap_or_default());
        while let Some(entry) = entry(&mut fields) {
            visit(entry);
        }
    }

    /// Passes the highest number put in the segment, by space and partition, to `visit`.
    pub(super) fn numbers(&self, mut visit: impl FnMut(Space, PartitionId, u64)) {
        let end = self.bytes.len().saturating_sub(12);
        let mut fields = Fields(self.bytes.get(self.entries_end..end).unwrap_or_default());
        while let (Some(space), Some(partition), Some(number)) = (fields.u8(), fields.u64(), fields.u64()) {
            if let Some(space) = super::format::space(space) {
                visit(space, PartitionId(partition), number);
            }
        }
    }
}

/// Decodes the content of a hint, from its entries on, with the right header and checksum, and visits everything in it.
pub(crate) fn exercise(content: &[u8]) {
    let subject = Subject { id: 1, salt: 2, end: 3 };
    let mut bytes = subject.header();
    bytes.extend_from_slice(content);
    let crc = checksum::of(&bytes);
    bytes.append_u32(crc);
    let Ok(hint) = Hint::decode(bytes.into(), subject) else { return };
    let mut listed_bytes = 0;
    hint.entries(|entry| {
        listed_bytes += RECORD_HEADER_BYTES as usize + entry.value.map_or(0, <[u8]>::len);
    });
    assert!(listed_bytes <= content.len());
    hint.numbers(|_, _, _| {});
}

fn entry<'a>(fields: &mut Fields<'a>) -> Option<HintEntry<'a>> {
    let (header, offset) = RecordHeader::decode(fields.0)?;
    fields.bytes(super::format::RECORD_HEADER_BYTES as usize)?;
    let mut entry = HintEntry { placed: Placed { header, offset, last_number: 0 }, value: None };
    if is_value_kept(header) {
        let value = fields.bytes(header.value_len as usize)?;
        entry.value = Some(value);
        if header.kind == Kind::DeleteRange {
            entry.placed.last_number = Fields(value).u64()?;
        }
    }
    Some(entry)
}
