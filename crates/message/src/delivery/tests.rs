use std::sync::Arc;

use peeklock_engine::{
    BodyRef, DeadLetter, KeyPartition, Lock, LockToken, MessageState, Property, PropertyChanges,
    SequenceNumber, SubQueue, TextProperty, Timestamp,
};

use super::*;
use peeklock_wire::Value;
use peeklock_wire::message::lookup;
use peeklock_wire::message::{
    MessageProperties, encode_application_properties, encode_body_value, encode_delivery_annotations,
    encode_message_annotations,
};

fn view() -> MessageView {
    MessageView {
        enqueued_at: Timestamp(1000),
        ..MessageView::new(peeklock_engine::QueueId(1), SequenceNumber(5))
    }
}

fn content(annotations: &[(Value, Value)], application_properties: &[(Value, Value)]) -> Bytes {
    let mut output = BytesMut::new();
    Header { durable: Some(true), priority: Some(7), ttl_ms: Some(1), ..Header::default() }
        .encode(&mut output);
    if !annotations.is_empty() {
        encode_message_annotations(annotations, &mut output);
    }
    MessageProperties {
        message_id: Value::ULong(9),
        subject: Some("s".into()),
        ..MessageProperties::default()
    }
    .encode(&mut output);
    if !application_properties.is_empty() {
        encode_application_properties(application_properties, &mut output);
    }
    encode_body_value(&Value::String("body".into()), &mut output);
    output.freeze()
}

fn encode(received: &Received, format: DeliveryFormat) -> Sections {
    let slices = Encoder::default().encode(received, format, Origin::default()).unwrap();
    Sections::split(&Bytes::from(slices.concat())).unwrap()
}

fn received(content: Bytes, view: MessageView, lock: Option<Lock>) -> Received {
    Received { view, content, lock }
}

const LOCK: Lock = Lock { token: LockToken(0x0102), locked_until: Timestamp(61_000) };

#[test]
fn plain_messages_get_a_fresh_front_and_keep_the_rest_as_a_slice() {
    let content = content(&[], &[]);
    let original = Sections::split(&content).unwrap();
    let message = received(content.clone(), MessageView { delivery_count: 2, ..view() }, Some(LOCK));
    let slices = Encoder::default().encode(&message, DeliveryFormat::Link, Origin::default()).unwrap();
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[1].as_ptr_range().end, content.as_ptr_range().end, "the rest is not copied");
    let sections = encode(&message, DeliveryFormat::Link);
    assert_eq!(
        sections.decode_header().unwrap(),
        Header {
            durable: Some(true),
            priority: Some(7),
            ttl_ms: None,
            first_acquirer: None,
            delivery_count: Some(2)
        }
    );
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(
        annotations,
        [
            (Value::symbol("x-opt-enqueued-time"), Value::Timestamp(1000)),
            (Value::symbol("x-opt-sequence-number"), Value::Long(5)),
            (Value::symbol("x-opt-locked-until"), Value::Timestamp(61_000)),
        ]
    );
    let delivery = Sections::decode_map(&sections.delivery_annotations).unwrap();
    assert_eq!(delivery, [(Value::symbol("x-opt-lock-token"), Value::Uuid(0x0102_u128.to_be_bytes()))]);
    assert_eq!((sections.properties, sections.body), (original.properties, original.body));
}

#[test]
fn the_header_is_explicit_to_its_last_field() {
    let mut bare = BytesMut::new();
    encode_body_value(&Value::Null, &mut bare);
    let sections = encode(&received(bare.freeze(), view(), None), DeliveryFormat::Link);
    // list8, size, five fields, the last one delivery-count 0 (uint0).
    assert_eq!(sections.header[..3], [0x00, 0x53, 0x70]);
    assert_eq!(sections.header[5], 5);
    assert_eq!(sections.header.last(), Some(&0x43));
}

#[test]
fn service_annotations_win_over_the_senders_and_others_stay() {
    let annotations = [
        (Value::symbol("x-opt-partition-key"), Value::String("p".into())),
        (Value::symbol("x-opt-sequence-number"), Value::Long(999)),
        (Value::symbol("x-opt-locked-until"), Value::Timestamp(999)),
        (Value::symbol("mine"), Value::UByte(3)),
        (Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(12)),
    ];
    let sections = encode(&received(content(&annotations, &[]), view(), None), DeliveryFormat::Link);
    let written = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(lookup(&written, "x-opt-sequence-number"), Some(&Value::Long(5)));
    assert_eq!(lookup(&written, "x-opt-locked-until"), None);
    assert_eq!(lookup(&written, "mine"), Some(&Value::UByte(3)));
    assert_eq!(lookup(&written, "x-opt-partition-key"), Some(&Value::String("p".into())));
    assert_eq!(lookup(&written, "x-opt-scheduled-enqueue-time"), Some(&Value::Timestamp(12)));
    assert_eq!(written.len(), 5);
}

#[test]
fn the_number_at_the_first_entity_is_written_where_there_is_another() {
    let message = received(content(&[], &[]), MessageView { body: BodyRef(3), ..view() }, None);
    for (copies, expected) in [(false, None), (true, Some(&Value::Long(3)))] {
        let origin = Origin { copies, ..Origin::default() };
        let slices = Encoder::default().encode(&message, DeliveryFormat::Link, origin).unwrap();
        let sections = Sections::split(&Bytes::from(slices.concat())).unwrap();
        let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
        assert_eq!(lookup(&annotations, "x-opt-enqueue-sequence-number"), expected);
    }
}

#[test]
fn numbers_name_the_partition_where_there_are_any() {
    let partition = KeyPartition::new(7).unwrap();
    let message = received(content(&[], &[]), MessageView { body: BodyRef(3), partition, ..view() }, None);
    let origin = Origin { copies: true, partitioned: true, ..Origin::default() };
    let slices = Encoder::default().encode(&message, DeliveryFormat::Link, origin).unwrap();
    let sections = Sections::split(&Bytes::from(slices.concat())).unwrap();
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(lookup(&annotations, "x-opt-sequence-number"), Some(&Value::Long(7 << 48 | 5)));
    assert_eq!(lookup(&annotations, "x-opt-enqueue-sequence-number"), Some(&Value::Long(7 << 48 | 3)));
    assert_eq!(lookup(&annotations, "x-opt-partition-id"), Some(&Value::Short(7)));
    let slices = Encoder::default().encode(&message, DeliveryFormat::Link, Origin::default()).unwrap();
    let sections = Sections::split(&Bytes::from(slices.concat())).unwrap();
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(lookup(&annotations, "x-opt-partition-id"), None);
}

#[test]
fn the_state_is_written_unless_it_is_active() {
    for (state, expected) in [(MessageState::Active, None), (MessageState::Scheduled, Some(&Value::Int(2)))] {
        let message = received(content(&[], &[]), MessageView { state, ..view() }, None);
        let sections = encode(&message, DeliveryFormat::Management);
        let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
        assert_eq!(lookup(&annotations, "x-opt-message-state"), expected);
        assert_eq!(lookup(&annotations, "x-opt-locked-until"), None);
    }
}

#[test]
fn s13_effective_ttl_and_instant_of_expiry_are_written() {
    let view = MessageView { expires_at: Timestamp(3000), time_to_live_ms: Some(2000), ..view() };
    let sections = encode(&received(content(&[], &[]), view.clone(), None), DeliveryFormat::Link);
    assert_eq!(sections.decode_header().unwrap().ttl_ms, Some(2000));
    let properties = sections.decode_properties().unwrap();
    assert_eq!(properties.absolute_expiry_time_ms, Some(3000));
    assert_eq!((properties.message_id, properties.subject.as_deref()), (Value::ULong(9), Some("s")));

    let long =
        MessageView { expires_at: Timestamp(u64::MAX - 1), time_to_live_ms: Some(u64::MAX - 1), ..view };
    let sections = encode(&received(content(&[], &[]), long, None), DeliveryFormat::Link);
    assert_eq!(sections.decode_header().unwrap().ttl_ms, Some(u32::MAX));
    let expiry = sections.decode_properties().unwrap().absolute_expiry_time_ms;
    assert_eq!(expiry, Some(253_402_243_199_000));
}

#[test]
fn s13_creation_time_is_the_start_of_the_time_to_live_of_any_origin() {
    for sent in [Some(5), None] {
        let properties = MessageProperties { creation_time_ms: sent, ..MessageProperties::default() };
        let mut content = BytesMut::new();
        properties.encode(&mut content);
        let created_at = |view: MessageView| {
            let sections = encode(&received(content.clone().freeze(), view, None), DeliveryFormat::Link);
            sections.decode_properties().unwrap().creation_time_ms
        };
        let limited = MessageView { expires_at: Timestamp(3000), time_to_live_ms: Some(2000), ..view() };
        assert_eq!(created_at(limited.clone()), Some(1000));
        let life_ms = EXPIRY_MAX_MS * 2;
        let beyond =
            MessageView { expires_at: Timestamp(1000 + life_ms), time_to_live_ms: Some(life_ms), ..limited };
        assert_eq!(created_at(beyond), Some(1000), "although its end can't be shown");
        assert_eq!(created_at(view()), sent, "without a life it is the sender's");
    }
}

#[test]
fn s19_dead_letter_stamps_and_modified_properties_are_merged() {
    let mut number = BytesMut::new();
    Value::Long(8).encode(&mut number);
    let modified = vec![Property { name: "kept".into(), value: number.freeze() }];
    let why = DeadLetter { reason: Some("because".into()), description: None };
    let view = MessageView { dead_letter: Some(Arc::new(why)), modified: Some(Arc::new(modified)), ..view() };
    let sent = [
        (Value::String("kept".into()), Value::Int(1)),
        (Value::String("other".into()), Value::Symbol("x".into())),
    ];
    let content = content(&[], &sent);
    let sections = encode(&received(content.clone(), view, None), DeliveryFormat::Link);
    assert_eq!(
        Sections::decode_map(&sections.application_properties).unwrap(),
        [
            (Value::String("kept".into()), Value::Long(8)),
            (Value::String("other".into()), Value::Symbol("x".into())),
            (Value::String("DeadLetterReason".into()), Value::String("because".into())),
        ]
    );
    let original = Sections::split(&content).unwrap();
    assert_eq!((sections.properties, sections.body), (original.properties, original.body));
}

#[test]
fn the_senders_delivery_annotations_come_through_with_the_token_of_the_lock() {
    let sent = [
        (Value::symbol("hop"), Value::Int(3)),
        (Value::symbol("x-opt-lock-token"), Value::Uuid([9; 16])),
        (Value::ULong(7), Value::Bool(true)),
    ];
    let mut content = BytesMut::new();
    encode_delivery_annotations(&sent, &mut content);
    encode_body_value(&Value::Null, &mut content);
    let content = content.freeze();
    let written = |lock, format| {
        let sections = encode(&received(content.clone(), view(), lock), format);
        Sections::decode_map(&sections.delivery_annotations).unwrap()
    };
    let kept = [sent[0].clone(), sent[2].clone()];
    let token = (Value::symbol("x-opt-lock-token"), Value::Uuid(0x0102_u128.to_be_bytes()));
    for format in [DeliveryFormat::Link, DeliveryFormat::Management] {
        assert_eq!(written(Some(LOCK), format), [kept[0].clone(), kept[1].clone(), token.clone()]);
        assert_eq!(written(None, format), kept);
    }
}

#[test]
fn without_a_lock_a_delivery_has_empty_delivery_annotations_and_a_browsed_message_none() {
    let message = received(content(&[], &[]), view(), None);
    assert_eq!(encode(&message, DeliveryFormat::Link).delivery_annotations[3..], [0xc1, 1, 0]);
    assert!(encode(&message, DeliveryFormat::Management).delivery_annotations.is_empty());
}

#[test]
fn the_first_acquirer_is_the_first_only() {
    let mut sent = BytesMut::new();
    Header { first_acquirer: Some(true), ..Header::default() }.encode(&mut sent);
    encode_body_value(&Value::Null, &mut sent);
    let sent = sent.freeze();
    let first_acquirer = |delivery_count| {
        let view = MessageView { delivery_count, ..view() };
        encode(&received(sent.clone(), view, None), DeliveryFormat::Link)
            .decode_header()
            .unwrap()
            .first_acquirer
    };
    assert_eq!([first_acquirer(0), first_acquirer(1)], [Some(true), Some(false)]);
}

#[test]
fn management_deliveries_carry_the_token_where_go_reads_it() {
    let view = MessageView { state: MessageState::Deferred, ..view() };
    let message = received(content(&[], &[]), view, Some(LOCK));
    let whole =
        Encoder::default().encode_whole(&message, DeliveryFormat::Management, Origin::default()).unwrap();
    let sections = Sections::split(&whole).unwrap();
    let delivery = Sections::decode_map(&sections.delivery_annotations).unwrap();
    assert_eq!(lookup(&delivery, "x-opt-lock-token"), Some(&Value::Uuid(0x0102_u128.to_be_bytes())));
    let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
    assert_eq!(lookup(&annotations, "x-opt-message-state"), Some(&Value::Int(1)));
}

#[test]
fn one_encoder_serves_many_messages() {
    let mut encoder = Encoder::default();
    let message = received(content(&[], &[]), view(), Some(LOCK));
    let first = encoder.encode(&message, DeliveryFormat::Link, Origin::default()).unwrap().concat();
    for _ in 0..1000 {
        assert_eq!(
            encoder.encode(&message, DeliveryFormat::Link, Origin::default()).unwrap().concat(),
            first
        );
    }
    let broken = received(Bytes::from_static(&[0x00, 0x53, 0x70, 0xc0, 200]), view(), None);
    assert!(encoder.encode(&broken, DeliveryFormat::Link, Origin::default()).is_err());
    assert_eq!(
        encoder.encode(&message, DeliveryFormat::Link, Origin::default()).unwrap().concat(),
        first,
        "nothing of a failure is left"
    );
}

mod changes;
mod shown;
