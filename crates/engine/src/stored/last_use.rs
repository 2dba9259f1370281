//! When a queue, topic or subscription was last used.

use super::{frame, legacy};
use crate::Timestamp;

#[derive(Clone, PartialEq, prost::Message)]
struct LastUse {
    #[prost(uint64, optional, tag = "1")]
    at_ms: Option<u64>,
}

/// Appends the record of a last use.
pub(crate) fn append_last_use(at: Timestamp, to: &mut Vec<u8>) {
    frame::append(&LastUse { at_ms: Some(at.0) }, to);
}

/// Reads the record of a last use.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_last_use(bytes: &[u8]) -> Result<Timestamp, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_last_use(bytes);
    }
    let LastUse { at_ms } = frame::read(bytes)?;
    frame::required(at_ms, "time").map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_is_pinned() {
        let mut record = Vec::new();
        append_last_use(Timestamp(300), &mut record);
        assert_eq!(record, b"\x10\x03\x08\xac\x02");
        assert_eq!(read_last_use(&record), Ok(Timestamp(300)));
        frame::testing::check_tolerance(&record, read_last_use);
    }

    #[test]
    fn the_record_by_position_stays_readable() {
        assert_eq!(read_last_use(b"\x01\xac\x02"), Ok(Timestamp(300)));
    }

    #[test]
    fn a_record_without_the_time_is_refused() {
        assert_eq!(read_last_use(b"\x10\x00").unwrap_err(), "it has no time");
    }
}
