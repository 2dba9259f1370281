//! Reads a segment into the form of a hint.

use super::directory::{corrupt, unavailable};
use super::format::Kind;
use super::hint::{Hint, HintBuilder, Subject};
use super::segments::SegmentFile;
use super::walk::{Damage, End, walk_with};
use crate::{Error, Key};

/// A put that was skipped because its value is damaged: the index points at it, and reading it returns the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DamagedPut {
    pub(super) segment: u32,
    /// Position of the record in the segment.
    pub(super) offset: u32,
    /// The key in the record, which may itself be damaged.
    pub(super) key: Key,
}

/// Reads the frames of a segment up to `limit` into the form of a hint.
pub(super) fn scan(
    file: &SegmentFile,
    limit: u64,
    sequence: u64,
    damage: Damage,
) -> Result<(Hint, End, Vec<DamagedPut>), Error> {
    let subject = Subject { id: file.id, salt: file.salt, end: limit };
    let mut hint = HintBuilder::new(subject);
    let mut damaged = Vec::new();
    let end = walk_with(file, limit, sequence, damage, |found| {
        for found in found {
            if found.is_damaged {
                let key = found.record.header.key;
                damaged.push(DamagedPut { segment: file.id, offset: found.offset, key });
            }
            if found.record.header.kind == Kind::Put {
                hint.note_put(found.record.header);
            }
            hint.push(&found.placed(), found.record.value);
        }
    });
    let end = end.map_err(|error| unavailable(&file.path, &error))?;
    let hint = Hint::decode(hint.finish().into(), subject);
    Ok((hint.map_err(|reason| corrupt(&file.path, 0, reason))?, end, damaged))
}
