//! The size of a record before it is built.

use super::super::codec::varint_len;
use super::super::log::LogLimits;
use super::{SEAL_BYTES, frame_header_len, is_inline, len32};
use crate::queue::batch_bytes;
use crate::{Batch, Error, Key, Operation};

/// Sizes of a record with one batch, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) struct RecordSize {
    pub(in crate::cluster) heads: usize,
    pub(in crate::cluster) bodies: usize,
}

impl RecordSize {
    /// Refuses a batch that does not fit into one record.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(in crate::cluster) fn check(batch: &Batch, log: LogLimits) -> Result<(), Error> {
        // An upper bound, which almost every batch meets.
        if batch_bytes(batch) <= log.heads_bytes_max.min(log.bodies_bytes_max) as u64 {
            return Ok(());
        }
        let LogLimits { heads_bytes_max, bodies_bytes_max } = log;
        let Self { heads, bodies } = Self::of(batch);
        if heads <= heads_bytes_max && bodies <= bodies_bytes_max {
            return Ok(());
        }
        let reason = format!(
            "a batch of {heads} bytes of heads and {bodies} of bodies, where the log takes {heads_bytes_max} and \
             {bodies_bytes_max} in one record"
        );
        Err(Error::TooLarge { reason })
    }

    /// The sizes that [`super::CommitBuilder`] yields for this batch.
    pub(in crate::cluster) fn of(batch: &Batch) -> Self {
        let (mut heads, mut bodies) = (0, 0);
        for operation in batch.operations() {
            heads += match operation {
                Operation::Put { key, value } => {
                    let len = varint_len(value.len() as u64);
                    if is_inline(*key, value) {
                        change_header_len(*key) + len + value.len()
                    } else {
                        bodies += frame_header_len(*key, len32(value.len())) + value.len();
                        change_header_len(*key) + len
                    }
                }
                Operation::Delete { key } => change_header_len(*key),
                Operation::DeleteRange { space, partition, numbers } => {
                    change_header_len(Key::new(*space, *partition, *numbers.start()))
                        + varint_len(*numbers.end())
                }
            };
        }
        Self { heads: SEAL_BYTES + varint_len(bodies as u64) + heads, bodies }
    }
}

/// Bytes of what, space, partition and number of a change.
const fn change_header_len(key: Key) -> usize {
    1 + varint_len(key.partition.0) + varint_len(key.number)
}
