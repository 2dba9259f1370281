//! Performatives: round trips, leniency, full-length lists.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::arbitrary;
use crate::DecodeError;
use crate::code::{descriptor, format};
use crate::frame::*;
use crate::performative::*;

fn body(performative: &Performative) -> Bytes {
    let mut output = BytesMut::new();
    encode_frame(1, performative, 0, &mut output);
    output.freeze().slice(8..)
}

fn decode(bytes: &[u8]) -> Result<Performative, DecodeError> {
    decode_body(Bytes::copy_from_slice(bytes)).map(|decoded| decoded.unwrap().0)
}

/// A list8 of `count` fields with a descriptor as smallulong.
fn composite(code: u8, count: u8, fields: &[u8]) -> Vec<u8> {
    let size = u8::try_from(fields.len() + 1).unwrap();
    [&[0x00, 0x53, code, 0xc0, size, count][..], fields].concat()
}

/// The count byte of a list8 after `0x00 0x53 code`.
fn count_of(encoded: &[u8]) -> u8 {
    assert_eq!((encoded[0], encoded[1], encoded[3]), (0x00, 0x53, 0xc0), "{encoded:02x?}");
    encoded[5]
}

/// Python reads fields by index without checking, JS reports omitted fields as undefined.
#[test]
fn lists_are_written_in_full_length() {
    let error = Some(Error { condition: "x".into(), ..Error::default() });
    let attach = Attach {
        name: "n".into(),
        handle: 0,
        role: Role::Sender,
        snd_settle_mode: SenderSettleMode::default(),
        rcv_settle_mode: ReceiverSettleMode::default(),
        source: Some(Terminus::default()),
        target: Some(Target::Node(Terminus::default())),
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: vec![],
        desired_capabilities: vec![],
        properties: vec![],
    };
    let disposition = Disposition {
        role: Role::Sender,
        first: 0,
        last: None,
        settled: true,
        state: Some(DeliveryState::Rejected(None)),
        batchable: false,
    };
    for (performative, fields) in [
        (Performative::Open(Open::default()), 10),
        (Performative::Begin(Begin::default()), 8),
        (Performative::Attach(Box::new(attach)), 14),
        (Performative::Flow(Flow::default()), 11),
        (Performative::Transfer(Transfer::default()), 11),
        (Performative::Disposition(disposition), 6),
        (Performative::Detach(Detach::default()), 3),
        (Performative::End(None), 1),
        (Performative::Close(error.clone()), 1),
    ] {
        assert_eq!(count_of(&body(&performative)), fields, "{performative:?}");
    }
    let close = body(&Performative::Close(error));
    assert_eq!(count_of(&close[6..]), 3, "an error has all three fields");
}

#[test]
fn bytes_of_a_disposition() {
    let disposition = Performative::Disposition(Disposition {
        role: Role::Receiver,
        first: 1,
        last: Some(300),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    });
    let fields = [0x41, 0x52, 1, 0x70, 0, 0, 1, 44, 0x41, 0x00, 0x53, 0x24, 0x45, 0x42];
    assert_eq!(body(&disposition), composite(0x15, 6, &fields));
    assert_eq!(decode(&composite(0x15, 6, &fields)).unwrap(), disposition);
}

#[test]
fn fields_left_out_are_null_and_unknown_ones_are_ignored() {
    let detach = Performative::Detach(Detach { handle: 5, ..Detach::default() });
    assert_eq!(decode(&composite(0x16, 1, &[0x52, 5])).unwrap(), detach);
    assert_eq!(decode(&composite(0x16, 3, &[0x52, 5, 0x40, 0x40])).unwrap(), detach);
    assert_eq!(decode(&composite(0x16, 5, &[0x52, 5, 0x40, 0x40, 0xa1, 1, b'?', 0x41])).unwrap(), detach);
    assert_eq!(decode(&[0x00, 0x53, 0x17, 0x45]).unwrap(), Performative::End(None));
}

#[test]
fn mandatory_fields_must_be_there() {
    for code in [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16] {
        let error = decode(&[0x00, 0x53, code, 0x45]).unwrap_err();
        assert!(error.reason().contains("mandatory"), "{error}");
        decode(&composite(code, 1, &[0x40])).unwrap_err();
    }
}

#[test]
fn descriptors_are_read_in_every_form() {
    let end = Performative::End(None);
    let descriptors: [&[u8]; 4] = [
        &[0x53, 0x17],
        &[0x80, 0, 0, 0, 0, 0, 0, 0, 0x17],
        b"\xa3\x0damqp:end:list",
        b"\xb3\x00\x00\x00\x0damqp:end:list",
    ];
    for descriptor in descriptors {
        assert_eq!(decode(&[&[0x00], descriptor, &[0x45]].concat()).unwrap(), end);
    }
    let unknown: [&[u8]; 5] =
        [&[0x53, 0x19], &[0x44], &[0x80, 1, 0, 0, 0, 0, 0, 0, 0x17], b"\xa3\x01x", &[0x52, 0x17]];
    for descriptor in unknown {
        decode(&[&[0x00], descriptor, &[0x45]].concat()).unwrap_err();
    }
}

#[test]
fn every_symbolic_descriptor_maps_to_its_code() {
    for (name, code) in descriptor::NAMES {
        assert_eq!(descriptor::from_name(name.as_bytes()), Some(code));
        assert_eq!(descriptor::NAMES.iter().filter(|(_, other)| *other == code).count(), 1, "{name}");
    }
    assert_eq!(descriptor::from_name(b"amqp:nothing:list"), None);
}

#[test]
fn integers_of_every_width_are_read() {
    let widths: [&[u8]; 9] = [
        &[format::UBYTE, 7],
        &[format::USHORT, 0, 7],
        &[format::SMALL_UINT, 7],
        &[format::UINT, 0, 0, 0, 7],
        &[format::SMALL_ULONG, 7],
        &[format::ULONG, 0, 0, 0, 0, 0, 0, 0, 7],
        &[format::SMALL_INT, 7],
        &[format::INT, 0, 0, 0, 7],
        &[format::LONG, 0, 0, 0, 0, 0, 0, 0, 7],
    ];
    for width in widths {
        let detach = decode(&composite(0x16, 1, width)).unwrap();
        assert_eq!(detach, Performative::Detach(Detach { handle: 7, ..Detach::default() }));
    }
    for out_of_range in [&[0x55, 0xff][..], &[0x80, 0, 0, 0, 1, 0, 0, 0, 0]] {
        decode(&composite(0x16, 1, out_of_range)).unwrap_err();
    }
}

#[test]
fn capabilities_are_read_from_an_array_a_list_or_a_single_symbol() {
    let forms: [&[u8]; 5] = [
        b"\xa3\x01a",
        b"\xa1\x01a",
        b"\xe0\x04\x01\xa3\x01a",
        b"\xf0\x00\x00\x00\x0a\x00\x00\x00\x01\xb3\x00\x00\x00\x01a",
        b"\xc0\x04\x01\xa3\x01a",
    ];
    for form in forms {
        let fields = [&[0xa1, 1, b'c'][..], &[0x40; 6], form].concat();
        let Performative::Open(open) = decode(&composite(0x10, 8, &fields)).unwrap() else { panic!() };
        assert_eq!(*open.offered_capabilities, ["a".into()]);
    }
    for empty in [&[0xe0, 1, 0][..], &[0xe0, 2, 0, 0xa3], &[0x45]] {
        let fields = [&[0xa1, 1, b'c'][..], &[0x40; 6], empty].concat();
        let Performative::Open(open) = decode(&composite(0x10, 8, &fields)).unwrap() else { panic!() };
        assert!(open.offered_capabilities.is_empty());
    }
}

#[test]
fn a_delivery_tag_may_be_a_uuid_as_text() {
    let tag = |length: u8| [&[0x43, 0x43, 0xa0, length][..], &vec![0; length.into()]].concat();
    decode(&composite(0x14, 3, &tag(36))).unwrap();
    decode(&composite(0x14, 3, &tag(128))).unwrap();
    decode(&composite(0x14, 3, &tag(129))).unwrap_err();
}

#[test]
fn values_outside_their_type_are_refused() {
    // snd-settle-mode 3, rcv-settle-mode 2
    for modes in [&[0x50, 3][..], &[0x40, 0x50, 2]] {
        let fields = [&[0xa1, 1, b'n', 0x43, 0x41][..], modes].concat();
        decode(&composite(0x12, 5, &fields)).unwrap_err();
    }
    // a transactional state as the outcome of a transactional state
    let inner = composite(0x34, 1, &[0xa0, 0]);
    let outer = composite(0x34, 2, &[&[0xa0, 0], &inner[..]].concat());
    decode(&composite(0x15, 5, &[&[0x41, 0x43, 0x40, 0x40], &outer[..]].concat())).unwrap_err();
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(performative in arbitrary::performative()) {
        let (decoded, payload) = decode_body(body(&performative)).unwrap().unwrap();
        prop_assert_eq!(decoded, performative);
        prop_assert!(payload.is_empty());
    }

    #[test]
    fn sasl_decoding_undoes_encoding(frame in arbitrary::sasl_frame()) {
        let mut output = BytesMut::new();
        encode_sasl(&frame, &mut output);
        let header = FrameHeader::decode(output[..8].try_into().unwrap()).unwrap();
        prop_assert_eq!(header.size as usize, output.len());
        prop_assert_eq!(decode_sasl(output.freeze().slice(8..)).unwrap(), frame);
    }
}
