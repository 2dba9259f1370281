use super::*;

#[test]
fn a_segment_header_survives_and_any_flipped_bit_is_seen() {
    let header = SegmentHeader { id: 7, salt: 0x0123_4567_89ab_cdef };
    let bytes = header.encode();
    assert_eq!(bytes.len(), SEGMENT_HEADER_BYTES as usize);
    assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(SegmentHeader::decode(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn a_frame_header_belongs_to_one_salt_and_any_flipped_bit_is_seen() {
    let header =
        FrameHeader { payload_len: 99, record_count: 3, records_crc: 5, sequence: 1 << 40, salt: 42 };
    let bytes = header.encode();
    assert_eq!(FrameHeader::decode(&bytes, 42), Some(header));
    assert_eq!(FrameHeader::decode(&bytes, 43), None);
    assert_eq!(header.frame_bytes(), 144);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(FrameHeader::decode(&damaged, 42), None, "bit {bit}");
    }
}

#[test]
fn a_record_survives_and_any_flipped_bit_is_seen() {
    for (kind, shadows) in [
        (Kind::Put, Shadows::Nothing),
        (Kind::Delete, Shadows::Exact(9)),
        (Kind::DeleteRange, Shadows::Since(1)),
    ] {
        let key = Key::new(Space::Body, PartitionId(u64::MAX), 12);
        let header = RecordHeader { kind, key, value_len: 5, shadows };
        let mut bytes = [&header.encode()[..], b"value"].concat();
        let crc = checksum::of(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let record = Record::decode(&bytes).unwrap();
        assert_eq!((record.header, record.value, record.crc), (header, &b"value"[..], crc));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&damaged).is_none(), "bit {bit}");
        }
        assert!(Record::decode(&bytes[..bytes.len() - 1]).is_none());
    }
}
