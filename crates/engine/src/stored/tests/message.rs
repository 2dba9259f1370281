use std::sync::Arc;

use bytes::Bytes;
use peeklock_rules::{Given, PropertyChanges, PropertyValue, RuleProperties, SelectableFields, TextProperty};
use proptest::prelude::*;

use crate::partition::record::{Extra, Record};
use crate::stored::frame::testing::check_tolerance;
use crate::stored::{append_head, body_of, read_head};
use crate::{
    BodyRef, DeadLetter, Forwarded, KeyPartition, MessageState, Property, SequenceNumber, SubQueue, Timestamp,
};

fn written(record: &Record) -> Vec<u8> {
    let mut stored = Vec::new();
    append_head(record, &mut stored);
    stored
}

fn message(sub_queue: SubQueue, state: MessageState, extra: Extra) -> Record {
    let mut record = Record::new(Timestamp(300), Some(5), 6);
    record.set_place(sub_queue, state);
    record.set_delivery_count(7);
    record.set_extra((extra != Extra::default()).then(|| Arc::new(extra)));
    record
}

fn dead_lettered() -> Record {
    let why = DeadLetter { reason: Some("r".into()), description: None };
    let property = Property { name: "p".into(), value: Bytes::from_static(&[0xa1, 1, b'v']) };
    let extra = Extra {
        dead_letter: Some(Arc::new(why)),
        modified: Some(Arc::new(vec![property])),
        session_id: Some("S".into()),
        body: Some(BodyRef(9)),
        ..Extra::default()
    };
    message(SubQueue::DeadLetter, MessageState::Deferred, extra)
}

/// Properties for rules, with values of several kinds.
fn seen() -> RuleProperties {
    RuleProperties {
        label: Some("l".into()),
        user: vec![("a".into(), PropertyValue::Integer(-1)), ("b".into(), PropertyValue::Uuid(2))],
        partition_key: Some("k".into()),
        ..RuleProperties::default()
    }
}

fn scheduled() -> Record {
    let mut changes = PropertyChanges { time_to_live_ms: Some(None), ..PropertyChanges::default() };
    changes.set_text(TextProperty::To, Some("t".into()));
    changes.set_text(TextProperty::Label, None);
    changes.set_user("c", None);
    changes.set_user("d", Some(PropertyValue::Boolean(true)));
    let way = Forwarded {
        enqueued_sequence_number: SequenceNumber(8),
        hops: 2,
        dead_letter_source: Some("q".into()),
    };
    let extra = Extra {
        scheduled_enqueue_time: Some(Timestamp(400)),
        header_bytes: 40_000,
        rule_properties: Some(Arc::new(seen())),
        forwarded: Some(Arc::new(way)),
        changes: Some(Arc::new(changes)),
        ..Extra::default()
    };
    message(SubQueue::Main, MessageState::Scheduled, extra)
}

/// The stored form must not change by accident.
#[test]
fn records_are_pinned() {
    let plain = Record::new(Timestamp(300), None, 6);
    let mut partitioned = plain.clone();
    partitioned.set_partition(KeyPartition::new(15).unwrap());
    let expected: [(Record, &[u8]); 4] = [
        (plain, b"\x10\x05\x08\xac\x02\x10\x06"),
        (partitioned, b"\x10\x07\x08\xac\x02\x10\x06`\x0f"),
        (
            dead_lettered(),
            b"\x10%\x08\xac\x02\x10\x06\x18\x05 \x07(\x010\x018\tB\x01SZ\x11\n\x03\n\x01r\x12\n\n\
            \x08\n\x01p\x12\x03\xa1\x01v",
        ),
        (
            scheduled(),
            b"\x10d\x08\xac\x02\x10\x06\x18\x05 \x070\x02H\x90\x03P\xc0\xb8\x02ZP\x1a(*\x01lJ\x01kZ\
            \x07\n\x01a\x12\x02\x18\x01Z\x17\n\x01b\x12\x12B\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\
            \x00\x00\x00\x00\x00\x00\x02\"\x07\x08\x08\x10\x02\x1a\x01q*\x1b\n\x05\x08\x08\x12\x01t\
            \n\x02\x08\x02\x1a\x00\"\x03\n\x01c\"\x07\n\x01d\x12\x02\x10\x01",
        ),
    ];
    for (record, expected) in expected {
        let stored = written(&record);
        assert_eq!(stored.escape_ascii().to_string(), expected.escape_ascii().to_string());
        assert_eq!(read_head(&stored), Ok(record));
        check_tolerance(&stored, read_head);
    }
}

#[test]
fn a_partition_that_does_not_exist_is_refused() {
    assert_eq!(read_head(b"\x10\x07\x08\xac\x02\x10\x06`\x10"), Err("there is no partition 16".to_owned()));
}

#[test]
fn records_by_position_stay_readable() {
    let version_1 = b"\x01\x01\x01\xac\x02\x01\x05\x06\x07\x01\x01\x01\x01p\x03\xa1\x01v\x01\x01\x01\
        r\x00\x00\x01\x01S\x01\x09";
    assert_eq!(read_head(version_1), Ok(dead_lettered()));
    // Scheduled, with the length of the header and the properties for rules, from before partition keys were included.
    let scheduled_with = |edit: fn(&mut Extra)| {
        let mut record = scheduled();
        record.edit_extra(edit);
        Ok(record)
    };
    let head = b"\x00\x02\xac\x02\x01\x05\x06\x07\x01\x00\x00\x01\x90\x03\x00\x00";
    let seen = b"\x01\x00\x00\x00\x00\x01\x01l\x00\x00\x00\x02\x01a\x02\x01\x01b\x07\x02";
    let (length, way) = (b"\xc0\xb8\x02", b"\x08\x02\x01\x01q");
    let version_2 = [&[2][..], head, length, seen].concat();
    let expected = scheduled_with(|extra| {
        extra.rule_properties =
            Some(Arc::new(RuleProperties { partition_key: None, ..super::message::seen() }));
        (extra.forwarded, extra.changes) = (None, None);
    });
    assert_eq!(read_head(&version_2), expected);
    let version_3 = [&[3][..], head, length, seen, way].concat();
    let expected = scheduled_with(|extra| {
        extra.rule_properties =
            Some(Arc::new(RuleProperties { partition_key: None, ..super::message::seen() }));
        extra.changes = None;
    });
    assert_eq!(read_head(&version_3), expected);
    let keys = b"\x01\x01k\x00";
    let changes = b"\x01\x02\x08\x01\x01t\x02\x00\x00\x01\x00\x02\x01c\x00\x01d\x01\x01\x01";
    let version_5 = [&[5][..], head, length, seen, keys, &[1], way, changes].concat();
    assert_eq!(read_head(&version_5), Ok(scheduled()));
    for stored in [&version_1[..], &version_2, &version_3, &version_5] {
        for end in 0..stored.len() {
            assert!(read_head(&stored[..end]).is_err(), "cut at {end}: {stored:?}");
        }
        let longer = [stored, &[0]].concat();
        assert!(read_head(&longer).unwrap_err().contains("1 bytes too many"));
    }
}

#[test]
fn the_place_of_a_body_is_found_by_every_record() {
    for (stored, body) in [
        (written(&dead_lettered()), 9),
        (written(&scheduled()), 7),
        (b"\x04\x05\x0a".to_vec(), 5),
        (b"\x01\x00\x00\x01\x00\x06\x00\x00".to_vec(), 7),
    ] {
        assert_eq!(body_of(SequenceNumber(7), &stored), Ok(BodyRef(body)));
    }
    assert!(body_of(SequenceNumber(7), b"\x10\x05").is_err());
}

#[test]
fn a_record_that_contradicts_itself_is_refused_with_the_reason() {
    let scheduled_without_time = message(SubQueue::Main, MessageState::Scheduled, Extra::default());
    let mut scheduled_dead = scheduled();
    scheduled_dead.set_place(SubQueue::DeadLetter, MessageState::Scheduled);
    for (stored, reason) in [
        (written(&scheduled_without_time), "a message is scheduled if and only if"),
        (written(&scheduled_dead), "only messages of the main queue"),
        (b"\x10\x02\x28\x03".to_vec(), "the sub-queue 3 is unknown"),
        (b"\x10\x02\x30\x03".to_vec(), "the state 3 is unknown"),
        // A time-to-live that is a text, a session id that is no text.
        (b"\x10\x03\x1a\x01a".to_vec(), "invalid wire type"),
        (b"\x10\x03\x42\x01\xff".to_vec(), "UTF-8"),
        // Forwarded 300 times.
        (b"\x10\x07\x5a\x05\x22\x03\x10\xac\x02".to_vec(), "it was forwarded 300 times"),
    ] {
        let error = read_head(&stored).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

fn texts() -> impl Strategy<Value = Option<Box<str>>> {
    prop::option::of("\\PC{0,5}".prop_map(Into::into))
}

fn given() -> impl Strategy<Value = Given> {
    prop_oneof![
        any::<i8>().prop_map(Given::Byte),
        any::<i16>().prop_map(Given::Short),
        any::<i32>().prop_map(Given::Int),
        any::<i64>().prop_map(Given::Long),
        any::<u8>().prop_map(Given::UByte),
        any::<u16>().prop_map(Given::UShort),
        any::<u32>().prop_map(Given::UInt),
        any::<u64>().prop_map(Given::ULong),
        any::<f32>().prop_map(Given::Float),
        any::<char>().prop_map(Given::Char),
        "\\PC{0,5}".prop_map(|text| Given::Symbol(text.into())),
        "\\PC{0,5}".prop_map(|text| Given::Uri(text.into())),
        (any::<i64>(), "\\PC{0,5}").prop_map(|(at_ms, text)| Given::DateTime { at_ms, text: text.into() }),
        any::<(u32, u128)>().prop_map(|(bits, wide)| Given::Decimal32 { bits, wide }),
        any::<(u64, u128)>().prop_map(|(bits, wide)| Given::Decimal64 { bits, wide }),
    ]
}

/// Values of all kinds.
pub(super) fn values() -> impl Strategy<Value = PropertyValue> {
    prop_oneof![
        Just(PropertyValue::Null),
        any::<bool>().prop_map(PropertyValue::Boolean),
        any::<i64>().prop_map(PropertyValue::Integer),
        any::<u64>().prop_map(PropertyValue::Unsigned),
        any::<f64>().prop_map(PropertyValue::Double),
        "\\PC{0,5}".prop_map(|text| PropertyValue::Text(text.into())),
        any::<i64>().prop_map(PropertyValue::Timestamp),
        any::<u128>().prop_map(PropertyValue::Uuid),
        any::<Vec<u8>>().prop_map(|bytes| PropertyValue::Other(bytes.into())),
        any::<i64>().prop_map(PropertyValue::TimeSpan),
        any::<i64>().prop_map(PropertyValue::DateTimeOffset),
        any::<u128>().prop_map(PropertyValue::Decimal),
        given().prop_map(|given| PropertyValue::Given(Box::new(given))),
    ]
}

/// Properties with values of all kinds.
pub(super) fn properties() -> impl Strategy<Value = Vec<(Box<str>, PropertyValue)>> {
    prop::collection::vec(("\\PC{0,5}".prop_map(Into::into), values()), 0..4)
}

fn rule_properties() -> impl Strategy<Value = RuleProperties> {
    (prop::collection::vec(texts(), 13), properties()).prop_map(|(texts, user)| RuleProperties {
        correlation_id: texts[0].clone(),
        message_id: texts[1].clone(),
        to: texts[2].clone(),
        reply_to: texts[3].clone(),
        label: texts[4].clone(),
        session_id: texts[5].clone(),
        reply_to_session_id: texts[6].clone(),
        content_type: texts[7].clone(),
        user,
        partition_key: texts[8].clone(),
        via_partition_key: texts[9].clone(),
        selectable: SelectableFields {
            is_durable: texts[10].is_some(),
            priority: texts[10].as_ref().map(|text| u8::try_from(text.len() % 10).unwrap()),
            creation_time_ms: texts[11].as_ref().map(|text| -i64::try_from(text.len()).unwrap()),
            group_sequence: texts[11].as_ref().map(|text| u32::try_from(text.len()).unwrap()),
            user_id: texts[12].clone(),
        },
    })
}

fn changes() -> impl Strategy<Value = PropertyChanges> {
    let property = prop::sample::select(vec![
        TextProperty::ContentType,
        TextProperty::CorrelationId,
        TextProperty::Label,
        TextProperty::MessageId,
        TextProperty::PartitionKey,
        TextProperty::ReplyTo,
        TextProperty::ReplyToSessionId,
        TextProperty::SessionId,
        TextProperty::To,
    ]);
    let texts = prop::collection::vec((property, texts()), 0..4);
    let user = prop::collection::vec(("\\PC{0,5}".prop_map(Into::into), prop::option::of(values())), 0..4);
    (texts, user, any::<[Option<Option<u64>>; 2]>()).prop_map(|(texts, user, numbers)| PropertyChanges {
        texts,
        scheduled_enqueue_time_ms: numbers[0],
        time_to_live_ms: numbers[1],
        user,
    })
}

fn modified() -> impl Strategy<Value = Vec<Property>> {
    let property = (any::<String>(), any::<Vec<u8>>());
    let property = property.prop_map(|(name, value)| Property { name: name.into(), value: value.into() });
    prop::collection::vec(property, 0..3)
}

fn shared<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Arc<T>>> {
    prop::option::of(value.prop_map(Arc::new))
}

prop_compose! {
    fn dead_letters()(reason in texts(), description in texts()) -> DeadLetter {
        let shared = |text: Option<Box<str>>| text.map(Into::into);
        DeadLetter { reason: shared(reason), description: shared(description) }
    }
}

prop_compose! {
    fn ways()(number in any::<u64>(), hops in any::<u8>(), source in texts()) -> Forwarded {
        let dead_letter_source = source.map(Into::into);
        Forwarded { enqueued_sequence_number: SequenceNumber(number), hops, dead_letter_source }
    }
}

prop_compose! {
    fn extras()(
        modified in shared(modified()),
        dead_letter in shared(dead_letters()),
        scheduled in any::<Option<u64>>(),
        session_id in texts(),
        body in any::<Option<u64>>(),
        header_bytes in any::<u32>(),
        rule_properties in shared(rule_properties()),
        forwarded in shared(ways()),
        changes in shared(changes()),
        held_until in any::<Option<u64>>(),
    ) -> Extra {
        Extra {
            modified,
            dead_letter,
            scheduled_enqueue_time: scheduled.map(Timestamp),
            session_id: session_id.map(Into::into),
            body: body.map(BodyRef),
            header_bytes,
            rule_properties,
            forwarded,
            changes,
            held_until: held_until.map(Timestamp),
        }
    }
}

prop_compose! {
    fn records()(
        enqueued_at in any::<u64>(),
        time_to_live_ms in any::<Option<u64>>(),
        body_bytes in any::<u32>(),
        delivery_count in 0..1_u32 << 28,
        extra in extras(),
        sub_queue in 0..3_usize,
        is_deferred in any::<bool>(),
    ) -> Record {
        let mut record = Record::new(Timestamp(enqueued_at), time_to_live_ms, body_bytes);
        let (sub_queue, state) = match (extra.scheduled_enqueue_time, is_deferred) {
            (Some(_), _) => (SubQueue::Main, MessageState::Scheduled),
            (None, is_deferred) => (
                SubQueue::ALL[sub_queue],
                if is_deferred { MessageState::Deferred } else { MessageState::Active },
            ),
        };
        record.set_place(sub_queue, state);
        record.set_delivery_count(delivery_count);
        record.set_extra((extra != Extra::default()).then(|| Arc::new(extra)));
        record
    }
}

proptest! {
    #[test]
    fn written_values_are_read_back(record in records()) {
        prop_assert_eq!(read_head(&written(&record)), Ok(record));
    }

    #[test]
    fn arbitrary_bytes_never_panic(fields in prop::collection::vec(any::<u8>(), 0..60), first in 0..=0x10_u8) {
        let _ = read_head(&[&[first], &fields[..]].concat());
        let framed = [&[0x10, fields.len() as u8], &fields[..]].concat();
        let _ = read_head(&framed);
    }
}
