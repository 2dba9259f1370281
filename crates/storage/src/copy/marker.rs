//! The marker of an unfinished copy, with its progress.

use bytes::Bytes;

use crate::{Key, PartitionId, Space};

/// Its partition is never used for an entity, because partitions are numbered upwards.
pub(super) const MARKER: Key = Key::new(Space::Meta, PartitionId(u64::MAX), 0);

/// Start of every marker; the last byte is its version.
const MAGIC: [u8; 8] = *b"PKLCOPY\x01";

/// Progress of a copy; see the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Marker {
    /// The last key that was copied.
    pub(super) last: Option<Key>,
    /// Number of values copied, and their bytes.
    pub(super) values: u64,
    pub(super) bytes: u64,
    /// Name of the source.
    pub(super) source_name: String,
}

impl Marker {
    pub(super) fn encode(&self) -> Bytes {
        let last = self.last.unwrap_or(MARKER);
        let mut encoded = MAGIC.to_vec();
        encoded.extend([u8::from(self.last.is_some()), last.space as u8]);
        for number in [last.partition.0, last.number, self.values, self.bytes] {
            encoded.extend(number.to_le_bytes());
        }
        encoded.extend(self.source_name.as_bytes());
        encoded.into()
    }

    /// `None`: written by another version.
    pub(super) fn decode(encoded: &[u8]) -> Option<Self> {
        let rest = encoded.strip_prefix(&MAGIC)?;
        let ([is_some, space], rest) = rest.split_first_chunk::<2>()?;
        let mut numbers = [0; 4];
        let mut rest = rest;
        for number in &mut numbers {
            let (bytes, after) = rest.split_first_chunk::<8>()?;
            (*number, rest) = (u64::from_le_bytes(*bytes), after);
        }
        let [partition, number, values, bytes] = numbers;
        let space = Space::ALL.into_iter().find(|known| *known as u8 == *space)?;
        let last = (*is_some == 1).then_some(Key::new(space, PartitionId(partition), number));
        Some(Self { last, values, bytes, source_name: String::from_utf8_lossy(rest).into_owned() })
    }
}

/// The reason for refusing a marker of another version.
pub(super) fn unknown() -> String {
    "it holds an unfinished copy that another version of this program began; delete it and begin anew"
        .to_owned()
}
