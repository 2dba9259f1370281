//! Format of records: the seal of the heads, and the changes of a commit.
//!
//! ```text
//! heads    version u8 | crc u32 | payload                 the crc covers shard, place, epoch, kind, version and payload
//! commit   length of the bodies | change, change, …
//! change   what and space u8 | partition | number | …
//!            put      | length | value                    a small value of the spaces Meta and Head
//!            store    | length                            a value that is the next frame of the bodies
//!            delete
//!            range    | last number
//!            move     | length | place | offset           a value that is the next frame of the bodies, a copy of the one there
//! bodies   frame, frame, …
//! frame    crc u32 | space u8 | partition | number | length | value             the crc covers all that follows it
//! ```
//! Numbers without a width are LEB128. A frame contains its key, so it can be verified on its own and the cleaner needs
//! no list of the frames of a record.

mod size;

use bytes::Bytes;

use super::codec::{Decoder, put_key, put_place, put_varint, space, varint_len};
use super::log::{RecordId, RecordKind, RecordPlace};
use crate::{Batch, Key, Operation, PartitionId, ShardId, Space, checksum};

pub(super) use size::RecordSize;

/// Version of the heads. It is raised when an older program could misread them.
const VERSION: u8 = 1;
/// Bytes of version and crc.
const SEAL_BYTES: usize = 5;
/// Larger values of the spaces `Meta` and `Head` are stored like those of `Body`, which limits the bytes read by a
/// take-over and held in memory.
pub(super) const INLINE_BYTES_MAX: usize = 1024;

/// Position of a frame in the bodies of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) place: RecordPlace,
    pub(super) offset: u32,
}

/// One change of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The value is in the heads.
    Put {
        key: Key,
        value: Bytes,
    },
    /// The value is the frame at `offset` in the bodies of this record.
    Store {
        key: Key,
        len: u32,
        offset: u32,
    },
    Delete {
        key: Key,
    },
    /// Both numbers inclusive.
    DeleteRange {
        space: Space,
        partition: PartitionId,
        first: u64,
        last: u64,
    },
    /// If the value of the key is the frame at `from`, it is now the one at `offset` in the bodies of this record. If
    /// the key was removed or overwritten in the meantime, nothing happens: a copy never restores a removed value.
    Move {
        key: Key,
        len: u32,
        offset: u32,
        from: Position,
    },
}

/// The changes of a record, and the length of its bodies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) bodies_len: u32,
    pub(super) changes: Vec<Change>,
}

mod tag {
    pub(super) const PUT: u8 = 0;
    pub(super) const STORE: u8 = 1;
    pub(super) const DELETE: u8 = 2;
    pub(super) const RANGE: u8 = 3;
    pub(super) const MOVE: u8 = 4;
}

/// A copy of a frame, to be made by the writer.
#[derive(Debug, Clone)]
pub(super) struct Copy {
    pub(super) key: Key,
    pub(super) value: Bytes,
    pub(super) from: Position,
}

/// Builds a record.
#[derive(Debug, Default)]
pub(super) struct CommitBuilder {
    changes: Vec<Change>,
    bodies: Vec<u8>,
}

/// A record that is ready to be sealed.
#[derive(Debug)]
pub(super) struct BuiltCommit {
    pub(super) commit: Commit,
    pub(super) payload: Vec<u8>,
    pub(super) bodies: Bytes,
}

impl CommitBuilder {
    pub(super) fn with_capacity(bodies_len: usize) -> Self {
        Self { changes: Vec::new(), bodies: Vec::with_capacity(bodies_len) }
    }

    /// Adds the changes of a batch.
    pub(super) fn push(&mut self, batch: &Batch) {
        for operation in batch.operations() {
            let change = match operation {
                Operation::Put { key, value } if is_inline(*key, value) => {
                    Change::Put { key: *key, value: value.clone() }
                }
                Operation::Put { key, value } => {
                    let offset = push_frame(&mut self.bodies, *key, value);
                    Change::Store { key: *key, len: len32(value.len()), offset }
                }
                Operation::Delete { key } => Change::Delete { key: *key },
                Operation::DeleteRange { space, partition, numbers } => Change::DeleteRange {
                    space: *space,
                    partition: *partition,
                    first: *numbers.start(),
                    last: *numbers.end(),
                },
            };
            self.changes.push(change);
        }
    }

    /// Adds a copy.
    pub(super) fn push_copy(&mut self, copy: &Copy) {
        let offset = push_frame(&mut self.bodies, copy.key, &copy.value);
        self.changes.push(Change::Move {
            key: copy.key,
            len: len32(copy.value.len()),
            offset,
            from: copy.from,
        });
    }

    pub(super) fn finish(self) -> BuiltCommit {
        let commit = Commit { bodies_len: len32(self.bodies.len()), changes: self.changes };
        let payload = commit.encode();
        BuiltCommit { commit, payload, bodies: self.bodies.into() }
    }
}

/// Whether the value is stored in the heads.
fn is_inline(key: Key, value: &Bytes) -> bool {
    key.space != Space::Body && value.len() <= INLINE_BYTES_MAX
}

/// [`crate::Limits`] keep every length below 4 GiB.
fn len32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Commit {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; SEAL_BYTES];
        put_varint(&mut out, self.bodies_len.into());
        for change in &self.changes {
            change.encode(&mut out);
        }
        out
    }

    /// Decodes a payload; `None` if it is invalid.
    pub(super) fn decode(payload: &Bytes) -> Option<Self> {
        let mut decoder = Decoder::new(payload);
        let bodies_len = decoder.varint32()?;
        let mut frames_end = 0;
        let mut changes = Vec::new();
        while !decoder.rest().is_empty() {
            changes.push(Change::decode(&mut decoder, payload, &mut frames_end)?);
        }
        (frames_end == bodies_len).then_some(Self { bodies_len, changes })
    }
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = |out: &mut Vec<u8>, tag: u8, key: Key| {
            out.push(tag << 4 | key.space as u8);
            put_place(out, key.partition, key.number);
        };
        match self {
            Self::Put { key, value } => {
                start(out, tag::PUT, *key);
                put_varint(out, value.len() as u64);
                out.extend_from_slice(value);
            }
            Self::Store { key, len, .. } => {
                start(out, tag::STORE, *key);
                put_varint(out, (*len).into());
            }
            Self::Delete { key } => start(out, tag::DELETE, *key),
            Self::DeleteRange { space, partition, first, last } => {
                start(out, tag::RANGE, Key::new(*space, *partition, *first));
                put_varint(out, *last);
            }
            Self::Move { key, len, from, .. } => {
                start(out, tag::MOVE, *key);
                put_varint(out, (*len).into());
                put_varint(out, from.place.0);
                put_varint(out, from.offset.into());
            }
        }
    }

    /// `frames_end`: offset of the next frame in the bodies.
    fn decode(decoder: &mut Decoder<'_>, payload: &Bytes, frames_end: &mut u32) -> Option<Self> {
        let what = decoder.u8()?;
        let key = decoder.key_in(space(what & 0xf)?)?;
        let mut next_frame = |len: u32| {
            let offset = *frames_end;
            *frames_end = offset.checked_add(frame_len(key, len))?;
            Some(offset)
        };
        Some(match what >> 4 {
            tag::PUT => Self::Put { key, value: decoder.value(payload)? },
            tag::STORE => {
                let len = decoder.varint32()?;
                Self::Store { key, len, offset: next_frame(len)? }
            }
            tag::DELETE => Self::Delete { key },
            tag::RANGE => {
                let Key { space, partition, number } = key;
                Self::DeleteRange { space, partition, first: number, last: decoder.varint()? }
            }
            tag::MOVE => {
                let len = decoder.varint32()?;
                let from = Position { place: RecordPlace(decoder.varint()?), offset: decoder.varint32()? };
                Self::Move { key, len, offset: next_frame(len)?, from }
            }
            _ => return None,
        })
    }
}

/// Bytes of a frame before its value.
const fn frame_header_len(key: Key, len: u32) -> usize {
    4 + 1 + varint_len(key.partition.0) + varint_len(key.number) + varint_len(len as u64)
}

/// Bytes of the frame of a value, saturating at `u32::MAX`.
pub(super) fn frame_len(key: Key, len: u32) -> u32 {
    len.saturating_add(len32(frame_header_len(key, len)))
}

/// Appends a frame and returns its offset.
fn push_frame(out: &mut Vec<u8>, key: Key, value: &[u8]) -> u32 {
    let offset = out.len();
    out.extend_from_slice(&[0; 4]);
    put_key(out, key);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
    let crc = checksum::of(out.get(offset + 4..).unwrap_or_default());
    if let Some(place) = out.get_mut(offset..offset + 4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
    len32(offset)
}

/// Decodes the payload of a record and the first frame of its bodies; a decoded commit can be encoded, and decodes to the
/// same again.
pub(crate) fn exercise(payload: &Bytes) {
    if let Some(commit) = Commit::decode(payload) {
        let encoded = Bytes::from(commit.encode()).slice(SEAL_BYTES..);
        assert_eq!(Commit::decode(&encoded), Some(commit));
    }
    if let FrameRead::Whole(_, len) = read_frame(payload) {
        assert!(len as usize <= payload.len());
    }
}

/// A decoded frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) key: Key,
    pub(super) value: Bytes,
}

/// Result of reading a frame at the beginning of some bytes.
#[derive(Debug)]
pub(super) enum FrameRead {
    /// A frame, and its length in bytes.
    Whole(Frame, u32),
    /// An incomplete frame, which needs this many bytes.
    Partial(u32),
    /// No frame, or one that is damaged.
    Damaged,
}

/// Reads the frame at the beginning of `bytes` and verifies it.
pub(super) fn read_frame(bytes: &Bytes) -> FrameRead {
    /// Maximum size of crc, space and three numbers.
    const HEADER_BYTES_MAX: u32 = 4 + 1 + 10 + 10 + 5;
    let mut decoder = Decoder::new(bytes);
    let header = (|| Some((decoder.u32_le()?, decoder.key()?, decoder.varint32()?)))();
    let Some((crc, key, len)) = header else {
        let is_short = bytes.len() < HEADER_BYTES_MAX as usize;
        return if is_short { FrameRead::Partial(HEADER_BYTES_MAX) } else { FrameRead::Damaged };
    };
    let whole_len = frame_len(key, len);
    let Some(value) = decoder.take(len as usize) else { return FrameRead::Partial(whole_len) };
    if checksum::of(bytes.get(4..whole_len as usize).unwrap_or_default()) != crc {
        return FrameRead::Damaged;
    }
    FrameRead::Whole(Frame { key, value: bytes.slice_ref(value) }, whole_len)
}

fn seal_crc(shard: ShardId, id: RecordId, kind: RecordKind, payload: &[u8]) -> u32 {
    let mut covered = Vec::with_capacity(22);
    covered.extend_from_slice(&shard.0.to_le_bytes());
    covered.extend_from_slice(&id.place.0.to_le_bytes());
    covered.extend_from_slice(&id.epoch.0.to_le_bytes());
    covered.extend_from_slice(&[kind as u8, VERSION]);
    checksum::append(checksum::of(&covered), payload)
}

/// An empty payload with room for the seal.
pub(super) fn payload() -> Vec<u8> {
    vec![0; SEAL_BYTES]
}

/// Seals a [`payload`], which makes it the heads of a record.
pub(super) fn seal(shard: ShardId, id: RecordId, kind: RecordKind, mut payload: Vec<u8>) -> Bytes {
    let crc = seal_crc(shard, id, kind, payload.get(SEAL_BYTES..).unwrap_or_default());
    if let Some((version, place)) = payload.get_mut(..SEAL_BYTES).and_then(<[u8]>::split_first_mut) {
        *version = VERSION;
        place.copy_from_slice(&crc.to_le_bytes());
    }
    payload.into()
}

/// Verifies heads and returns their payload, or the reason why they are invalid.
pub(super) fn unseal(
    shard: ShardId,
    id: RecordId,
    kind: RecordKind,
    heads: &Bytes,
) -> Result<Bytes, &'static str> {
    let mut decoder = Decoder::new(heads);
    let version = decoder.u8().ok_or("it is empty")?;
    if version != VERSION {
        return Err("it was written by another version of the program");
    }
    let crc = decoder.u32_le().ok_or("it is too short")?;
    if crc != seal_crc(shard, id, kind, decoder.rest()) {
        return Err("its checksum does not match");
    }
    Ok(heads.slice_ref(decoder.rest()))
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
