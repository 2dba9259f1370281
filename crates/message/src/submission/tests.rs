use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use peeklock_wire::message::{
    MessageProperties, encode_application_properties, encode_body_value, encode_message_annotations,
};

fn message(header: Header, annotations: &[(Value, Value)], properties: &MessageProperties) -> Bytes {
    let mut output = BytesMut::new();
    header.encode(&mut output);
    if !annotations.is_empty() {
        encode_message_annotations(annotations, &mut output);
    }
    properties.encode(&mut output);
    encode_body_value(&Value::String("body".into()), &mut output);
    output.freeze()
}

fn with_id(id: &str) -> MessageProperties {
    MessageProperties { message_id: Value::String(id.into()), ..MessageProperties::default() }
}

fn read(payload: &Bytes) -> Result<NewMessage, InvalidMessage> {
    read_message(payload, RequiredProperties::default(), &mut || 0xfeed)
}

fn batch(messages: &[Bytes]) -> Bytes {
    let mut output = BytesMut::new();
    for message in messages {
        output.extend_from_slice(&[0x00, 0x53, 0x75, 0xb0]);
        output.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        output.extend_from_slice(message);
    }
    output.freeze()
}

#[test]
fn content_is_the_payload_itself() {
    let payload = message(Header::default(), &[], &with_id("m"));
    let read = read(&payload).unwrap();
    assert_eq!(read.content, payload);
    assert_eq!(read.content.as_ptr(), payload.as_ptr(), "a slice, not a copy");
    assert_eq!((read.time_to_live_ms, read.scheduled_enqueue_time, read.session_id), (None, None, None));
}

#[test]
fn a_message_without_an_id_gets_one() {
    for properties in [
        MessageProperties { subject: Some("s".into()), ..MessageProperties::default() },
        MessageProperties::default(),
    ] {
        let payload = message(Header { priority: Some(3), ..Header::default() }, &[], &properties);
        let content = read(&payload).unwrap().content;
        let sections = Sections::split(&content).unwrap();
        let expected = Value::String(format!("{:032x}", 0xfeed).into());
        assert_eq!(
            sections.decode_properties().unwrap(),
            MessageProperties { message_id: expected, ..properties }
        );
        let original = Sections::split(&payload).unwrap();
        assert_eq!((sections.header, sections.body), (original.header, original.body));
    }
}

#[test]
fn duplicates_are_detected_by_the_id_as_the_sdks_show_it() {
    let key = |id: Value, wanted: RequiredProperties| {
        let properties = MessageProperties { message_id: id, ..MessageProperties::default() };
        let payload = message(Header::default(), &[], &properties);
        read_message(&payload, wanted, &mut || 0xfeed).unwrap().message_key
    };
    let wanted = RequiredProperties { key: true, ..RequiredProperties::default() };
    assert_eq!(key("m".into(), wanted), Some(MessageKey::of("m")));
    assert_eq!(key("".into(), wanted), Some(MessageKey::of("")));
    assert_eq!(key(Value::ULong(7), wanted), key("7".into(), wanted));
    assert_eq!(key(Value::Binary(Bytes::from_static(b"m")), wanted), key("m".into(), wanted));
    let uuid = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
    assert_eq!(key(Value::Uuid(uuid), wanted), key("00112233-4455-6677-8899-aabbccddeeff".into(), wanted));
    assert_eq!(key(Value::Null, wanted), None, "an id assigned here is unique");
    assert_eq!(
        key("m".into(), RequiredProperties { rule_properties: true, ..RequiredProperties::default() }),
        None
    );
}

#[test]
fn partitions_are_chosen_by_session_partition_key_or_the_id_for_duplicate_detection() {
    let keys = |session: Option<&str>, key: Option<&str>, looks_for_duplicates: bool| {
        let properties = MessageProperties {
            message_id: "m".into(),
            group_id: session.map(Into::into),
            ..MessageProperties::default()
        };
        let annotations: Vec<_> = key
            .iter()
            .map(|key| (Value::Symbol("x-opt-partition-key".into()), Value::String((*key).into())))
            .collect();
        let payload = message(Header::default(), &annotations, &properties);
        let wanted =
            RequiredProperties { partition_key: true, key: looks_for_duplicates, rule_properties: false };
        read_message(&payload, wanted, &mut || 0xfeed).unwrap().partition_key
    };
    assert_eq!(keys(Some("S"), Some("S"), true), Some(PartitionKey::of("s")));
    assert_eq!(keys(None, Some("K"), true), Some(PartitionKey::of("K")));
    assert_eq!(keys(None, None, true), Some(PartitionKey::of("m")));
    assert_eq!(keys(None, None, false), None);
    let payload = message(Header::default(), &[], &with_id("m"));
    assert_eq!(read(&payload).unwrap().partition_key, None, "not asked for");
}

#[test]
fn a_bare_body_gets_properties_with_an_id() {
    let mut payload = BytesMut::new();
    encode_body_value(&Value::Null, &mut payload);
    let content = read(&payload.freeze()).unwrap().content;
    let sections = Sections::split(&content).unwrap();
    assert!(matches!(sections.decode_properties().unwrap().message_id, Value::String(_)));
}

/// Python writes delivery annotations last; they are stored in the place where every reader expects them.
#[test]
fn delivery_annotations_at_the_end_are_put_in_their_place() {
    for properties in [with_id("m"), MessageProperties::default()] {
        let mut payload = BytesMut::from(&message(Header::default(), &[], &properties)[..]);
        payload.extend_from_slice(b"\x00\x53\x71\xc1\x06\x02\xa3\x01h\x54\x01");
        let payload = payload.freeze();
        let content = read(&payload).unwrap().content;
        let (canonical, sections) = Sections::split_canonical(&content).unwrap();
        assert_eq!(canonical.as_ptr(), content.as_ptr(), "stored in canonical form");
        assert_eq!(sections.delivery_annotations, Sections::split(&payload).unwrap().delivery_annotations);
        assert_eq!(sections.body_value().unwrap(), Value::String("body".into()));
    }
}

#[test]
fn sections_out_of_order_or_oddly_described_are_put_straight() {
    let payload = message(Header::default(), &[], &with_id("m"));
    let mut annotations = BytesMut::new();
    peeklock_wire::message::encode_delivery_annotations(
        &[(Value::symbol("a"), Value::Int(1))],
        &mut annotations,
    );
    let trailing = Bytes::from([&payload[..], &annotations[..]].concat());
    let odd = Bytes::from([&[0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x70][..], &payload[3..]].concat());
    for sent in [trailing, odd] {
        let content = read(&sent).unwrap().content;
        let (canonical, sections) = Sections::split_canonical(&content).unwrap();
        assert_eq!(canonical.as_ptr(), content.as_ptr(), "stored in canonical form");
        assert_eq!(sections.body, Sections::split(&payload).unwrap().body);
    }
}

#[test]
fn s12_time_to_live_comes_from_the_header() {
    let header = Header { ttl_ms: Some(5000), ..Header::default() };
    assert_eq!(read(&message(header, &[], &with_id("m"))).unwrap().time_to_live_ms, Some(5000));
    let header = Header { ttl_ms: Some(0), ..Header::default() };
    assert_eq!(read(&message(header, &[], &with_id("m"))).unwrap().time_to_live_ms, Some(0));
}

#[test]
fn a_saturated_ttl_leaves_it_to_the_two_timestamps() {
    let properties = MessageProperties {
        absolute_expiry_time_ms: Some(9_000_000_000_000),
        creation_time_ms: Some(1_000_000_000_000),
        ..with_id("m")
    };
    let ttl_ms = |ttl_ms, properties: &MessageProperties| {
        read(&message(Header { ttl_ms, ..Header::default() }, &[], properties)).unwrap().time_to_live_ms
    };
    assert_eq!(ttl_ms(Some(u32::MAX), &properties), Some(8_000_000_000_000));
    assert_eq!(ttl_ms(None, &properties), None, "two timestamps alone are no life");
    let backwards = MessageProperties {
        absolute_expiry_time_ms: Some(i64::MIN),
        creation_time_ms: Some(i64::MAX),
        ..with_id("m")
    };
    assert_eq!(ttl_ms(Some(u32::MAX), &backwards), None);
    let only_expiry = MessageProperties { absolute_expiry_time_ms: Some(1), ..with_id("m") };
    assert_eq!(ttl_ms(Some(u32::MAX), &only_expiry), None);
}

#[test]
fn the_delivery_time_of_jms_is_a_scheduled_time() {
    let scheduled = |annotations: &[(Value, Value)]| {
        read(&message(Header::default(), annotations, &with_id("m"))).map(|read| read.scheduled_enqueue_time)
    };
    let delivery_time = |value| (Value::symbol("x-opt-delivery-time"), value);
    for value in [Value::Long(77), Value::Timestamp(77)] {
        assert_eq!(scheduled(&[delivery_time(value)]).unwrap(), Some(Timestamp(77)));
    }
    assert_eq!(scheduled(&[delivery_time(Value::Long(-1))]).unwrap(), None);
    let own = (Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(5));
    assert_eq!(scheduled(&[delivery_time(Value::Long(77)), own]).unwrap(), Some(Timestamp(5)));
    assert!(matches!(scheduled(&[delivery_time("soon".into())]), Err(InvalidMessage::Argument(_))));
}

#[test]
fn scheduled_time_is_an_annotation() {
    let scheduled = |value| {
        let annotations = [(Value::symbol("x-opt-scheduled-enqueue-time"), value)];
        read(&message(Header::default(), &annotations, &with_id("m"))).map(|read| read.scheduled_enqueue_time)
    };
    assert_eq!(scheduled(Value::Timestamp(77)).unwrap(), Some(Timestamp(77)));
    assert_eq!(scheduled(Value::Timestamp(-1)).unwrap(), None);
    assert_eq!(scheduled(Value::Null).unwrap(), None);
    assert!(matches!(scheduled(Value::String("soon".into())), Err(InvalidMessage::Argument(_))));
}

#[test]
fn ids_are_bounded_and_the_partition_key_agrees_with_the_session() {
    let long = "ä".repeat(ID_CHARACTERS_MAX + 1);
    let fits = "ä".repeat(ID_CHARACTERS_MAX);
    assert!(read(&message(Header::default(), &[], &with_id(&fits))).is_ok());
    assert!(matches!(
        read(&message(Header::default(), &[], &with_id(&long))),
        Err(InvalidMessage::Argument(_))
    ));
    let session = MessageProperties { group_id: Some(long.into()), ..with_id("m") };
    assert!(matches!(read(&message(Header::default(), &[], &session)), Err(InvalidMessage::Argument(_))));
    let annotations = [(Value::symbol("x-opt-partition-key"), Value::String("other".into()))];
    let session = MessageProperties { group_id: Some("s".into()), ..with_id("m") };
    assert!(matches!(
        read(&message(Header::default(), &annotations, &session)),
        Err(InvalidMessage::Argument(_))
    ));
}

#[test]
fn a_property_is_bounded_whatever_the_others_take() {
    let with_property = |size_bytes: usize| {
        let half = Value::String("x".repeat(PROPERTY_BYTES_MAX / 2).into());
        let large = Value::String("x".repeat(size_bytes).into());
        let mut output = BytesMut::new();
        with_id("m").encode(&mut output);
        encode_application_properties(&[("half".into(), half), ("large".into(), large)], &mut output);
        encode_body_value(&Value::String("body".into()), &mut output);
        read(&output.freeze())
    };
    assert!(with_property(PROPERTY_BYTES_MAX).is_ok());
    let Err(InvalidMessage::TooLarge(reason)) = with_property(PROPERTY_BYTES_MAX + 1) else {
        panic!("too large")
    };
    assert!(reason.contains("'large' takes 32769 bytes"), "{reason}");
}

#[test]
fn the_empty_session_agrees_with_every_partition_key() {
    let session = MessageProperties { group_id: Some("".into()), ..with_id("m") };
    let annotations = [(Value::symbol("x-opt-partition-key"), Value::String("other".into()))];
    for annotations in [&[][..], &annotations] {
        let read = read(&message(Header::default(), annotations, &session)).unwrap();
        assert_eq!(read.session_id.as_deref(), Some(""));
    }
}

#[test]
fn ids_of_types_that_amqp_does_not_allow_are_refused() {
    let wrong = [Value::Int(1), Value::symbol("m"), Value::Bool(true), Value::List(Vec::new())];
    for id in wrong {
        let message_id = MessageProperties { message_id: id.clone(), ..with_id("m") };
        let correlation_id = MessageProperties { correlation_id: id, ..with_id("m") };
        for properties in [message_id, correlation_id] {
            let refused = read(&message(Header::default(), &[], &properties));
            assert!(matches!(refused, Err(InvalidMessage::Malformed(_))), "{refused:?}");
        }
    }
    for id in [Value::Null, Value::ULong(1), Value::Uuid([1; 16]), Value::Binary("m".into()), "m".into()] {
        let properties =
            MessageProperties { message_id: id.clone(), correlation_id: id, ..MessageProperties::default() };
        assert!(read(&message(Header::default(), &[], &properties)).is_ok());
    }
}

/// The bits of 1.2345 in AMQP's encoding, and in the service's.
const DECIMAL: (u128, u128) = ((6172 << 113) | 12345, (12 << 120) | (28 << 113) | 12345);

#[test]
fn decimals_in_every_map_are_kept_as_the_service_writes_them() {
    let entries = |bits: u128| {
        [
            (Value::symbol("before"), Value::Int(1)),
            (Value::symbol("decimal"), Value::Decimal128(bits.to_be_bytes())),
        ]
    };
    let whole = |bits: u128| {
        let mut output = BytesMut::new();
        Header::default().encode(&mut output);
        peeklock_wire::message::encode_delivery_annotations(&entries(bits), &mut output);
        encode_message_annotations(&entries(bits), &mut output);
        with_id("m").encode(&mut output);
        encode_application_properties(&entries(bits), &mut output);
        encode_body_value(&Value::String("body".into()), &mut output);
        let mut footer = BytesMut::new();
        encode_message_annotations(&entries(bits), &mut footer);
        footer[2] = 0x78;
        output.extend_from_slice(&footer);
        output.freeze()
    };
    let (sent, kept) = (whole(DECIMAL.0), whole(DECIMAL.1));
    let message = read(&sent).unwrap();
    assert_eq!(message.content, kept);
    let again = read(&kept).unwrap();
    assert_eq!(again.content.as_ptr(), kept.as_ptr(), "a slice, not a copy");
    assert_eq!(message.header_bytes, again.header_bytes);
}

#[test]
fn a_decimal_that_no_client_could_read_is_refused() {
    let mut output = BytesMut::from(&message(Header::default(), &[], &with_id("m"))[..]);
    output.clear();
    let value = Value::Decimal128(((6176_u128 - 29) << 113 | 1).to_be_bytes());
    encode_application_properties(&[("d".into(), value)], &mut output);
    let refused = read(&output.freeze());
    assert!(matches!(refused, Err(InvalidMessage::Argument(_))), "{refused:?}");
}

fn read_sent(
    message_format: u32,
    payload: &Bytes,
    next_id: &mut dyn FnMut() -> u128,
) -> Result<SmallVec<[NewMessage; 1]>, InvalidMessage> {
    let (wanted, blocks) = (RequiredProperties::default(), &mut CopyBlocks::default());
    let mut messages = SmallVec::new();
    read_transfer(message_format, payload, wanted, next_id, blocks, &mut messages).map(|()| messages)
}

#[test]
fn a_batch_is_taken_whole_or_not_at_all() {
    let good = message(Header::default(), &[], &with_id("a"));
    let next = &mut || 1;
    let read = read_sent(BATCH_MESSAGE_FORMAT, &batch(&[good.clone(), good.clone()]), next).unwrap();
    assert_eq!(read.iter().map(|message| &message.content).collect::<Vec<_>>(), [&good, &good]);
    let broken = good.slice(..good.len() - 1);
    let id = MessageProperties { message_id: Value::Int(1), ..MessageProperties::default() };
    let unreadable = message(Header::default(), &[], &id);
    for bad in [
        batch(&[good.clone(), broken]),
        batch(&[good.clone(), unreadable, good.clone()]),
        batch(&[good.clone(), Bytes::new()]),
        batch(&[]),
        good.clone(),
    ] {
        let refused = read_sent(BATCH_MESSAGE_FORMAT, &bad, next);
        assert!(matches!(refused, Err(InvalidMessage::Malformed(_))), "{refused:?}");
    }
    assert!(matches!(read_sent(7, &good, next), Err(InvalidMessage::NotImplemented(_))));
}

#[test]
fn an_empty_payload_is_no_message() {
    assert!(matches!(read(&Bytes::new()), Err(InvalidMessage::Malformed(_))));
}

proptest! {
    #[test]
    fn never_panics_on_rubbish(bytes in prop::collection::vec(any::<u8>(), 0..200), format in prop_oneof![
        Just(0), Just(BATCH_MESSAGE_FORMAT)
    ]) {
        let _ = read_sent(format, &Bytes::from(bytes), &mut || 1);
    }

    #[test]
    fn never_panics_on_mutated_messages(at in 0usize..200, with in any::<u8>()) {
        let annotations = [(Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(1))];
        let payload = message(Header { ttl_ms: Some(9), ..Header::default() }, &annotations, &with_id("m"));
        let mut bytes = payload.to_vec();
        let index = at % bytes.len();
        bytes[index] = with;
        let _ = read_sent(0, &Bytes::from(bytes), &mut || 1);
    }
}
