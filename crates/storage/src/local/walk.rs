//! Reads the frames of a segment file.

use std::io;
use std::ops::Range;

use super::filesystem::File;
use super::format::{
    FRAME_ALIGNMENT, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, Kind, RECORD_HEADER_BYTES, Record,
    SEGMENT_HEADER_BYTES,
};
use super::segments::SegmentFile;
use super::state::Placed;
use crate::checksum;

/// Bytes read ahead.
const WINDOW_BYTES: u64 = 1 << 20;
/// Bytes per step of the search for frames after the end.
const SEARCH_BYTES: u64 = 1 << 20;

/// Smallest unit that a file system caches and writes.
const PAGE_BYTES: u64 = 4096;

/// A file read forward through a sliding buffer.
#[derive(Debug)]
pub(super) struct Window<'a> {
    file: &'a dyn File,
    len: u64,
    start: u64,
    buffer: Vec<u8>,
}

impl Found<'_> {
    pub(super) fn placed(&self) -> Placed {
        Placed { header: self.record.header, offset: self.offset, last_number: self.last_number }
    }
}

impl<'a> Window<'a> {
    /// A window over the first `len` bytes of a file.
    pub(super) const fn new(file: &'a dyn File, len: u64) -> Self {
        Self { file, len, start: 0, buffer: Vec::new() }
    }

    /// The bytes of `range`; fewer where the file ends.
    pub(super) fn bytes(&mut self, range: Range<u64>) -> io::Result<&[u8]> {
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        let is_inside = self.start <= start && end <= self.start + self.buffer.len() as u64;
        if !is_inside {
            let wanted = (end - start).max(WINDOW_BYTES).min(self.len - start);
            self.buffer.resize(to_usize(wanted), 0);
            self.start = start;
            if let Err(error) = self.file.read_exact_at(&mut self.buffer, start) {
                self.buffer.clear();
                return Err(error);
            }
        }
        let from = to_usize(start - self.start);
        Ok(self.buffer.get(from..from + to_usize(end - start)).unwrap_or_default())
    }
}

/// The end of the valid frames of a segment, and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// One past the last valid frame.
    pub(super) offset: u64,
    /// The sequence expected at `offset`.
    pub(super) next_sequence: u64,
    /// The defect of the bytes at `offset`.
    pub(super) reason: String,
    /// The exact offset of the defect, if it is inside a frame.
    pub(super) defect: u64,
    /// Whether the bytes look like the beginning of the expected frame.
    pub(super) is_torn: bool,
    /// Offset of the last valid frame, if there is one.
    pub(super) last_frame: Option<u64>,
}

/// Most records passed to a visitor at once, which bounds the time that it may hold a lock.
pub(super) const VISIT_RECORDS_MAX: usize = 128;

/// A record and its position in the segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) record: Record<'a>,
    pub(super) offset: u32,
    pub(super) last_number: u64,
    /// Whether the checksum does not match although the record is certainly a put; see [`Damage::Passed`].
    pub(super) is_damaged: bool,
}

/// How a walk treats a damaged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// It ends the walk.
    Refused,
    /// It is skipped, as [`Found::is_damaged`], if only the value or the key of one put can be damaged, and its frame
    /// was synced: the checksums and lengths of all records of the frame are consistent, and the record's length is
    /// impossible for a removal. `is_synced` declares all frames as synced; otherwise another frame must follow in the
    /// segment.
    Passed { is_synced: bool },
}

/// Checks the frames of `segment` up to `limit` and passes the records of each complete frame to `visit`, in order, a
/// few at a time. The first frame must have `sequence`.
pub(super) fn walk(
    segment: &SegmentFile,
    limit: u64,
    sequence: u64,
    visit: impl FnMut(&[Found<'_>]),
) -> io::Result<End> {
    walk_with(segment, limit, sequence, Damage::Refused, visit)
}

/// Like [`walk`], with a choice of how to treat damage.
pub(super) fn walk_with(
    segment: &SegmentFile,
    limit: u64,
    sequence: u64,
    damage: Damage,
    mut visit: impl FnMut(&[Found<'_>]),
) -> io::Result<End> {
    let len = segment.file.len()?.min(limit);
    let mut window = Window::new(segment.file.as_ref(), len);
    let mut offset = u64::from(SEGMENT_HEADER_BYTES);
    let mut sequence = sequence;
    let mut last_frame = None;
    loop {
        let end = |defect: u64, reason: &str, is_torn: bool| {
            Ok(End {
                offset,
                next_sequence: sequence,
                reason: reason.to_owned(),
                defect,
                is_torn,
                last_frame,
            })
        };
        let bytes = window.bytes(offset..offset + u64::from(FRAME_HEADER_BYTES))?;
        let Some(header) = FrameHeader::decode(bytes, segment.salt) else {
            return end(offset, "no frame begins here", false);
        };
        if header.sequence != sequence {
            let reason = format!("frame {} stands where {sequence} belongs", header.sequence);
            return end(offset, &reason, false);
        }
        let payload_start = offset + u64::from(FRAME_HEADER_BYTES);
        let payload = window.bytes(payload_start..payload_start + u64::from(header.payload_len))?;
        let checked = check_payload(header, payload, Damage::Refused);
        let has_damage = checked.is_err();
        if let Err((position, reason)) = checked {
            let can_pass = damage != Damage::Refused && check_payload(header, payload, damage).is_ok();
            let is_synced = damage == Damage::Passed { is_synced: true };
            if !can_pass || !(is_synced || is_followed(segment, offset + header.frame_bytes(), sequence + 1)?)
            {
                return end(payload_start + position, reason, true);
            }
        }
        visit_payload(payload, payload_start, has_damage, &mut visit);
        last_frame = Some(offset);
        offset += header.frame_bytes();
        sequence += 1;
    }
}

/// Whether the records are complete, belong together and fill the payload; otherwise the offset and description of the
/// defect.
fn check_payload(header: FrameHeader, payload: &[u8], damage: Damage) -> Result<(), (u64, &'static str)> {
    if payload.len() as u64 != u64::from(header.payload_len) {
        return Err((payload.len() as u64, "the frame reaches past the end"));
    }
    let mut rest = payload;
    let mut records_crc = 0;
    let mut record_count = 0u32;
    while !rest.is_empty() {
        let position = (payload.len() - rest.len()) as u64;
        let record = match Record::decode(rest) {
            Some(record) => record,
            None => decode_unverified(rest)
                .filter(|record| damage != Damage::Refused && is_certainly_put(record))
                .ok_or((position, "the checksum of the record does not match"))?,
        };
        if record.header.kind == Kind::DeleteRange && record.last_number().is_none() {
            return Err((position, "the record of a range has no end"));
        }
        records_crc = checksum::append(records_crc, &record.crc.to_le_bytes());
        record_count += 1;
        rest = rest.get(record.encoded_len() as usize..).unwrap_or_default();
    }
    if (record_count, records_crc) != (header.record_count, header.records_crc) {
        return Err((0, "the frame's records do not belong together"));
    }
    Ok(())
}

fn visit_payload(payload: &[u8], payload_start: u64, has_damage: bool, visit: &mut impl FnMut(&[Found<'_>])) {
    let mut position = 0;
    let mut found = Vec::with_capacity(VISIT_RECORDS_MAX);
    while let Some(record) = payload.get(position..).and_then(decode_unverified) {
        let is_damaged = has_damage && payload.get(position..).and_then(Record::decode).is_none();
        let offset = u32::try_from(payload_start + position as u64).unwrap_or(u32::MAX);
        position += record.encoded_len() as usize;
        let last_number = match record.header.kind {
            Kind::DeleteRange => record.last_number().unwrap_or(0),
            _ => 0,
        };
        found.push(Found { record, offset, last_number, is_damaged });
        if found.len() == VISIT_RECORDS_MAX {
            visit(&found);
            found.clear();
        }
    }
    visit(&found);
}

/// Whether a damaged record that fits into its frame can't be a removal: a removal has no value or one of 8 bytes.
pub(super) fn is_certainly_put(record: &Record<'_>) -> bool {
    record.header.kind == Kind::Put && !matches!(record.header.value_len, 0 | 8)
}

/// Whether a frame of this sequence begins here.
fn is_followed(segment: &SegmentFile, offset: u64, sequence: u64) -> io::Result<bool> {
    let mut bytes = [0; FRAME_HEADER_BYTES as usize];
    match segment.file.read_exact_at(&mut bytes, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
        Ok(()) => {
            Ok(FrameHeader::decode(&bytes, segment.salt).is_some_and(|header| header.sequence == sequence))
        }
    }
}

/// Decodes a record whose checksum is verified elsewhere.
pub(super) fn decode_unverified(bytes: &[u8]) -> Option<Record<'_>> {
    let (header, crc) = super::format::RecordHeader::decode(bytes)?;
    let value_end = (RECORD_HEADER_BYTES as usize).checked_add(header.value_len as usize)?;
    Some(Record { header, value: bytes.get(RECORD_HEADER_BYTES as usize..value_end)?, crc })
}

/// Writes the last frame before `end` again, from the beginning of its page; the caller syncs.
///
/// A process that failed to sync it has left it in the cache as clean pages, which no later sync writes. Earlier frames
/// were synced before this one was written.
pub(super) fn rewrite_last_frame(segment: &SegmentFile, end: &End) -> io::Result<()> {
    let Some(frame) = end.last_frame else { return Ok(()) };
    let start = frame - frame % PAGE_BYTES;
    let mut bytes = vec![0; to_usize(end.offset - start)];
    segment.file.read_exact_at(&mut bytes, start)?;
    let found = bytes.get(to_usize(frame - start)..).unwrap_or_default();
    let header = FrameHeader::decode(found, segment.salt);
    let payload = |header: FrameHeader| {
        let first = FRAME_HEADER_BYTES as usize;
        found.get(first..first + header.payload_len as usize).unwrap_or_default()
    };
    // The cache may have dropped its pages since the walk.
    if header.is_none_or(|header| check_payload(header, payload(header), Damage::Refused).is_err()) {
        return Err(io::Error::other(format!("the frame at byte {frame} is not what was read a moment ago")));
    }
    segment.file.write_all_at(&bytes, start)
}

/// The first frame header of this incarnation after `from` whose sequence is after `sequence`: it proves that
/// everything before it was once synced.
pub(super) fn find_later_frame(segment: &SegmentFile, from: u64, sequence: u64) -> io::Result<Option<u64>> {
    let len = segment.file.len()?;
    let mut buffer = Vec::new();
    let mut start = from.next_multiple_of(u64::from(FRAME_ALIGNMENT));
    while start < len {
        let step = SEARCH_BYTES.min(len - start);
        // Headers may straddle two steps.
        let wanted = (step + u64::from(FRAME_HEADER_BYTES)).min(len - start);
        buffer.resize(to_usize(wanted), 0);
        segment.file.read_exact_at(&mut buffer, start)?;
        let mut places =
            buffer.chunks_exact(FRAME_ALIGNMENT as usize).zip(0..step / u64::from(FRAME_ALIGNMENT));
        let found = places.find_map(|(bytes, step)| {
            if bytes.first_chunk::<4>() != Some(&FRAME_MAGIC.to_le_bytes()) {
                return None;
            }
            let position = step * u64::from(FRAME_ALIGNMENT);
            let header = FrameHeader::decode(buffer.get(to_usize(position)..)?, segment.salt)?;
            (header.sequence > sequence).then_some(start + position)
        });
        if found.is_some() {
            return Ok(found);
        }
        start += step.next_multiple_of(u64::from(FRAME_ALIGNMENT));
    }
    Ok(None)
}

/// Lossless on 64-bit machines; on others a size beyond memory fails where it is used.
fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
