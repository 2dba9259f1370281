//! The next free partition.

use bytes::Bytes;
use peeklock_storage::PartitionId;

use super::{frame, legacy};

#[derive(Clone, PartialEq, prost::Message)]
struct NextPartition {
    #[prost(uint64, optional, tag = "1")]
    id: Option<u64>,
}

/// Encodes the next free partition.
pub(crate) fn write_next_partition(next: PartitionId) -> Bytes {
    let mut record = Vec::new();
    frame::append(&NextPartition { id: Some(next.0) }, &mut record);
    record.into()
}

/// Reads the record of the next free partition.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_next_partition(bytes: &[u8]) -> Result<PartitionId, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_next_partition(bytes);
    }
    let NextPartition { id } = frame::read(bytes)?;
    frame::required(id, "number").map(PartitionId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_pinned() {
        let record = write_next_partition(PartitionId(300));
        assert_eq!(record.as_ref(), b"\x10\x03\x08\xac\x02");
        assert_eq!(read_next_partition(&record), Ok(PartitionId(300)));
        frame::testing::check_tolerance(&record, read_next_partition);
    }

    #[test]
    fn the_record_by_position_stays_readable() {
        assert_eq!(read_next_partition(b"\x01\xac\x02"), Ok(PartitionId(300)));
    }

    #[test]
    fn a_record_without_the_number_is_refused() {
        assert_eq!(read_next_partition(b"\x10\x00").unwrap_err(), "it has no number");
    }
}
