use bytes::BytesMut;
use proptest::prelude::*;

use super::*;
use peeklock_wire::message::{MessageProperties, encode_application_properties, encode_message_annotations};

#[test]
fn ids_of_every_type_become_text() {
    let text = |id: Value| id_text(&id).as_deref().map(str::to_owned);
    assert_eq!(text("a".into()).as_deref(), Some("a"));
    assert_eq!(text(Value::ULong(7)).as_deref(), Some("7"));
    let uuid = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff_u128.to_be_bytes();
    assert_eq!(text(Value::Uuid(uuid)).as_deref(), Some("00112233-4455-6677-8899-aabbccddeeff"));
    assert_eq!(text(Value::Binary(Bytes::from_static(b"b"))).as_deref(), Some("b"));
    assert_eq!(text(Value::Binary(Bytes::from_static(b"\xff\x00"))).as_deref(), Some("ff00"));
    assert_eq!(text(Value::Null), None);
}

#[test]
fn integers_lose_their_width_and_nothing_else() {
    let five = PropertyValue::Integer(5);
    for value in [
        Value::UByte(5),
        Value::UShort(5),
        Value::UInt(5),
        Value::ULong(5),
        Value::Byte(5),
        Value::Short(5),
        Value::Int(5),
        Value::Long(5),
    ] {
        assert_eq!(from_value(value), five);
    }
    assert_eq!(from_value(Value::ULong(u64::MAX)), PropertyValue::Unsigned(u64::MAX));
    assert_eq!(from_value(Value::Float(0.5)), PropertyValue::Double(0.5));
    assert_eq!(from_value(Value::symbol("s")), PropertyValue::Text("s".into()));
}

#[test]
fn values_with_a_type_of_their_own_in_net_are_compared_by_meaning() {
    let described = |kind, value| from_value(Value::described(Value::symbol(kind), value));
    assert_eq!(described("com.microsoft:timespan", Value::Long(-7)), PropertyValue::TimeSpan(-7));
    assert_eq!(described("com.microsoft:datetime-offset", Value::Long(7)), PropertyValue::DateTimeOffset(7));
    assert_eq!(described("com.microsoft:uri", "sb://x".into()), PropertyValue::Text("sb://x".into()));
    assert_eq!(from_value(Value::Char('ß')), PropertyValue::Text("ß".into()));
    let odd = Value::described(Value::symbol("com.microsoft:timespan"), "7".into());
    assert_eq!(from_value(odd.clone()), PropertyValue::Other(odd.to_bytes().as_ref().into()));
    assert_eq!(described("mine", Value::Long(7)), {
        let value = Value::described(Value::symbol("mine"), Value::Long(7));
        PropertyValue::Other(value.to_bytes().as_ref().into())
    });
}

#[test]
fn decimals_of_every_width_are_one_kind() {
    // 12.5 = 125 * 10^-1, with the biases 101, 398 and 6176.
    let wide = (6175_u128 << 113) | 125;
    assert_eq!(from_value(Value::Decimal128(wide.to_be_bytes())), PropertyValue::Decimal(wide));
    let narrow = (397_u64 << 53) | 125;
    assert_eq!(from_value(Value::Decimal64(narrow.to_be_bytes())), PropertyValue::Decimal(wide));
    let narrowest = (100_u32 << 23) | 125;
    assert_eq!(from_value(Value::Decimal32(narrowest.to_be_bytes())), PropertyValue::Decimal(wide));
}

#[test]
fn fields_are_read_where_the_sdks_write_them() {
    let properties = MessageProperties {
        message_id: Value::ULong(1),
        correlation_id: "c".into(),
        to: Some("to".into()),
        reply_to: Some("reply".into()),
        subject: Some("subject".into()),
        content_type: Some("type".into()),
        group_id: Some("".into()),
        reply_to_group_id: Some("back".into()),
        creation_time_ms: Some(5),
        group_sequence: Some(6),
        user_id: Some(Bytes::from_static(b"me")),
        ..MessageProperties::default()
    };
    let header = Header { durable: Some(true), priority: Some(7), ..Header::default() };
    let mut section = BytesMut::new();
    let entries = [("B".into(), Value::Int(1)), ("a".into(), Value::Null)];
    encode_application_properties(&entries, &mut section);
    let mut annotations = BytesMut::new();
    let keys = [
        (Value::symbol("x-opt-partition-key"), Value::String("p".into())),
        (Value::symbol("x-opt-via-partition-key"), Value::String("v".into())),
        (Value::symbol("x-opt-partition-key"), Value::String("the first counts".into())),
    ];
    encode_message_annotations(&keys, &mut annotations);
    let annotated = Annotated::read(&annotations.freeze()).unwrap();
    let mut output = BytesMut::new();
    properties.encode(&mut output);
    let sections = Sections { properties: output.freeze(), ..Sections::default() };
    let properties = sections.view_properties().unwrap();
    let rule_properties = read(&header, &properties, annotated, &section.freeze()).unwrap();
    let expected = RuleProperties {
        correlation_id: Some("c".into()),
        message_id: Some("1".into()),
        to: Some("to".into()),
        reply_to: Some("reply".into()),
        label: Some("subject".into()),
        session_id: Some("".into()),
        reply_to_session_id: Some("back".into()),
        content_type: Some("type".into()),
        user: vec![("B".into(), PropertyValue::Integer(1)), ("a".into(), PropertyValue::Null)],
        partition_key: Some("p".into()),
        via_partition_key: Some("v".into()),
        selectable: SelectableFields {
            is_durable: true,
            priority: Some(7),
            creation_time_ms: Some(5),
            group_sequence: Some(6),
            user_id: Some("me".into()),
        },
    };
    assert_eq!(rule_properties, expected);
    let (header, properties) = (Header::default(), PropertiesView::default());
    let nothing = read(&header, &properties, Annotated::default(), &Bytes::new()).unwrap();
    assert_eq!(nothing, RuleProperties::default());
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u64>().prop_map(Value::ULong),
        any::<i32>().prop_map(Value::Int),
        (-1e9..1e9).prop_map(Value::Double),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(Value::Timestamp),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<Vec<u8>>().prop_map(|bytes| Value::Binary(bytes.into())),
        "\\PC{0,20}".prop_map(|text| Value::String(text.into())),
        any::<i64>().prop_map(|ticks| {
            Value::described(Value::symbol("com.microsoft:timespan"), Value::Long(ticks))
        }),
        any::<i64>().prop_map(|ticks| {
            Value::described(Value::symbol("com.microsoft:datetime-offset"), Value::Long(ticks))
        }),
        "\\PC{0,20}".prop_map(|uri| {
            Value::described(Value::symbol("com.microsoft:uri"), Value::String(uri.into()))
        }),
    ]
}

proptest! {
    /// A value listed from a rule compares like the value given to the rule.
    #[test]
    fn values_survive_the_way_through_a_rule(value in leaf()) {
        let fact = from_value(value);
        prop_assert_eq!(from_value(to_value(&fact)), fact);
    }
}
