//! Message sections.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::arbitrary;
use crate::Value;
use crate::message::*;

const HEADER: &[u8] = &[0x00, 0x53, 0x70, 0x45];
const DELIVERY_ANNOTATIONS: &[u8] = &[0x00, 0x53, 0x71, 0xc1, 1, 0];
const MESSAGE_ANNOTATIONS: &[u8] = &[0x00, 0x53, 0x72, 0xc1, 1, 0];
const PROPERTIES: &[u8] = &[0x00, 0x53, 0x73, 0x45];
const APPLICATION_PROPERTIES: &[u8] = &[0x00, 0x53, 0x74, 0xc1, 1, 0];
const DATA: &[u8] = &[0x00, 0x53, 0x75, 0xa0, 1, b'x'];
const SEQUENCE: &[u8] = &[0x00, 0x53, 0x76, 0x45];
const VALUE: &[u8] = &[0x00, 0x53, 0x77, 0x40];
const FOOTER: &[u8] = &[0x00, 0x53, 0x78, 0xc1, 1, 0];

fn split(sections: &[&[u8]]) -> Result<Sections, crate::DecodeError> {
    Sections::split(&sections.concat().into())
}

#[test]
fn every_section_is_a_slice_of_the_message() {
    let body = [DATA, DATA, FOOTER];
    let head = [HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES];
    let message = Bytes::from([head.concat(), body.concat()].concat());
    let sections = Sections::split(&message).unwrap();
    assert_eq!(sections.header, HEADER);
    assert_eq!(sections.delivery_annotations, DELIVERY_ANNOTATIONS);
    assert_eq!(sections.message_annotations, MESSAGE_ANNOTATIONS);
    assert_eq!(sections.properties, PROPERTIES);
    assert_eq!(sections.application_properties, APPLICATION_PROPERTIES);
    assert_eq!(sections.body, body.concat());
    assert_eq!(sections.footer, FOOTER);
    assert_eq!(sections.body.as_ptr(), message[head.concat().len()..].as_ptr());
    assert_eq!(Sections::split_trusted(&message).unwrap(), sections);
}

#[test]
fn sections_are_optional_even_the_body() {
    assert_eq!(split(&[]).unwrap(), Sections::default());
    assert_eq!(split(&[PROPERTIES]).unwrap().body, "");
    assert_eq!(split(&[VALUE]).unwrap().decode_header().unwrap(), Header::default());
}

#[test]
fn sections_out_of_order_or_twice_are_refused() {
    for sections in [
        &[HEADER, HEADER][..],
        &[MESSAGE_ANNOTATIONS, HEADER],
        &[PROPERTIES, MESSAGE_ANNOTATIONS],
        &[DATA, PROPERTIES],
        &[DATA, SEQUENCE],
        &[VALUE, VALUE],
        &[DATA, VALUE],
        &[FOOTER, PROPERTIES],
        &[FOOTER, FOOTER],
        &[DELIVERY_ANNOTATIONS, DATA, DELIVERY_ANNOTATIONS],
        &[DATA, DELIVERY_ANNOTATIONS, DATA],
        &[DATA, DELIVERY_ANNOTATIONS, FOOTER],
    ] {
        split(sections).unwrap_err();
    }
    split(&[DATA, DATA]).unwrap();
    split(&[SEQUENCE, SEQUENCE, FOOTER]).unwrap();
}

#[test]
fn sections_of_a_wrong_type_are_refused() {
    for (code, value) in [
        (0x70, &[0xc1, 1, 0][..]), // header as map
        (0x72, &[0x45]),           // annotations as list
        (0x72, &[0x40]),           // or null
        (0x73, &[0xc1, 1, 0]),     // properties as map
        (0x74, &[0xc1, 2, 1, 0x40]),
        (0x75, &[0xa1, 1, b'x']), // data as string
        (0x76, &[0xc1, 1, 0]),    // sequence as map
        (0x79, &[0x40]),
        (0x6f, &[0x40]),
        (0x77, &[]),
        (0x77, &[0xa1, 1, 0xff]), // text that is not UTF-8, deep in a body that is never decoded
    ] {
        split(&[&[0x00, 0x53, code], value]).unwrap_err();
    }
    split(&[DATA, b"garbage"]).unwrap_err();
}

/// Python reads section descriptors as smallulong only, and writes delivery annotations last; the stored form has
/// smallulongs, and the order of the specification.
#[test]
fn a_message_to_keep_is_brought_into_canonical_form() {
    let message = [
        &b"\x00\xa3\x10amqp:header:list\x45"[..],
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x73\x45",
        b"\x00\x53\x75\xa0\x01x\x00\xa3\x10amqp:data:binary\xa0\x01y",
        DELIVERY_ANNOTATIONS,
    ];
    let (kept, sections) = Sections::split_canonical(&message.concat().into()).unwrap();
    assert_eq!(sections.header, HEADER);
    assert_eq!(sections.delivery_annotations, DELIVERY_ANNOTATIONS);
    assert_eq!(sections.properties, PROPERTIES);
    assert_eq!(sections.body, [DATA, b"\x00\x53\x75\xa0\x01y"].concat());
    let expected = [HEADER, DELIVERY_ANNOTATIONS, PROPERTIES, DATA, b"\x00\x53\x75\xa0\x01y"];
    assert_eq!(kept, expected.concat());
    assert_eq!(Sections::split_trusted(&kept).unwrap(), sections);

    let canonical = Bytes::from(expected.concat());
    let (kept, _) = Sections::split_canonical(&canonical).unwrap();
    assert_eq!(kept.as_ptr(), canonical.as_ptr(), "not copied");
}

/// uamqp writes the delivery annotations directly before the body, behind a footer.
#[test]
fn delivery_annotations_are_found_wherever_they_are() {
    let sections = [DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES, DATA];
    for place in 1..sections.len() {
        let mut sent = sections[1..].to_vec();
        sent.insert(place, DELIVERY_ANNOTATIONS);
        let (kept, _) = Sections::split_canonical(&sent.concat().into()).unwrap();
        assert_eq!(kept, sections.concat(), "{place}");
        sent.insert(place, DELIVERY_ANNOTATIONS);
        split(&sent).unwrap_err();
    }
    let sent = Bytes::from([PROPERTIES, FOOTER, DELIVERY_ANNOTATIONS, DATA, DATA].concat());
    let (kept, sections) = Sections::split_canonical(&sent).unwrap();
    assert_eq!(kept, [DELIVERY_ANNOTATIONS, PROPERTIES, DATA, DATA, FOOTER].concat());
    assert_eq!(sections.body, [DATA, DATA, FOOTER].concat());
    let envelope = Sections::split(&sent).unwrap();
    assert_eq!(envelope.batch_messages().unwrap().len(), 2);
}

/// rhea, and so the JavaScript SDK, writes the footer before the body.
#[test]
fn a_footer_before_the_body_is_moved_behind_it() {
    let message = [PROPERTIES, FOOTER, DATA, DATA, DELIVERY_ANNOTATIONS].concat();
    let (kept, sections) = Sections::split_canonical(&message.into()).unwrap();
    assert_eq!(kept, [DELIVERY_ANNOTATIONS, PROPERTIES, DATA, DATA, FOOTER].concat());
    assert_eq!(sections.body, [DATA, DATA, FOOTER].concat());
    assert_eq!(Sections::split_trusted(&kept).unwrap(), sections);
    for sections in
        [&[FOOTER, PROPERTIES][..], &[FOOTER, DATA, FOOTER], &[FOOTER, FOOTER], &[FOOTER, DATA, SEQUENCE]]
    {
        split(sections).unwrap_err();
    }
}

#[test]
fn header_and_properties_are_written_in_full_length() {
    let mut output = BytesMut::new();
    Header { delivery_count: Some(0), ..Header::default() }.encode(&mut output);
    assert_eq!(&output[..], [0x00, 0x53, 0x70, 0xc0, 6, 5, 0x40, 0x40, 0x40, 0x40, 0x43]);
    output.clear();
    MessageProperties::default().encode(&mut output);
    assert_eq!(&output[..6], [0x00, 0x53, 0x73, 0xc0, 14, 13]);
}

/// The correlation-id of a reply has the type of the request's message-id: uuid, string or ulong by SDK.
#[test]
fn message_ids_keep_their_type() {
    for id in [Value::Uuid([3; 16]), "text".into(), Value::ULong(7), Value::Binary("b".into()), Value::Null] {
        let mut output = BytesMut::new();
        MessageProperties { correlation_id: id.clone(), ..MessageProperties::default() }.encode(&mut output);
        let properties = split(&[&output]).unwrap().decode_properties().unwrap();
        assert_eq!(properties.correlation_id, id);
        assert_eq!(properties.message_id, Value::Null);
    }
}

#[test]
fn keys_become_symbols_in_annotations_and_strings_in_application_properties() {
    let entries = [("a".into(), Value::Int(1)), (Value::symbol("b"), Value::Int(2))];
    let mut output = BytesMut::new();
    encode_delivery_annotations(&entries, &mut output);
    encode_message_annotations(&entries, &mut output);
    encode_application_properties(&entries, &mut output);
    let sections = split(&[&output]).unwrap();
    let symbols = [(Value::symbol("a"), Value::Int(1)), (Value::symbol("b"), Value::Int(2))];
    assert_eq!(Sections::decode_map(&sections.delivery_annotations).unwrap(), symbols);
    assert_eq!(Sections::decode_map(&sections.message_annotations).unwrap(), symbols);
    let strings = [("a".into(), Value::Int(1)), ("b".into(), Value::Int(2))];
    assert_eq!(Sections::decode_map(&sections.application_properties).unwrap(), strings);
}

/// .NET writes timespans, URIs and offsets of dates as described values.
#[test]
fn described_application_properties_survive() {
    let entries = [
        (
            "span".into(),
            Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(36_000_000_000)),
        ),
        ("uri".into(), Value::described(Value::symbol("com.microsoft:uri"), "https://example.com/".into())),
        ("char".into(), Value::Char('é')),
        ("decimal".into(), Value::Decimal128([0x22; 16])),
    ];
    let mut output = BytesMut::new();
    encode_application_properties(&entries, &mut output);
    let sections = split(&[&output]).unwrap();
    assert_eq!(Sections::decode_map(&sections.application_properties).unwrap(), entries);
}

#[test]
fn map_sections_are_copied_entry_by_entry() {
    let mut output = BytesMut::new();
    let entries = [
        ("kept".into(), Value::array_of_longs(&[1, 2])),
        (Value::ULong(5), "numbered".into()),
        ("dropped".into(), Value::Null),
    ];
    encode_message_annotations(&entries, &mut output);
    let stored = output.split().freeze();

    let mut section = MapSection::message_annotations(&mut output);
    assert!(section.is_empty());
    section.long("x-opt-sequence-number", 1 << 40);
    section.timestamp("x-opt-enqueued-time", 5);
    section.int("x-opt-message-state", 1);
    section.string("x-opt-deadletter-source", "q");
    section.encoded("x-opt-raw", &Value::Bool(true).to_bytes());
    for entry in Sections::map_entries(&stored).unwrap() {
        let entry = entry.unwrap();
        if entry.key != Some("dropped") {
            section.entry(entry);
        }
    }
    section.finish();
    let copied = split(&[&output]).unwrap();
    let expected = [
        (Value::symbol("x-opt-sequence-number"), Value::Long(1 << 40)),
        (Value::symbol("x-opt-enqueued-time"), Value::Timestamp(5)),
        (Value::symbol("x-opt-message-state"), Value::Int(1)),
        (Value::symbol("x-opt-deadletter-source"), "q".into()),
        (Value::symbol("x-opt-raw"), Value::Bool(true)),
        (Value::symbol("kept"), Value::array_of_longs(&[1, 2])),
        (Value::ULong(5), "numbered".into()),
    ];
    assert_eq!(Sections::decode_map(&copied.message_annotations).unwrap(), expected);
    assert_eq!(Sections::map_entries(&Bytes::new()).unwrap().count(), 0);
}

#[test]
fn entries_with_text_keys_give_their_values() {
    let mut output = BytesMut::new();
    let entries = [
        ("a".into(), Value::array_of_longs(&[1, 2])),
        (Value::ULong(5), "numbered".into()),
        (Value::symbol("b"), Value::Null),
    ];
    encode_application_properties(&entries, &mut output);
    let section = output.freeze();
    let map = Sections::map_entries(&section).unwrap();
    assert_eq!(map.entries_left(), 3);
    let values: Vec<_> = map.values().map(Result::unwrap).collect();
    assert_eq!(values, [("a", Value::array_of_longs(&[1, 2])), ("b", Value::Null)]);

    let hostile = Bytes::from_static(b"\x00\x53\x74\xd1\x00\x00\x00\x08\xff\xff\xff\xfe\xa1\x01a\x40");
    let map = Sections::map_entries(&hostile).unwrap();
    assert_eq!(map.entries_left(), 2, "bounded by the bytes there are");
    let values: Vec<_> = map.values().collect();
    assert!(values.len() == 2 && values[1].is_err(), "one entry, then the end of the data: {values:?}");
}

#[test]
fn a_large_map_section_gets_a_large_head() {
    let mut output = BytesMut::new();
    let mut section = MapSection::application_properties(&mut output);
    for number in 0..200 {
        section.value(&format!("key{number}"), &Value::Int(number));
    }
    section.finish();
    assert_eq!(output[3], 0xd1);
    let sections = split(&[&output]).unwrap();
    let decoded = Sections::decode_map(&sections.application_properties).unwrap();
    assert_eq!(decoded.len(), 200);
    assert_eq!(decoded[199], ("key199".into(), Value::Int(199)));
}

#[test]
fn batches_are_data_sections_only() {
    let batch = split(&[PROPERTIES, DATA, b"\x00\x53\x75\xa0\x02yz"]).unwrap();
    assert_eq!(batch.batch_messages().unwrap(), ["x", "yz"]);
    assert_eq!(split(&[DATA, FOOTER]).unwrap().batch_messages().unwrap(), ["x"]);
    assert!(split(&[PROPERTIES]).unwrap().batch_messages().unwrap().is_empty());
    split(&[VALUE]).unwrap().batch_messages().unwrap_err();
    split(&[SEQUENCE]).unwrap().batch_messages().unwrap_err();
}

#[test]
fn the_body_value() {
    assert_eq!(split(&[]).unwrap().body_value().unwrap(), Value::Null);
    let token = split(&[b"\x00\x53\x77\xa1\x01t", FOOTER]).unwrap();
    assert_eq!(token.body_value().unwrap(), "t".into());
    split(&[DATA]).unwrap().body_value().unwrap_err();
}

proptest! {
    #[test]
    fn sections_round_trip(
        header in arbitrary::header(),
        annotations in arbitrary::entries(),
        properties in arbitrary::properties(),
        body in arbitrary::value(),
    ) {
        let mut output = BytesMut::new();
        header.encode(&mut output);
        encode_message_annotations(&annotations, &mut output);
        properties.encode(&mut output);
        encode_body_value(&body, &mut output);
        let message = output.freeze();
        let sections = Sections::split(&message).unwrap();
        prop_assert_eq!(sections.decode_header().unwrap(), header);
        prop_assert_eq!(Sections::decode_map(&sections.message_annotations).unwrap(), annotations);
        prop_assert_eq!(sections.decode_properties().unwrap(), properties);
        prop_assert_eq!(sections.body_value().unwrap(), body);
        prop_assert_eq!(Sections::split_trusted(&message).unwrap(), sections);
    }
}

#[test]
fn bodies_of_every_kind_are_decoded() {
    let body = |parts: &[&[u8]]| split(parts).unwrap().decode_body();
    let data = |bytes: &[u8]| {
        let mut section = BytesMut::new();
        encode_body_data(bytes, &mut section);
        section.freeze()
    };
    assert_eq!(body(&[]), Ok(Body::Data(Bytes::new())));
    assert_eq!(body(&[&data(b"one")]), Ok(Body::Data(Bytes::from_static(b"one"))));
    assert_eq!(body(&[&data(b"one"), &data(b"two")]), Ok(Body::Data(Bytes::from_static(b"onetwo"))));
    let mut value = BytesMut::new();
    encode_body_value(&Value::Int(7), &mut value);
    assert_eq!(body(&[&value]), Ok(Body::Value(Value::Int(7))));
    let sequence = [&[0x00, 0x53, 0x76][..], &Value::List(vec![Value::Int(1)]).to_bytes()].concat();
    assert_eq!(body(&[&sequence, &sequence]), Ok(Body::Sequence(vec![Value::Int(1), Value::Int(1)])));
}

/// Otherwise a body of many sections would become values that are many times larger than it.
#[test]
fn a_body_of_sequences_has_as_many_elements_as_one_value() {
    let section = |elements| {
        let list = Value::List(vec![Value::List(vec![Value::Null; elements])]);
        [&[0x00, 0x53, 0x76][..], &list.to_bytes()].concat()
    };
    let half = usize::try_from(Value::ELEMENTS_MAX / 2).unwrap();
    let body = |parts: &[&[u8]]| split(parts).unwrap().decode_body();
    assert!(body(&[&section(half - 1), &section(half - 1)]).is_ok());
    assert!(body(&[&section(half - 1), &section(half)]).is_err());
}
