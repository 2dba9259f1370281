//! The counters of a queue, topic or subscription.

use super::{frame, legacy};
use crate::SequenceNumber;

#[derive(Clone, PartialEq, prost::Message)]
struct Counters {
    #[prost(uint64, optional, tag = "1")]
    next_number: Option<u64>,
}

/// Appends the record of the counters.
pub(crate) fn append_counters(next_number: SequenceNumber, to: &mut Vec<u8>) {
    frame::append(&Counters { next_number: Some(next_number.0) }, to);
}

/// Reads the record of the counters: the next sequence number.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_counters(bytes: &[u8]) -> Result<SequenceNumber, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_counters(bytes);
    }
    let Counters { next_number } = frame::read(bytes)?;
    frame::required(next_number, "next sequence number").map(SequenceNumber)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_pinned() {
        let mut record = Vec::new();
        append_counters(SequenceNumber(300), &mut record);
        assert_eq!(record, b"\x10\x03\x08\xac\x02");
        assert_eq!(read_counters(&record), Ok(SequenceNumber(300)));
        frame::testing::check_tolerance(&record, read_counters);
    }

    #[test]
    fn the_record_by_position_stays_readable() {
        assert_eq!(read_counters(b"\x01\xac\x02"), Ok(SequenceNumber(300)));
    }

    #[test]
    fn a_record_without_the_number_is_refused() {
        assert_eq!(read_counters(b"\x10\x00").unwrap_err(), "it has no next sequence number");
    }
}
