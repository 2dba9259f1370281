//! The last correction that set the clock back.

use bytes::Bytes;

use super::{frame, legacy};
use crate::Timestamp;
use crate::runtime::SetBack;

#[derive(Clone, PartialEq, prost::Message)]
struct StoredSetBack {
    #[prost(uint64, tag = "1")]
    from_ms: u64,
    #[prost(uint64, tag = "2")]
    to_ms: u64,
}

/// Encodes a correction.
pub(crate) fn write_set_back(set_back: SetBack) -> Bytes {
    let mut record = Vec::new();
    frame::append(&StoredSetBack { from_ms: set_back.from.0, to_ms: set_back.to.0 }, &mut record);
    record.into()
}

/// Reads the record of a correction.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_set_back(bytes: &[u8]) -> Result<SetBack, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_set_back(bytes);
    }
    let StoredSetBack { from_ms, to_ms } = frame::read(bytes)?;
    Ok(SetBack { from: Timestamp(from_ms), to: Timestamp(to_ms) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET_BACK: SetBack = SetBack { from: Timestamp(300), to: Timestamp(5) };

    #[test]
    fn the_record_is_pinned() {
        let record = write_set_back(SET_BACK);
        assert_eq!(record.as_ref(), b"\x10\x05\x08\xac\x02\x10\x05");
        assert_eq!(read_set_back(&record), Ok(SET_BACK));
        frame::testing::check_tolerance(&record, read_set_back);
    }

    #[test]
    fn the_record_by_position_stays_readable() {
        assert_eq!(read_set_back(b"\x01\xac\x02\x05"), Ok(SET_BACK));
    }
}
