//! Changes by rule actions, as receivers see them.

use peeklock_engine::{Forwarded, PropertyValue, RuleProperties};
use proptest::prelude::*;

use super::*;
use crate::rule_properties;

fn changed(changes: PropertyChanges) -> MessageView {
    MessageView { changes: Some(Arc::new(changes)), ..view() }
}

fn texts(texts: &[(TextProperty, Option<&str>)]) -> PropertyChanges {
    let texts = texts.iter().map(|(property, value)| (*property, value.map(Into::into)));
    PropertyChanges { texts: texts.collect(), ..PropertyChanges::default() }
}

fn user(user: &[(&str, Option<PropertyValue>)]) -> PropertyChanges {
    let user = user.iter().map(|(name, value)| ((*name).into(), value.clone()));
    PropertyChanges { user: user.collect(), ..PropertyChanges::default() }
}

fn properties_of(content: Bytes, changes: PropertyChanges) -> Vec<(Value, Value)> {
    let sections = encode(&received(content, changed(changes), None), DeliveryFormat::Link);
    Sections::decode_map(&sections.application_properties).unwrap()
}

#[test]
fn a_copy_with_a_rule_s_name_is_these_bytes() {
    let sent = content(&[], &[("a".into(), Value::Int(1))]);
    let changes = PropertyChanges {
        texts: vec![(TextProperty::Label, Some("urgent".into()))],
        ..user(&[("RuleName", Some(PropertyValue::Text("r".into())))])
    };
    let message = received(sent.clone(), changed(changes), None);
    let slices = Encoder::default().encode(&message, DeliveryFormat::Link, Origin::default()).unwrap();
    let fresh: [&[u8]; 5] = [
        b"\x00\x53\x70\xc0\x07\x05\x41\x50\x07\x40\x40\x43",
        b"\x00\x53\x71\xc1\x01\x00",
        b"\x00\x53\x72\xc1\x38\x04\
            \xa3\x13x-opt-enqueued-time\x83\x00\x00\x00\x00\x00\x00\x03\xe8\
            \xa3\x15x-opt-sequence-number\x55\x05",
        b"\x00\x53\x73\xc0\x16\x0d\x53\x09\x40\x40\xa1\x06urgent\x40\x40\x40\x40\x40\x40\x40\x40\x40",
        b"\x00\x53\x74\xc1\x13\x04\xa1\x01a\x54\x01\xa1\x08RuleName\xa1\x01r",
    ];
    assert_eq!(slices[0].escape_ascii().to_string(), fresh.concat().escape_ascii().to_string());
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[1].as_ptr_range().end, sent.as_ptr_range().end, "the body is not copied");
}

#[test]
fn every_system_text_is_set_and_removed_where_it_was() {
    let all = [
        TextProperty::ContentType,
        TextProperty::CorrelationId,
        TextProperty::Label,
        TextProperty::MessageId,
        TextProperty::ReplyTo,
        TextProperty::ReplyToSessionId,
        TextProperty::SessionId,
        TextProperty::To,
    ];
    let sent = MessageProperties {
        message_id: Value::ULong(9),
        user_id: Some(Bytes::from_static(b"u")),
        correlation_id: Value::Uuid([7; 16]),
        group_sequence: Some(3),
        ..MessageProperties::default()
    };
    let mut content = BytesMut::new();
    sent.encode(&mut content);
    encode_body_value(&Value::Null, &mut content);
    let content = content.freeze();
    let shown = |changes| {
        let sections = encode(&received(content.clone(), changed(changes), None), DeliveryFormat::Link);
        sections.decode_properties().unwrap()
    };
    let expected = MessageProperties {
        message_id: "x".into(),
        to: Some("x".into()),
        subject: Some("x".into()),
        reply_to: Some("x".into()),
        correlation_id: "x".into(),
        content_type: Some("x".into()),
        group_id: Some("x".into()),
        reply_to_group_id: Some("x".into()),
        ..sent.clone()
    };
    assert_eq!(shown(texts(&all.map(|property| (property, Some("x"))))), expected);
    let removed = MessageProperties { message_id: Value::Null, correlation_id: Value::Null, ..sent };
    assert_eq!(shown(texts(&all.map(|property| (property, None)))), removed);
}

#[test]
fn s13_changed_properties_show_the_instant_of_expiry_too() {
    let limited = MessageView {
        expires_at: Timestamp(3000),
        time_to_live_ms: Some(2000),
        ..changed(texts(&[(TextProperty::To, Some("x"))]))
    };
    let sections = encode(&received(content(&[], &[]), limited, None), DeliveryFormat::Link);
    let properties = sections.decode_properties().unwrap();
    assert_eq!((properties.to.as_deref(), properties.absolute_expiry_time_ms), (Some("x"), Some(3000)));
    assert_eq!(sections.decode_header().unwrap().ttl_ms, Some(2000));
}

#[test]
fn partition_key_and_schedule_are_annotations() {
    let sent = [
        (Value::symbol("x-opt-partition-key"), Value::String("sent".into())),
        (Value::symbol("mine"), Value::UByte(3)),
        (Value::symbol("x-opt-scheduled-enqueue-time"), Value::Timestamp(12)),
    ];
    let shown = |changes: PropertyChanges| {
        let sections = encode(&received(content(&sent, &[]), changed(changes), None), DeliveryFormat::Link);
        assert_eq!(sections.properties, Sections::split(&content(&sent, &[])).unwrap().properties);
        let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
        let of = |key| lookup(&annotations, key).cloned();
        (of("x-opt-partition-key"), of("x-opt-scheduled-enqueue-time"), of("mine"))
    };
    let mine = Some(Value::UByte(3));
    let set = PropertyChanges {
        scheduled_enqueue_time_ms: Some(Some(99)),
        ..texts(&[(TextProperty::PartitionKey, Some("set"))])
    };
    assert_eq!(shown(set), (Some("set".into()), Some(Value::Timestamp(99)), mine.clone()));
    let removed = PropertyChanges {
        scheduled_enqueue_time_ms: Some(None),
        ..texts(&[(TextProperty::PartitionKey, None)])
    };
    assert_eq!(shown(removed), (None, None, mine));
}

#[test]
fn the_session_s_partition_key_is_that_of_the_changed_session() {
    let shown = |annotations: &[(Value, Value)], changes| {
        let message = received(content(annotations, &[]), changed(changes), None);
        let origin = Origin { sessions: true, copies: true, partitioned: false };
        let whole = Encoder::default().encode_whole(&message, DeliveryFormat::Management, origin).unwrap();
        let sections = Sections::split(&whole).unwrap();
        let annotations = Sections::decode_map(&sections.message_annotations).unwrap();
        lookup(&annotations, "x-opt-partition-key").cloned()
    };
    let session = texts(&[(TextProperty::SessionId, Some("s"))]);
    assert_eq!(shown(&[], session.clone()), Some("s".into()));
    assert_eq!(shown(&[], texts(&[(TextProperty::SessionId, None)])), None);
    let sent = [(Value::symbol("x-opt-partition-key"), Value::String("sent".into()))];
    assert_eq!(shown(&sent, session.clone()), Some("sent".into()), "unchanged properties stay");
    let key = texts(&[(TextProperty::SessionId, Some("s")), (TextProperty::PartitionKey, Some("k"))]);
    assert_eq!(shown(&sent, key), Some("k".into()));
    let none = texts(&[(TextProperty::SessionId, Some("s")), (TextProperty::PartitionKey, None)]);
    assert_eq!(shown(&sent, none), Some("s".into()));
}

#[test]
fn numbers_keep_the_width_that_was_sent_if_they_fit() {
    let sent = [
        ("int".into(), Value::Int(1)),
        ("short".into(), Value::Short(1)),
        ("ubyte".into(), Value::UByte(1)),
        ("ulong".into(), Value::ULong(1)),
        ("float".into(), Value::Float(1.0)),
        ("text".into(), "1".into()),
        ("symbol".into(), Value::symbol("1")),
    ];
    let set = |value: PropertyValue| {
        let changes: Vec<_> = ["int", "short", "ubyte", "ulong", "float", "text", "symbol", "new"]
            .map(|name| (name, Some(value.clone())))
            .to_vec();
        let shown = properties_of(content(&[], &sent), user(&changes));
        shown.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(
        set(PropertyValue::Integer(7)),
        [
            Value::Int(7),
            Value::Short(7),
            Value::UByte(7),
            Value::ULong(7),
            Value::Long(7),
            Value::Long(7),
            Value::Long(7),
            Value::Long(7),
        ]
    );
    assert_eq!(
        set(PropertyValue::Integer(-70_000))[..5],
        [
            Value::Int(-70_000),
            Value::Long(-70_000),
            Value::Long(-70_000),
            Value::Long(-70_000),
            Value::Long(-70_000)
        ]
    );
    assert_eq!(set(PropertyValue::Double(0.5))[4], Value::Float(0.5));
    assert_eq!(set(PropertyValue::Double(0.1))[4], Value::Double(0.1), "no float is that number");
    assert_eq!(set(PropertyValue::Text("t".into()))[6], Value::String("t".into()));
}

#[test]
fn each_layer_lies_over_the_one_below() {
    let encoded = |value: Value| value.to_bytes();
    let modified = vec![
        Property { name: "both".into(), value: encoded(Value::Int(2)) },
        Property { name: "removed".into(), value: encoded(Value::Int(3)) },
    ];
    let why = DeadLetter { reason: Some("because".into()), description: None };
    let changes = user(&[
        ("both", Some(PropertyValue::Integer(1))),
        ("removed", None),
        ("gone", None),
        ("DeadLetterReason", Some(PropertyValue::Text("an action's".into()))),
        ("mine", Some(PropertyValue::Null)),
    ]);
    let view = MessageView {
        modified: Some(Arc::new(modified)),
        dead_letter: Some(Arc::new(why)),
        forwarded: Some(Arc::new(Forwarded {
            enqueued_sequence_number: SequenceNumber(3),
            hops: 1,
            dead_letter_source: None,
        })),
        ..changed(changes)
    };
    let sent = [("gone".into(), Value::Int(1)), ("kept".into(), Value::Int(1))];
    let sections = encode(&received(content(&[], &sent), view, None), DeliveryFormat::Management);
    assert_eq!(
        Sections::decode_map(&sections.application_properties).unwrap(),
        [
            ("kept".into(), Value::Int(1)),
            ("both".into(), Value::Int(2)),
            ("removed".into(), Value::Int(3)),
            ("DeadLetterReason".into(), "because".into()),
            ("mine".into(), Value::Null),
        ]
    );
}

#[test]
fn a_changed_property_keeps_its_place_and_occurs_once() {
    let sent = ["a", "b", "a", "A"].map(|name| (name.into(), Value::Int(1)));
    let shown = properties_of(content(&[], &sent), user(&[("a", Some(PropertyValue::Integer(2)))]));
    let expected = [("a".into(), Value::Int(2)), ("b".into(), Value::Int(1)), ("A".into(), Value::Int(1))];
    assert_eq!(shown, expected);
    let shown = properties_of(content(&[], &sent), user(&[("a", None)]));
    assert_eq!(shown, [("b".into(), Value::Int(1)), ("A".into(), Value::Int(1))]);
}

/// Enough to be looked up in a table: counts on both sides of the threshold.
#[test]
fn many_changes_overlay_the_sent_message_as_few_do() {
    for count in [31, 32, 33, 5_000_i64] {
        let name = |number: i64| format!("p{number}");
        let sent: Vec<(Value, Value)> =
            (0..count).map(|number| (name(number).as_str().into(), Value::Long(number))).collect();
        let modified =
            |number: i64| Property { name: name(number).into(), value: Value::Long(-number).to_bytes() };
        let changes =
            (0..count).map(|number| (name(number).into(), Some(PropertyValue::Integer(1)))).collect();
        let view = MessageView {
            modified: Some(Arc::new((0..=count).rev().step_by(2).map(modified).collect())),
            ..changed(PropertyChanges { user: changes, ..PropertyChanges::default() })
        };
        let sections = encode(&received(content(&[], &sent), view, None), DeliveryFormat::Management);
        let shown = |number: i64| (count - number) % 2 == 0;
        let expected: Vec<(Value, Value)> = (0..=count)
            .filter(|number| *number < count || shown(*number))
            .map(|number| {
                (name(number).as_str().into(), Value::Long(if shown(number) { -number } else { 1 }))
            })
            .collect();
        assert_eq!(Sections::decode_map(&sections.application_properties).unwrap(), expected, "{count}");
    }
}

fn fact() -> impl Strategy<Value = PropertyValue> {
    sent_value().prop_map(rule_properties::from_value)
}

fn sent_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i16>().prop_map(Value::Short),
        any::<u64>().prop_map(Value::ULong),
        any::<u8>().prop_map(Value::UByte),
        any::<i64>().prop_map(Value::Long),
        (-1e9_f32..1e9).prop_map(Value::Float),
        (-1e9..1e9).prop_map(Value::Double),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<Vec<u8>>().prop_map(|bytes| Value::Binary(bytes.into())),
        "[a-z]{0,9}".prop_map(|text| Value::String(text.into())),
        any::<i64>().prop_map(|ticks| {
            Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(ticks))
        }),
    ]
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
    let text = (property, prop::option::of("[a-z]{0,5}"));
    let named = ("[abAB]", prop::option::of(fact()));
    (prop::collection::vec(text, 0..6), prop::collection::vec(named, 0..4)).prop_map(|(texts, users)| {
        let mut changes = PropertyChanges::default();
        texts.into_iter().for_each(|(property, text)| changes.set_text(property, text.map(Into::into)));
        users.into_iter().for_each(|(name, value)| changes.set_user(&name, value));
        changes
    })
}

/// The properties that rules would see of a message that is sent again as it was received.
fn rule_properties_of(whole: Bytes) -> RuleProperties {
    let sections = Sections::split(&whole).unwrap();
    rule_properties::of_sections(&sections).unwrap()
}

/// With decimals in the service's encoding, which represent the same numbers.
fn with_service_decimals(mut rule_properties: RuleProperties) -> RuleProperties {
    for (_, value) in &mut rule_properties.user {
        if let Ok(Some(written)) = crate::decimal::as_service(&rule_properties::to_value(value)) {
            *value = rule_properties::from_value(written);
        }
    }
    rule_properties
}

proptest! {
    /// Receivers see what rules of the next topic see, and the same effect of an action's changes.
    #[test]
    fn a_delivered_message_has_the_properties_that_rules_see(
        sent in prop::collection::hash_map("[abcAB]", sent_value(), 0..5),
        key in prop::option::of("[a-z]{0,3}"),
        changes in changes(),
        modified in prop::collection::btree_map("[abcAB]", sent_value(), 0..3),
        reason in prop::option::of("[a-z]{0,5}"),
    ) {
        let annotations: Vec<_> = key.map(|key| (Value::symbol("x-opt-partition-key"), Value::String(key.into()))).into_iter().collect();
        let sent: Vec<_> = sent.into_iter().map(|(name, value)| (Value::String(name.into()), value)).collect();
        let content = content(&annotations, &sent);

        let view = changed(changes.clone());
        let whole = |view| Encoder::default().encode_whole(&received(content.clone(), view, None), DeliveryFormat::Management, Origin::default()).unwrap();
        let delivered = rule_properties_of(whole(view.clone()));
        let mut applied = rule_properties_of(content.clone());
        changes.apply(&mut applied);
        prop_assert_eq!(with_service_decimals(delivered), with_service_decimals(applied.clone()));
        prop_assert_eq!(rule_properties::read_rule_properties(&content, &view).unwrap(), applied);

        let modified = modified.into_iter().map(|(name, value)| Property { name: name.into(), value: value.to_bytes() }).collect::<Vec<_>>();
        let why = reason.map(|reason| Arc::new(DeadLetter { reason: Some(reason.into()), description: Some("d".into()) }));
        let view = MessageView { modified: (!modified.is_empty()).then(|| Arc::new(modified)), dead_letter: why, ..view };
        // A property that an action removed and a receiver set again may be in either place.
        let sorted = |rule_properties: RuleProperties| {
            let mut rule_properties = with_service_decimals(rule_properties);
            rule_properties.user.sort_by(|(one, _), (other, _)| one.cmp(other));
            rule_properties
        };
        let told = rule_properties::read_rule_properties(&content, &view).unwrap();
        prop_assert_eq!(sorted(rule_properties_of(whole(view))), sorted(told));
    }
}
