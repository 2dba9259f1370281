//! Encoding of a segment: the headers of segments, frames and records. Little-endian throughout.

use std::path::Path;

use crate::{Error, Key, PartitionId, Space, checksum};

use super::directory::written_later;
use super::fields::{Append, Fields};

/// Version of all files of the data directory; raised when an older program could misread them.
pub(super) const FORMAT_VERSION: u32 = 1;

/// Bytes before the first frame of a segment.
pub(super) const SEGMENT_HEADER_BYTES: u32 = 64;
/// Bytes before the records of a frame.
pub(super) const FRAME_HEADER_BYTES: u32 = 40;
/// Bytes before the value of a record.
pub(super) const RECORD_HEADER_BYTES: u32 = 32;
/// Frames begin at multiples of this, so that a search for frames can skip positions.
pub(super) const FRAME_ALIGNMENT: u32 = 8;

const SEGMENT_MAGIC: &[u8; 8] = b"PKLKSEG\n";
pub(super) const FRAME_MAGIC: u32 = 0x4d52_464c;

/// Identifies one incarnation of a segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) id: u32,
    /// Random for each incarnation, so that bytes left from an earlier use of the file never match.
    pub(super) salt: u64,
}

/// The version of a later format, if `bytes` begin with `magic` and end with their correct checksum.
pub(super) fn later_version(bytes: &[u8], magic: &[u8], known: u32) -> Option<u32> {
    let (covered, crc) = bytes.split_last_chunk::<4>()?;
    let mut fields = Fields(covered);
    let is_whole =
        fields.bytes(magic.len()) == Some(magic) && checksum::of(covered) == u32::from_le_bytes(*crc);
    fields.u32().filter(|version| is_whole && *version > known)
}

impl SegmentHeader {
    /// Refuses the header of a segment that a later version wrote, which is not damage.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(super) fn refuse_later(bytes: &[u8], path: &Path) -> Result<(), Error> {
        let later = later_version(bytes, SEGMENT_MAGIC, FORMAT_VERSION);
        later.map_or(Ok(()), |version| Err(written_later(path, version, FORMAT_VERSION)))
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES as usize);
        bytes.extend_from_slice(SEGMENT_MAGIC);
        bytes.append_u32(FORMAT_VERSION);
        bytes.append_u32(self.id);
        bytes.append_u64(self.salt);
        bytes.resize(SEGMENT_HEADER_BYTES as usize - 4, 0);
        let crc = checksum::of(&bytes);
        bytes.append_u32(crc);
        bytes
    }

    /// Decodes the header, or returns the reason why it is invalid.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = Fields(bytes);
        if fields.bytes(SEGMENT_MAGIC.len()) != Some(SEGMENT_MAGIC) {
            return Err("not a segment: the magic number is missing".to_owned());
        }
        let version = fields.u32();
        let header = fields.u32().zip(fields.u64()).map(|(id, salt)| Self { id, salt });
        let crc = fields.bytes(SEGMENT_HEADER_BYTES as usize - 28).and_then(|_| fields.u32());
        let covered = bytes.get(..SEGMENT_HEADER_BYTES as usize - 4).map(checksum::of);
        if crc.is_none() || crc != covered {
            return Err("the checksum of the segment header does not match".to_owned());
        }
        if version != Some(FORMAT_VERSION) {
            return Err(format!("format version {version:?}, this program reads {FORMAT_VERSION}"));
        }
        header.ok_or_else(|| "the segment header is cut short".to_owned())
    }
}

/// One group commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Bytes of the records, padding excluded.
    pub(super) payload_len: u32,
    pub(super) record_count: u32,
    /// CRC-32C over the checksums of all records, which binds them together.
    pub(super) records_crc: u32,
    /// Number of the frame, without gaps across segments.
    pub(super) sequence: u64,
    /// The salt of the segment.
    pub(super) salt: u64,
}

impl FrameHeader {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES as usize);
        bytes.append_u32(FRAME_MAGIC);
        bytes.append_u32(self.payload_len);
        bytes.append_u32(self.record_count);
        bytes.append_u32(self.records_crc);
        bytes.append_u64(self.sequence);
        bytes.append_u64(self.salt);
        bytes.append_u32(0);
        let crc = checksum::of(&bytes);
        bytes.append_u32(crc);
        bytes
    }

    /// Decodes the header at the beginning of `bytes`; `None` if there is no valid one with this salt.
    pub(super) fn decode(bytes: &[u8], salt: u64) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.u32()? != FRAME_MAGIC {
            return None;
        }
        let header = Self {
            payload_len: fields.u32()?,
            record_count: fields.u32()?,
            records_crc: fields.u32()?,
            sequence: fields.u64()?,
            salt: fields.u64()?,
        };
        fields.u32()?;
        let covered = bytes.get(..FRAME_HEADER_BYTES as usize - 4)?;
        (header.salt == salt && fields.u32()? == checksum::of(covered)).then_some(header)
    }

    /// Bytes from the beginning of this frame to that of the next one.
    pub(super) fn frame_bytes(self) -> u64 {
        align(u64::from(FRAME_HEADER_BYTES) + u64::from(self.payload_len))
    }
}

/// `bytes` rounded up to the next possible beginning of a frame.
pub(super) const fn align(bytes: u64) -> u64 {
    bytes.next_multiple_of(FRAME_ALIGNMENT as u64)
}

/// The operation of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Put = 1,
    Delete = 2,
    /// The value contains the last number as `u64`.
    DeleteRange = 3,
}

/// Where older versions of a record's key may still exist; a removal must be kept as long as they do. Ranks are
/// positions of segments in the order of replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shadows {
    /// No older version exists.
    Nothing,
    /// In the segment that covers this rank and in no other.
    Exact(u32),
    /// In any segment from this rank on.
    Since(u32),
}

impl Shadows {
    const fn encode(self) -> (u16, u32) {
        match self {
            Self::Nothing => (0, 0),
            Self::Exact(rank) => (1, rank),
            Self::Since(rank) => (2, rank),
        }
    }

    const fn decode(tag: u16, rank: u32) -> Option<Self> {
        match tag {
            0 => Some(Self::Nothing),
            1 => Some(Self::Exact(rank)),
            2 => Some(Self::Since(rank)),
            _ => None,
        }
    }
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHeader {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) value_len: u32,
    pub(super) shadows: Shadows,
}

impl RecordHeader {
    /// Encodes the header, with zeros in the first four bytes, the place of the checksum. The checksum covers
    /// everything after it, including the value.
    pub(super) fn encode(self) -> [u8; RECORD_HEADER_BYTES as usize] {
        let (tag, rank) = self.shadows.encode();
        let kind = u16::from_le_bytes([self.kind as u8, self.key.space as u8]);
        let words = [
            u64::from(self.value_len) << 32,
            u64::from(kind) | u64::from(tag) << 16 | u64::from(rank) << 32,
            self.key.partition.0,
            self.key.number,
        ];
        let mut bytes = [0; RECORD_HEADER_BYTES as usize];
        bytes.copy_from_slice(words.map(u64::to_le_bytes).as_flattened());
        bytes
    }

    /// Decodes the header at the beginning of `bytes` and its checksum, without verifying the checksum.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, u32)> {
        let mut fields = Fields(bytes);
        let crc = fields.u32()?;
        let value_len = fields.u32()?;
        let kind = match fields.u8()? {
            1 => Kind::Put,
            2 => Kind::Delete,
            3 => Kind::DeleteRange,
            _ => return None,
        };
        let space = space(fields.u8()?)?;
        let shadows = Shadows::decode(fields.u16()?, fields.u32()?)?;
        let key = Key::new(space, PartitionId(fields.u64()?), fields.u64()?);
        Some((Self { kind, key, value_len, shadows }, crc))
    }
}

/// The space with this number.
pub(super) fn space(number: u8) -> Option<Space> {
    Space::ALL.into_iter().find(|space| *space as u8 == number)
}

/// A decoded record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) header: RecordHeader,
    pub(super) value: &'a [u8],
    pub(super) crc: u32,
}

impl<'a> Record<'a> {
    /// Decodes the record at the beginning of `bytes`; `None` if it is incomplete or its checksum does not match.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, crc) = RecordHeader::decode(bytes)?;
        let value_end = (RECORD_HEADER_BYTES as usize).checked_add(header.value_len as usize)?;
        let covered = bytes.get(4..value_end)?;
        let value = bytes.get(RECORD_HEADER_BYTES as usize..value_end)?;
        (checksum::of(covered) == crc).then_some(Self { header, value, crc })
    }

    /// The last number of a [`Kind::DeleteRange`].
    pub(super) fn last_number(&self) -> Option<u64> {
        Fields(self.value).u64()
    }

    /// Bytes of header and value.
    pub(super) fn encoded_len(&self) -> u32 {
        RECORD_HEADER_BYTES.saturating_add(self.header.value_len)
    }
}

#[cfg(test)]
mod tests;
