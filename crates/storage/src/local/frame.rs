//! Building one frame: every batch of a group commit, or a slice of what the cleaner keeps.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::filesystem::{BLOCK_BYTES, File};
use super::format::{FRAME_HEADER_BYTES, FrameHeader, RECORD_HEADER_BYTES, RecordHeader, align};
use super::hint::{Listing, is_value_kept};
use super::state::Placed;

/// Values from this size on are written from where they are, by way of the page cache. To copy smaller ones costs less than that.
const LARGE_VALUE_BYTES: usize = 256 << 10;

/// Records collected for one frame. Reused from frame to frame.
#[derive(Debug, Default)]
pub(super) struct FrameBuilder {
    /// What lies before the frame in its block, and the frame without its large values.
    bytes: Vec<u8>,
    /// Where in `bytes` the block begins: at an address that is a multiple of [`BLOCK_BYTES`].
    start: usize,
    /// Where in `bytes` the frame begins, with its header's place.
    frame: usize,
    /// Large values, each with the position in `bytes` before which it belongs.
    large: Vec<(usize, Bytes)>,
    large_bytes: u64,
    records: Vec<Placed>,
    /// The checksums of the records, which that of the frame covers.
    checksums: Vec<u8>,
}

impl FrameBuilder {
    /// Starts over.
    pub(super) fn clear(&mut self) {
        self.begin(&[], 0);
    }

    /// Starts over for a frame that will have about `frame_bytes`, in a block that begins with `before`.
    pub(super) fn begin(&mut self, before: &[u8], frame_bytes: usize) {
        self.bytes.clear();
        // The block, what rounds up the frame to blocks, and what comes before an aligned address.
        self.bytes.reserve(frame_bytes + 3 * BLOCK_BYTES);
        self.start = self.bytes.as_ptr().align_offset(BLOCK_BYTES);
        self.bytes.resize(self.start, 0);
        self.bytes.extend_from_slice(before);
        self.frame = self.bytes.len();
        self.bytes.resize(self.frame + FRAME_HEADER_BYTES as usize, 0);
        self.large.clear();
        self.large_bytes = 0;
        self.records.clear();
        self.checksums.clear();
    }

    /// Adds a record whose value may be kept by reference.
    pub(super) fn push(&mut self, header: RecordHeader, value: &Bytes, last_number: u64) {
        if value.len() < LARGE_VALUE_BYTES {
            return self.push_copy(header, value, last_number);
        }
        let at = self.push_header(header, last_number);
        let covered = self.bytes.get(at + 4..).unwrap_or_default();
        self.set_checksum(at, crc32c::crc32c_append(crc32c::crc32c(covered), value));
        self.large.push((self.bytes.len(), value.clone()));
        self.large_bytes += value.len() as u64;
    }

    /// Adds a record, copying its value.
    pub(super) fn push_copy(&mut self, header: RecordHeader, value: &[u8], last_number: u64) {
        let at = self.push_header(header, last_number);
        self.bytes.extend_from_slice(value);
        // Of header and value at once: most records are small.
        let checksum = crc32c::crc32c(self.bytes.get(at + 4..).unwrap_or_default());
        self.set_checksum(at, checksum);
    }

    /// Adds a header without its checksum; returns where it begins.
    fn push_header(&mut self, header: RecordHeader, last_number: u64) -> usize {
        let offset = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&header.encode());
        self.records.push(Placed { header, offset, last_number });
        at
    }

    fn set_checksum(&mut self, at: usize, checksum: u32) {
        let checksum = checksum.to_le_bytes();
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&checksum);
        }
        self.checksums.extend_from_slice(&checksum);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes so far, frame header included.
    pub(super) fn len(&self) -> u64 {
        (self.bytes.len() - self.frame) as u64 + self.large_bytes
    }

    /// Completes the frame for `offset` of a segment; the records then know their places.
    pub(super) fn finish(&mut self, offset: u64, sequence: u64, salt: u64) {
        let header = FrameHeader {
            payload_len: u32::try_from(self.len() - u64::from(FRAME_HEADER_BYTES)).unwrap_or(u32::MAX),
            record_count: u32::try_from(self.records.len()).unwrap_or(u32::MAX),
            records_crc: crc32c::crc32c(&self.checksums),
            sequence,
            salt,
        };
        if let Some(place) = self.bytes.get_mut(self.frame..self.frame + FRAME_HEADER_BYTES as usize) {
            place.copy_from_slice(&header.encode());
        }
        let padding = align(self.len()) - self.len();
        self.bytes.resize(self.bytes.len() + usize::try_from(padding).unwrap_or(0), 0);
        let base = u32::try_from(offset).unwrap_or(u32::MAX);
        for placed in &mut self.records {
            placed.offset = placed.offset.saturating_add(base);
        }
    }

    /// Writes the finished frame at `offset`.
    pub(super) fn write(&self, file: &dyn File, offset: u64) -> io::Result<()> {
        let mut slices = Vec::with_capacity(2 * self.large.len() + 1);
        let mut from = self.frame;
        for (before, value) in &self.large {
            slices.push(IoSlice::new(self.bytes.get(from..*before).unwrap_or_default()));
            slices.push(IoSlice::new(value));
            from = *before;
        }
        slices.push(IoSlice::new(self.bytes.get(from..).unwrap_or_default()));
        file.write_all_vectored_at(&mut slices, offset)
    }

    /// Writes the finished frame at `offset` of a file of `capacity` bytes, and with it the rest of the blocks that it
    /// touches: what lies before it, as it is there, and zeros behind it. So the write can pass by the page cache.
    /// Where it does not fit or what lies before it is not known, the frame is written alone.
    pub(super) fn write_blocks(&mut self, file: &dyn File, offset: u64, capacity: u64) -> io::Result<()> {
        let block = offset - offset % BLOCK_BYTES as u64;
        let end = (offset + self.len()).next_multiple_of(BLOCK_BYTES as u64);
        let is_whole = self.large.is_empty() && block + (self.frame - self.start) as u64 == offset;
        if !is_whole || end > capacity {
            return self.write(file, offset);
        }
        let len = self.bytes.len();
        self.bytes.resize(self.start + usize::try_from(end - block).unwrap_or(0), 0);
        let written = file.write_all_at(self.bytes.get(self.start..).unwrap_or_default(), block);
        self.bytes.truncate(len);
        written
    }

    /// Copies the last `len` bytes of the finished frame, and of what lies before it, to `tail`; false if these are not known.
    pub(super) fn tail(&self, len: usize, tail: &mut Vec<u8>) -> bool {
        tail.clear();
        tail.resize(len, 0);
        let mut left = len;
        let mut take = |part: &[u8]| {
            let taken = part.len().min(left);
            let from = part.get(part.len() - taken..).unwrap_or_default();
            tail.get_mut(left - taken..left).unwrap_or_default().copy_from_slice(from);
            left -= taken;
        };
        let mut to = self.bytes.len();
        for (before, value) in self.large.iter().rev() {
            take(self.bytes.get(*before..to).unwrap_or_default());
            take(value);
            to = *before;
        }
        take(self.bytes.get(self.start..to).unwrap_or_default());
        left == 0
    }

    /// Lists the records of the finished frame, which begins at `offset` of its segment.
    pub(super) fn list(&self, offset: u64, listing: &mut Listing) {
        if !self.large.is_empty() {
            // Not worth the care: such a segment has few records.
            return listing.give_up();
        }
        for placed in &self.records {
            let header = placed.header;
            let len = RECORD_HEADER_BYTES + if is_value_kept(header) { header.value_len } else { 0 };
            let at = self.frame + usize::try_from(u64::from(placed.offset) - offset).unwrap_or(usize::MAX);
            listing.push(placed.offset, self.bytes.get(at..at + len as usize).unwrap_or_default());
        }
    }

    /// The records in order.
    pub(super) fn records(&self) -> &[Placed] {
        &self.records
    }

    /// Gives back memory beyond `bytes_max` after an unusually large frame.
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        self.large.clear();
        if self.bytes.capacity() > bytes_max {
            self.bytes = Vec::new();
        }
    }
}
