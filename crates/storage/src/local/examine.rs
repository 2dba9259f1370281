//! Reads a damaged segment: every readable record, and every damaged place.

use std::io;

use super::directory::is_lost;
use super::format::{FRAME_HEADER_BYTES, FrameHeader, Kind, Record, SEGMENT_HEADER_BYTES};
use super::segments::SegmentFile;
use super::walk::{Found, Window, decode_unverified, find_later_frame, is_certainly_put};

/// An item found in a damaged segment, in file order.
#[derive(Debug)]
pub(super) enum Met<'a> {
    /// An intact record.
    Record(Found<'a>),
    /// A damaged record. Its header identifies it, unless the header itself is damaged.
    Damaged(Found<'a>),
    /// Bytes that held an unknown number of records.
    Region(Region),
}

/// Unreadable bytes, or missing frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) offset: u64,
    /// One past the last byte.
    pub(super) end: u64,
    pub(super) reason: String,
}

/// The end of the readable part of a damaged segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Examined {
    /// One past the last frame.
    pub(super) offset: u64,
    /// The sequence of the next frame.
    pub(super) next_sequence: u64,
    /// Whether an unfinished frame begins at `offset`.
    pub(super) is_torn: bool,
}

/// The end of the frames of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Exactly this offset.
    Known(u64),
    /// Unknown, at most this offset.
    Open(u64),
}

/// Passes every item in `segment`, whose first frame has `sequence`, to `visit`.
///
/// # Errors
/// Errors of the file as a whole, and those that don't prove that bytes are lost. Where the disk lost bytes, the rest of the
/// segment is reported as one region.
pub(super) fn examine(
    segment: &SegmentFile,
    extent: Extent,
    sequence: u64,
    mut visit: impl FnMut(Met<'_>),
) -> io::Result<Examined> {
    let (Extent::Known(limit) | Extent::Open(limit)) = extent;
    let len = segment.file.len()?.min(limit);
    let mut at =
        Examined { offset: u64::from(SEGMENT_HEADER_BYTES), next_sequence: sequence, is_torn: false };
    let mut window = Window::new(segment.file.as_ref(), len);
    while at.offset < limit {
        let frame = frame(segment, &mut window, extent, at, &mut visit);
        let next = frame.or_else(|error| match is_lost(&error) {
            true => {
                let reason = format!("the bytes can't be read: {error}");
                visit(Met::Region(Region { offset: at.offset, end: limit, reason }));
                Ok(None)
            }
            false => Err(error),
        })?;
        match next {
            Some(next) => at = next,
            None => break,
        }
        if at.is_torn {
            break;
        }
    }
    Ok(at)
}

/// Processes the frame at `at`, or the damage in its place. Returns where to continue, `None` at the end.
fn frame(
    segment: &SegmentFile,
    window: &mut Window<'_>,
    extent: Extent,
    at: Examined,
    visit: &mut impl FnMut(Met<'_>),
) -> io::Result<Option<Examined>> {
    let Examined { offset, next_sequence, .. } = at;
    let bytes = window.bytes(offset..offset + u64::from(FRAME_HEADER_BYTES))?;
    let header = FrameHeader::decode(bytes, segment.salt).filter(|header| header.sequence == next_sequence);
    let Some(header) = header else {
        return resume(segment, extent, at, (offset, "no frame begins here"), visit);
    };
    let payload_start = offset + u64::from(FRAME_HEADER_BYTES);
    let payload = window.bytes(payload_start..payload_start + u64::from(header.payload_len))?;
    let Some(records) = records(header, payload) else {
        let behind = (offset + 1, "the records of the frame do not fit together");
        return resume(segment, extent, at, behind, visit);
    };
    let next = Examined {
        offset: offset + header.frame_bytes(),
        next_sequence: next_sequence.saturating_add(1),
        is_torn: false,
    };
    let is_damaged = records.iter().any(|(_, is_damaged)| *is_damaged);
    if is_damaged
        && matches!(extent, Extent::Open(_))
        && find_later_frame(segment, next.offset, next_sequence)?.is_none()
    {
        // The last frame of a log that was not closed: left unfinished by a crash, never acknowledged.
        return Ok(Some(Examined { is_torn: true, ..at }));
    }
    for (position, is_damaged) in records {
        let Some(record) = payload.get(position..).and_then(decode_unverified) else { continue };
        let last_number = record.last_number().filter(|_| record.header.kind == Kind::DeleteRange);
        let found = Found {
            record,
            offset: u32::try_from(payload_start + position as u64).unwrap_or(u32::MAX),
            last_number: last_number.unwrap_or(0),
            is_damaged: is_damaged && is_certainly_put(&record),
        };
        visit(if is_damaged { Met::Damaged(found) } else { Met::Record(found) });
    }
    Ok(Some(next))
}

/// The positions of a frame's records, and whether each is damaged; `None` if even their lengths are in doubt.
fn records(header: FrameHeader, payload: &[u8]) -> Option<Vec<(usize, bool)>> {
    if payload.len() as u64 != u64::from(header.payload_len) {
        return None;
    }
    let mut found = Vec::new();
    let mut position = 0;
    while position < payload.len() {
        let rest = payload.get(position..)?;
        let record = decode_unverified(rest)?;
        let is_whole = Record::decode(rest).is_some()
            && (record.header.kind != Kind::DeleteRange || record.last_number().is_some());
        found.push((position, !is_whole));
        position += record.encoded_len() as usize;
    }
    (u32::try_from(found.len()) == Ok(header.record_count)).then_some(found)
}

/// Continues after an unreadable place: at the next readable frame, if there is one.
fn resume(
    segment: &SegmentFile,
    extent: Extent,
    at: Examined,
    (from, reason): (u64, &str),
    visit: &mut impl FnMut(Met<'_>),
) -> io::Result<Option<Examined>> {
    let Examined { offset, next_sequence, .. } = at;
    let (Extent::Known(limit) | Extent::Open(limit)) = extent;
    let later = match next_sequence.checked_sub(1) {
        Some(before) => find_later_frame(segment, from, before)?.filter(|later| *later < limit),
        None => None,
    };
    if let Some(later) = later {
        let mut bytes = [0; FRAME_HEADER_BYTES as usize];
        segment.file.read_exact_at(&mut bytes, later)?;
        let sequence =
            FrameHeader::decode(&bytes, segment.salt).map_or(next_sequence, |header| header.sequence);
        visit(Met::Region(Region { offset, end: later, reason: reason.to_owned() }));
        return Ok(Some(Examined { offset: later, next_sequence: sequence, is_torn: false }));
    }
    if let Extent::Known(end) = extent {
        visit(Met::Region(Region { offset, end, reason: reason.to_owned() }));
        return Ok(Some(Examined { offset: end, ..at }));
    }
    let mut bytes = [0; FRAME_HEADER_BYTES as usize];
    let begins = segment.file.read_exact_at(&mut bytes, offset).is_ok()
        && FrameHeader::decode(&bytes, segment.salt).is_some_and(|header| header.sequence == next_sequence);
    Ok(begins.then_some(Examined { is_torn: true, ..at }))
}
