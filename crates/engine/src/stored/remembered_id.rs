//! A remembered id of an accepted message, for duplicate detection.

use super::{frame, legacy};
use crate::{MessageKey, SequenceNumber, Timestamp};

#[derive(Clone, PartialEq, prost::Message)]
struct RememberedId {
    /// When the message was accepted.
    #[prost(uint64, tag = "1")]
    at_ms: u64,
    /// The halves of the key: two numbers avoid an allocation.
    #[prost(fixed64, optional, tag = "2")]
    key_high: Option<u64>,
    #[prost(fixed64, optional, tag = "3")]
    key_low: Option<u64>,
    /// The number of the message, if it is not that of the record.
    #[prost(uint64, optional, tag = "4")]
    original: Option<u64>,
}

/// When a message was accepted, the key of its id, and its number, if that is not the number of the record.
pub(crate) type RememberedParts = (Timestamp, MessageKey, Option<SequenceNumber>);

/// Appends the record of an id.
pub(crate) fn append_remembered_id((at, key, original): RememberedParts, to: &mut Vec<u8>) {
    let [high, low] = key.halves();
    let original = original.map(|original| original.0);
    frame::append(&RememberedId { at_ms: at.0, key_high: Some(high), key_low: Some(low), original }, to);
}

/// Reads the record of an id.
///
/// # Errors
/// The reason why it can't be decoded.
pub(crate) fn read_remembered_id(bytes: &[u8]) -> Result<RememberedParts, String> {
    if !frame::is_tagged(bytes) {
        return legacy::read_remembered_id(bytes).map(|(at, key)| (at, key, None));
    }
    let RememberedId { at_ms, key_high, key_low, original } = frame::read(bytes)?;
    let halves = [frame::required(key_high, "key")?, frame::required(key_low, "key")?];
    Ok((Timestamp(at_ms), MessageKey::from_halves(halves), original.map(SequenceNumber)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: MessageKey = MessageKey::from_halves([0x0102_0304_0506_0708, 0x1112_1314_1516_1718]);

    #[test]
    fn the_record_is_pinned() {
        let mut record = Vec::new();
        append_remembered_id((Timestamp(300), KEY, None), &mut record);
        let expected =
            b"\x10\x15\x08\xac\x02\x11\x08\x07\x06\x05\x04\x03\x02\x01\x19\x18\x17\x16\x15\x14\x13\x12\x11";
        assert_eq!(record, expected);
        assert_eq!(read_remembered_id(&record), Ok((Timestamp(300), KEY, None)));
        frame::testing::check_tolerance(&record, read_remembered_id);
    }

    #[test]
    fn the_record_with_the_number_of_the_message_is_pinned() {
        let (mut record, parts) = (Vec::new(), (Timestamp(300), KEY, Some(SequenceNumber(5))));
        append_remembered_id(parts, &mut record);
        let expected =
            b"\x10\x17\x08\xac\x02\x11\x08\x07\x06\x05\x04\x03\x02\x01\x19\x18\x17\x16\x15\x14\x13\x12\x11\x20\x05";
        assert_eq!(record, expected);
        assert_eq!(read_remembered_id(&record), Ok(parts));
        frame::testing::check_tolerance(&record, read_remembered_id);
    }

    #[test]
    fn the_record_by_position_stays_readable() {
        let stored = b"\x01\xac\x02\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18";
        assert_eq!(read_remembered_id(stored), Ok((Timestamp(300), KEY, None)));
    }

    #[test]
    fn a_record_without_the_key_is_refused() {
        assert_eq!(read_remembered_id(b"\x10\x02\x08\x05").unwrap_err(), "it has no key");
    }
}
