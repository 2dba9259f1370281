//! Properties of messages. Kinds of values were only ever added at the end, so the same structs read all versions.

use peeklock_rules::{
    CorrelationFilter, Given, PropertyChanges, PropertyValue, RuleProperties, TextProperty,
};
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Double(f64),
    Text(Box<str>),
    Timestamp(i64),
    Uuid(u128),
    Other(Box<[u8]>),
    TimeSpan(i64),
    DateTimeOffset(i64),
    Decimal(u128),
    Given(GivenValue),
}

#[derive(Deserialize)]
pub(super) enum GivenValue {
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    UByte(u8),
    UShort(u16),
    UInt(u32),
    ULong(u64),
    Float(f32),
    Char(char),
    Symbol(Box<str>),
    Uri(Box<str>),
    DateTime { at_ms: i64, text: Box<str> },
    Decimal32 { bits: u32, wide: u128 },
    Decimal64 { bits: u64, wide: u128 },
}

impl From<Value> for PropertyValue {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(truth) => Self::Boolean(truth),
            Value::Integer(number) => Self::Integer(number),
            Value::Unsigned(number) => Self::Unsigned(number),
            Value::Double(number) => Self::Double(number),
            Value::Text(text) => Self::Text(text),
            Value::Timestamp(at_ms) => Self::Timestamp(at_ms),
            Value::Uuid(bits) => Self::Uuid(bits),
            Value::Other(encoded) => Self::Other(encoded),
            Value::TimeSpan(ticks) => Self::TimeSpan(ticks),
            Value::DateTimeOffset(ticks) => Self::DateTimeOffset(ticks),
            Value::Decimal(bits) => Self::Decimal(bits),
            Value::Given(given) => Self::Given(Box::new(given.into())),
        }
    }
}

impl From<GivenValue> for Given {
    fn from(given: GivenValue) -> Self {
        match given {
            GivenValue::Byte(number) => Self::Byte(number),
            GivenValue::Short(number) => Self::Short(number),
            GivenValue::Int(number) => Self::Int(number),
            GivenValue::Long(number) => Self::Long(number),
            GivenValue::UByte(number) => Self::UByte(number),
            GivenValue::UShort(number) => Self::UShort(number),
            GivenValue::UInt(number) => Self::UInt(number),
            GivenValue::ULong(number) => Self::ULong(number),
            GivenValue::Float(number) => Self::Float(number),
            GivenValue::Char(character) => Self::Char(character),
            GivenValue::Symbol(text) => Self::Symbol(text),
            GivenValue::Uri(text) => Self::Uri(text),
            GivenValue::DateTime { at_ms, text } => Self::DateTime { at_ms, text },
            GivenValue::Decimal32 { bits, wide } => Self::Decimal32 { bits, wide },
            GivenValue::Decimal64 { bits, wide } => Self::Decimal64 { bits, wide },
        }
    }
}

/// Properties with their values.
pub(super) type Properties = Vec<(Box<str>, Value)>;

pub(super) fn properties(stored: Properties) -> Vec<(Box<str>, PropertyValue)> {
    stored.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// Properties for rules, from before partition keys were included; also those of a correlation filter.
#[derive(Deserialize)]
pub(super) struct Seen {
    correlation_id: Option<Box<str>>,
    message_id: Option<Box<str>>,
    to: Option<Box<str>>,
    reply_to: Option<Box<str>>,
    label: Option<Box<str>>,
    session_id: Option<Box<str>>,
    reply_to_session_id: Option<Box<str>>,
    content_type: Option<Box<str>>,
    user: Properties,
}

impl From<Seen> for RuleProperties {
    fn from(seen: Seen) -> Self {
        Self {
            correlation_id: seen.correlation_id,
            message_id: seen.message_id,
            to: seen.to,
            reply_to: seen.reply_to,
            label: seen.label,
            session_id: seen.session_id,
            reply_to_session_id: seen.reply_to_session_id,
            content_type: seen.content_type,
            user: properties(seen.user),
            ..Self::default()
        }
    }
}

#[allow(clippy::needless_update, reason = "a field that is added later has its default here")]
impl From<Seen> for CorrelationFilter {
    fn from(seen: Seen) -> Self {
        Self {
            correlation_id: seen.correlation_id,
            message_id: seen.message_id,
            to: seen.to,
            reply_to: seen.reply_to,
            label: seen.label,
            session_id: seen.session_id,
            reply_to_session_id: seen.reply_to_session_id,
            content_type: seen.content_type,
            user: properties(seen.user),
            ..Self::default()
        }
    }
}

/// Properties for rules.
#[derive(Deserialize)]
pub(super) struct SeenWithPartitionKeys {
    seen: Seen,
    partition_key: Option<Box<str>>,
    via_partition_key: Option<Box<str>>,
}

impl From<SeenWithPartitionKeys> for RuleProperties {
    fn from(SeenWithPartitionKeys { seen, partition_key, via_partition_key }: SeenWithPartitionKeys) -> Self {
        Self { partition_key, via_partition_key, ..seen.into() }
    }
}

#[derive(Deserialize)]
enum Text {
    ContentType,
    CorrelationId,
    Label,
    MessageId,
    PartitionKey,
    ReplyTo,
    ReplyToSessionId,
    SessionId,
    To,
}

impl From<Text> for TextProperty {
    fn from(text: Text) -> Self {
        match text {
            Text::ContentType => Self::ContentType,
            Text::CorrelationId => Self::CorrelationId,
            Text::Label => Self::Label,
            Text::MessageId => Self::MessageId,
            Text::PartitionKey => Self::PartitionKey,
            Text::ReplyTo => Self::ReplyTo,
            Text::ReplyToSessionId => Self::ReplyToSessionId,
            Text::SessionId => Self::SessionId,
            Text::To => Self::To,
        }
    }
}

/// Changes made by the action of a rule.
#[derive(Deserialize)]
pub(super) struct Changes {
    texts: Vec<(Text, Option<Box<str>>)>,
    scheduled_enqueue_time_ms: Option<Option<u64>>,
    time_to_live_ms: Option<Option<u64>>,
    user: Vec<(Box<str>, Option<Value>)>,
}

impl From<Changes> for PropertyChanges {
    fn from(changes: Changes) -> Self {
        let text = |(property, value): (Text, _)| (property.into(), value);
        let user = |(name, value): (_, Option<Value>)| (name, value.map(Into::into));
        Self {
            texts: changes.texts.into_iter().map(text).collect(),
            scheduled_enqueue_time_ms: changes.scheduled_enqueue_time_ms,
            time_to_live_ms: changes.time_to_live_ms,
            user: changes.user.into_iter().map(user).collect(),
        }
    }
}
