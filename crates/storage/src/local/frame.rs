//! Builds a frame: all batches of a group commit, or a slice of the records that the cleaner copies.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::filesystem::File;
use super::format::{FRAME_HEADER_BYTES, FrameHeader, RECORD_HEADER_BYTES, RecordHeader, align};
use super::hint::Listing;
use super::state::Placed;
use crate::checksum;

/// Values of at least this size are written in place instead of being copied into the frame's buffer.
const LARGE_VALUE_BYTES: usize = 16 << 10;

/// A longer frame is written in pieces of at least this size. Shorter pieces gained nothing.
const PIECE_BYTES: usize = 256 << 10;

/// Records collected for one frame. Reused from frame to frame.
#[derive(Debug, Default)]
pub(super) struct FrameBuilder {
    /// The frame without its large values, starting with room for the frame header.
    bytes: Vec<u8>,
    /// Large values, each with the position in `bytes` before which it is inserted.
    large: Vec<(usize, Bytes)>,
    large_bytes: u64,
    records: Vec<Placed>,
    /// The checksums of the records; the frame's checksum covers them.
    checksums: Vec<u8>,
}

impl FrameBuilder {
    /// Resets the builder for a new frame.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(FRAME_HEADER_BYTES as usize, 0);
        self.large.clear();
        self.large_bytes = 0;
        self.records.clear();
        self.checksums.clear();
    }

    /// Adds a record whose value may be kept by reference.
    pub(super) fn push(&mut self, header: RecordHeader, value: &Bytes, last_number: u64) {
        if value.len() < LARGE_VALUE_BYTES {
            self.push_copy(header, value, last_number);
        } else {
            self.push_large(header, value, last_number);
        }
    }

    fn push_large(&mut self, header: RecordHeader, value: &Bytes, last_number: u64) {
        let at = self.push_header(header, last_number);
        let covered = self.bytes.get(at + 4..).unwrap_or_default();
        self.set_checksum(at, checksum::append(checksum::of(covered), value));
        self.large.push((self.bytes.len(), value.clone()));
        self.large_bytes += value.len() as u64;
    }

    /// Adds a record, copying its value.
    pub(super) fn push_copy(&mut self, header: RecordHeader, value: &[u8], last_number: u64) {
        let at = self.push_header(header, last_number);
        self.bytes.extend_from_slice(value);
        // One checksum over header and value: most records are small.
        let checksum = checksum::of(self.bytes.get(at + 4..).unwrap_or_default());
        self.set_checksum(at, checksum);
    }

    /// Adds a header without its checksum; returns its position in `bytes`.
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

    /// Length so far, including the frame header.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.large_bytes
    }

    /// Completes the frame for `offset` of a segment and sets the records' offsets.
    pub(super) fn finish(&mut self, offset: u64, sequence: u64, salt: u64) {
        let header = FrameHeader {
            payload_len: u32::try_from(self.len() - u64::from(FRAME_HEADER_BYTES)).unwrap_or(u32::MAX),
            record_count: u32::try_from(self.records.len()).unwrap_or(u32::MAX),
            records_crc: checksum::of(&self.checksums),
            sequence,
            salt,
        };
        if let Some(place) = self.bytes.get_mut(..FRAME_HEADER_BYTES as usize) {
            place.copy_from_slice(&header.encode());
        }
        let padding = align(self.len()) - self.len();
        self.bytes.resize(self.bytes.len() + usize::try_from(padding).unwrap_or(0), 0);
        let base = u32::try_from(offset).unwrap_or(u32::MAX);
        for placed in &mut self.records {
            placed.offset = placed.offset.saturating_add(base);
        }
    }

    /// Writes the finished frame at `offset`. A long frame is written in pieces, so that the disk can write the first
    /// piece while others are copied, and several at a time.
    pub(super) fn write(&self, file: &dyn File, offset: u64) -> io::Result<()> {
        let (mut piece, mut piece_bytes, mut at) = (Vec::with_capacity(2 * self.large.len() + 1), 0, offset);
        let end = offset + self.len();
        for slice in self.slices().flat_map(|slice| slice.chunks(PIECE_BYTES)) {
            piece.push(IoSlice::new(slice));
            piece_bytes += slice.len() as u64;
            let behind = end.saturating_sub(at + piece_bytes);
            if piece_bytes >= PIECE_BYTES as u64 && behind >= PIECE_BYTES as u64 {
                file.write_all_vectored_at(&mut piece, at)?;
                file.begin_to_sync(at, piece_bytes);
                at += piece_bytes;
                piece.clear();
                piece_bytes = 0;
            }
        }
        file.write_all_vectored_at(&mut piece, at)
    }

    /// The slices of the frame in order.
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.large.iter().map(|(before, value)| (*before, value.as_ref()));
        let mut from = 0;
        ends.chain([(self.bytes.len(), [].as_slice())]).flat_map(move |(end, value)| {
            let before = self.bytes.get(from..end).unwrap_or_default();
            from = end;
            [before, value]
        })
    }

    /// Adds the records of the finished frame to `listing`.
    pub(super) fn list(&self, listing: &mut Listing) {
        if !self.large.is_empty() {
            // Not supported, because a segment with large values has few records.
            return listing.give_up();
        }
        let mut rest = self.bytes.get(FRAME_HEADER_BYTES as usize..).unwrap_or_default();
        for placed in &self.records {
            let len = RECORD_HEADER_BYTES as usize + placed.header.value_len as usize;
            let (record, after) = rest.split_at_checked(len).unwrap_or_default();
            listing.push(placed, record);
            rest = after;
        }
    }

    /// The records in order.
    pub(super) fn records(&self) -> &[Placed] {
        &self.records
    }

    /// Releases memory beyond `bytes_max` after an unusually large frame.
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        self.large.clear();
        if self.bytes.capacity() > bytes_max {
            self.bytes = Vec::new();
        }
    }
}
