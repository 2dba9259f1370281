//! Frame headers and whole frames.

use bytes::{Bytes, BytesMut};

use crate::frame::*;
use crate::performative::*;

fn header(size: u32, data_offset: u8, frame_type: u8) -> [u8; 8] {
    let [a, b, c, d] = size.to_be_bytes();
    [a, b, c, d, data_offset, frame_type, 1, 2]
}

#[test]
fn header_reads_size_offset_kind_and_channel() {
    let decoded = FrameHeader::decode(header(0x1234, 2, 0)).unwrap();
    assert_eq!(decoded, FrameHeader { size: 0x1234, body_offset: 8, kind: FrameKind::Amqp, channel: 0x0102 });
    assert_eq!(FrameHeader::decode(header(8, 2, 1)).unwrap().kind, FrameKind::Sasl);
}

#[test]
fn frame_sizes_0_to_7_are_refused() {
    for size in 0..8 {
        FrameHeader::decode(header(size, 2, 0)).unwrap_err();
    }
    FrameHeader::decode(header(8, 2, 0)).unwrap();
}

#[test]
fn extended_headers_are_legal_but_offsets_below_2_or_past_the_end_are_not() {
    assert_eq!(FrameHeader::decode(header(1020, 255, 0)).unwrap().body_offset, 1020);
    assert_eq!(FrameHeader::decode(header(100, 3, 0)).unwrap().body_offset, 12);
    FrameHeader::decode(header(100, 0, 0)).unwrap_err();
    FrameHeader::decode(header(100, 1, 0)).unwrap_err();
    FrameHeader::decode(header(11, 3, 0)).unwrap_err();
    FrameHeader::decode(header(1019, 255, 0)).unwrap_err();
}

#[test]
fn unknown_frame_types_are_refused() {
    for frame_type in 2..=255 {
        FrameHeader::decode(header(8, 2, frame_type)).unwrap_err();
    }
}

#[test]
fn a_heartbeat_is_eight_bytes_and_has_no_body() {
    let mut output = BytesMut::new();
    encode_heartbeat(&mut output);
    assert_eq!(&output[..], [0, 0, 0, 8, 2, 0, 0, 0]);
    assert_eq!(decode_body(Bytes::new()).unwrap(), None);
}

#[test]
fn the_size_counts_the_payload_that_follows() {
    let mut output = BytesMut::from(&b"before"[..]);
    let transfer = Performative::Transfer(Transfer { handle: 7, ..Transfer::default() });
    encode_frame(0x0304, &transfer, 3, &mut output);
    output.extend_from_slice(b"abc");
    let frame = output.split_off(6);
    let header = FrameHeader::decode(frame[..8].try_into().unwrap()).unwrap();
    assert_eq!(header.size as usize, frame.len());
    assert_eq!(header.channel, 0x0304);
    let body = frame.freeze().slice(8..);
    let (decoded, payload) = decode_body(body.clone()).unwrap().unwrap();
    assert_eq!(decoded, transfer);
    assert_eq!(payload, "abc");
    assert_eq!(payload.as_ptr(), body[body.len() - 3..].as_ptr(), "the payload is a slice, not a copy");
}

#[test]
fn only_transfers_may_have_a_payload() {
    let mut output = BytesMut::new();
    encode_frame(0, &Performative::End(None), 1, &mut output);
    output.extend_from_slice(b"x");
    decode_body(output.freeze().slice(8..)).unwrap_err();
}

#[test]
fn mechanisms_are_an_array_even_when_single() {
    let mut output = BytesMut::new();
    encode_sasl(&SaslFrame::Mechanisms(vec!["ANONYMOUS".into()]), &mut output);
    let expected =
        [&[0, 0, 0, 28, 2, 1, 0, 0, 0, 0x53, 0x40, 0xc0, 15, 1, 0xe0, 12, 1, 0xa3, 9][..], b"ANONYMOUS"];
    assert_eq!(output, expected.concat());
}
