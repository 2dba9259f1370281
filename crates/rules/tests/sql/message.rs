//! The message used by all tables.

use peeklock_rules::{Arrival, Failure, PropertyValue, RuleProperties, SqlFilter, Subject};

/// 2026-11-22T10:00:00.123Z.
const AT_MS: i64 = 1_795_341_600_123;
/// The same time in ticks since the year 1.
const AT_TICKS: i64 = AT_MS * 10_000 + 621_355_968_000_000_000;
const ID: u128 = 0x550e_8400_e29b_41d4_a716_4466_5544_0000;
/// 12.5 in Python's encoding.
const DECIMAL: u128 = 0x303e_0000_0000_0000_0000_0000_0000_007d;

/// The sent properties.
pub(crate) fn rule_properties() -> RuleProperties {
    let text = |text: &str| PropertyValue::Text(text.into());
    let user = [
        ("color", text("blue")),
        ("Shade", text("Blue")),
        ("empty", text("")),
        ("percent", text("100%")),
        ("under", text("a_b")),
        ("accent", text("Grün")),
        ("seven", text("7")),
        ("key", text("COLOR")),
        ("syskey", text("SYS.label")),
        ("pattern", text("bl%")),
        ("mark", text("!")),
        ("long", text(&"x".repeat(20_000))),
        ("quantity", PropertyValue::Integer(5)),
        ("big", PropertyValue::Integer(i64::MAX)),
        ("small", PropertyValue::Integer(i64::MIN)),
        ("zero", PropertyValue::Integer(0)),
        ("huge", PropertyValue::Unsigned(u64::MAX)),
        ("edge", PropertyValue::Unsigned(1 << 63)),
        ("price", PropertyValue::Double(2.5)),
        ("five", PropertyValue::Double(5.0)),
        ("nan", PropertyValue::Double(f64::NAN)),
        ("infinity", PropertyValue::Double(f64::INFINITY)),
        ("decimal", PropertyValue::Decimal(DECIMAL)),
        ("yes", PropertyValue::Boolean(true)),
        ("no", PropertyValue::Boolean(false)),
        ("nothing", PropertyValue::Null),
        ("at", PropertyValue::Timestamp(AT_MS)),
        ("offset", PropertyValue::DateTimeOffset(AT_TICKS)),
        ("later", PropertyValue::DateTimeOffset(AT_TICKS + 1)),
        ("span", PropertyValue::TimeSpan(900_000_000)),
        ("hour", PropertyValue::TimeSpan(36_000_000_000)),
        ("id", PropertyValue::Uuid(ID)),
        ("nextid", PropertyValue::Uuid(ID + 1)),
        ("binary", PropertyValue::Other([0xA0, 1, 7].into())),
        ("sameBinary", PropertyValue::Other([0xA0, 1, 7].into())),
        ("otherBinary", PropertyValue::Other([0xA0, 1, 8].into())),
        ("Property With Space", text("spaced")),
        ("HR-EmployeeID", PropertyValue::Integer(12)),
        ("Contoso & Northwind", text("merged")),
        ("a]b", text("bracket")),
        ("a\"b", text("quote")),
        ("Größe", text("XL")),
        ("and", text("reserved")),
        ("user", text("scope")),
        ("sys", text("scope")),
    ];
    RuleProperties {
        correlation_id: Some("order-1".into()),
        message_id: Some("message-1".into()),
        to: Some("Store5".into()),
        reply_to: Some("answers".into()),
        label: Some("the bus stops".into()),
        session_id: Some("session-1".into()),
        reply_to_session_id: None,
        content_type: Some("application/json".into()),
        user: user.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        partition_key: Some("session-1".into()),
        via_partition_key: Some("via".into()),
        ..RuleProperties::default()
    }
}

/// The message when it is published.
pub(crate) fn subject(rule_properties: &RuleProperties) -> Subject<'_> {
    let arrival = Arrival {
        sequence_number: 42,
        enqueued_sequence_number: 7,
        enqueued_at_ms: AT_MS as u64,
        time_to_live_ms: Some(90_000),
        scheduled_enqueue_time_ms: Some(AT_MS as u64 - 123),
        size_bytes: 1024,
        dead_letter_source: Some("orders"),
    };
    Subject { rule_properties, arrival }
}

/// The values of `@text`, `@number`, `@null`, `@truth`, `@at` and the durations.
pub(crate) fn parameters() -> Vec<(Box<str>, PropertyValue)> {
    let parameters = [
        ("@text", PropertyValue::Text("blue".into())),
        ("number", PropertyValue::Integer(5)),
        ("@null", PropertyValue::Null),
        ("@truth", PropertyValue::Boolean(true)),
        ("@at", PropertyValue::Timestamp(AT_MS)),
        ("@none", PropertyValue::TimeSpan(0)),
        ("@minute", PropertyValue::TimeSpan(600_000_000)),
        ("@ages", PropertyValue::TimeSpan(i64::MAX)),
    ];
    parameters.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

/// The result of a filter for this message.
pub(crate) fn ask(expression: &str) -> Result<Option<bool>, Failure> {
    let filter = SqlFilter::new(expression, parameters());
    let filter = filter.unwrap_or_else(|error| panic!("{expression}: {error}"));
    let rule_properties = rule_properties();
    let mut drawn = 0;
    filter.truth(&subject(&rule_properties), &mut || {
        drawn += 1;
        drawn
    })
}
