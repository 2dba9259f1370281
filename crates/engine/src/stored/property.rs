//! Properties of messages, for the rules, and as changed by rules and receivers.

use peeklock_rules::{Given, PropertyChanges, PropertyValue, RuleProperties, TextProperty};

use super::frame::{bits_128, numbered, required};
use super::selectable::StoredSelectable;

/// A value. Every kind has its own tag.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredValue {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(bool, tag = "1")]
    Null(bool),
    #[prost(bool, tag = "2")]
    Boolean(bool),
    #[prost(sint64, tag = "3")]
    Integer(i64),
    #[prost(uint64, tag = "4")]
    Unsigned(u64),
    #[prost(double, tag = "5")]
    Double(f64),
    #[prost(string, tag = "6")]
    Text(String),
    #[prost(sint64, tag = "7")]
    TimestampMs(i64),
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "8")]
    Uuid(Vec<u8>),
    #[prost(bytes = "vec", tag = "9")]
    Other(Vec<u8>),
    /// Ticks of 100 ns.
    #[prost(sint64, tag = "10")]
    TimeSpan(i64),
    /// Ticks of 100 ns since the year 1.
    #[prost(sint64, tag = "11")]
    DateTimeOffset(i64),
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "12")]
    Decimal(Vec<u8>),
    #[prost(message, tag = "13")]
    Given(StoredGiven),
}

/// A value of a rule in its original type.
#[derive(Clone, PartialEq, prost::Message)]
struct StoredGiven {
    #[prost(oneof = "GivenKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15")]
    kind: Option<GivenKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum GivenKind {
    #[prost(sint32, tag = "1")]
    Byte(i32),
    #[prost(sint32, tag = "2")]
    Short(i32),
    #[prost(sint32, tag = "3")]
    Int(i32),
    #[prost(sint64, tag = "4")]
    Long(i64),
    #[prost(uint32, tag = "5")]
    UByte(u32),
    #[prost(uint32, tag = "6")]
    UShort(u32),
    #[prost(uint32, tag = "7")]
    UInt(u32),
    #[prost(uint64, tag = "8")]
    ULong(u64),
    #[prost(float, tag = "9")]
    Float(f32),
    /// A Unicode scalar value.
    #[prost(uint32, tag = "10")]
    Char(u32),
    #[prost(string, tag = "11")]
    Symbol(String),
    #[prost(string, tag = "12")]
    Uri(String),
    #[prost(message, tag = "13")]
    DateTime(StoredDateTime),
    #[prost(message, tag = "14")]
    Decimal32(StoredDecimal),
    #[prost(message, tag = "15")]
    Decimal64(StoredDecimal),
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredDateTime {
    #[prost(sint64, tag = "1")]
    at_ms: i64,
    #[prost(string, tag = "2")]
    text: String,
}

/// A decimal in its original width, and the same number in 128 bits (16 bytes).
#[derive(Clone, PartialEq, prost::Message)]
struct StoredDecimal {
    #[prost(fixed64, tag = "1")]
    bits: u64,
    #[prost(bytes = "vec", tag = "2")]
    wide: Vec<u8>,
}

impl From<&PropertyValue> for StoredValue {
    fn from(value: &PropertyValue) -> Self {
        let kind = match value {
            PropertyValue::Null => Kind::Null(true),
            PropertyValue::Boolean(truth) => Kind::Boolean(*truth),
            PropertyValue::Integer(number) => Kind::Integer(*number),
            PropertyValue::Unsigned(number) => Kind::Unsigned(*number),
            PropertyValue::Double(number) => Kind::Double(*number),
            PropertyValue::Text(text) => Kind::Text(text.to_string()),
            PropertyValue::Timestamp(at_ms) => Kind::TimestampMs(*at_ms),
            PropertyValue::Uuid(bits) => Kind::Uuid(bits.to_be_bytes().to_vec()),
            PropertyValue::Other(encoded) => Kind::Other(encoded.to_vec()),
            PropertyValue::TimeSpan(ticks) => Kind::TimeSpan(*ticks),
            PropertyValue::DateTimeOffset(ticks) => Kind::DateTimeOffset(*ticks),
            PropertyValue::Decimal(bits) => Kind::Decimal(bits.to_be_bytes().to_vec()),
            PropertyValue::Given(given) => Kind::Given((&**given).into()),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<StoredValue> for PropertyValue {
    type Error = String;

    fn try_from(StoredValue { kind }: StoredValue) -> Result<Self, String> {
        Ok(match required(kind, "value of a kind that this version knows")? {
            Kind::Null(_) => Self::Null,
            Kind::Boolean(truth) => Self::Boolean(truth),
            Kind::Integer(number) => Self::Integer(number),
            Kind::Unsigned(number) => Self::Unsigned(number),
            Kind::Double(number) => Self::Double(number),
            Kind::Text(text) => Self::Text(text.into()),
            Kind::TimestampMs(at_ms) => Self::Timestamp(at_ms),
            Kind::Uuid(bytes) => Self::Uuid(bits_128(&bytes)?),
            Kind::Other(encoded) => Self::Other(encoded.into()),
            Kind::TimeSpan(ticks) => Self::TimeSpan(ticks),
            Kind::DateTimeOffset(ticks) => Self::DateTimeOffset(ticks),
            Kind::Decimal(bytes) => Self::Decimal(bits_128(&bytes)?),
            Kind::Given(given) => Self::Given(Box::new(given.try_into()?)),
        })
    }
}

impl From<&Given> for StoredGiven {
    fn from(given: &Given) -> Self {
        let decimal = |bits, wide: &u128| StoredDecimal { bits, wide: wide.to_be_bytes().to_vec() };
        let kind = match given {
            Given::Byte(number) => GivenKind::Byte((*number).into()),
            Given::Short(number) => GivenKind::Short((*number).into()),
            Given::Int(number) => GivenKind::Int(*number),
            Given::Long(number) => GivenKind::Long(*number),
            Given::UByte(number) => GivenKind::UByte((*number).into()),
            Given::UShort(number) => GivenKind::UShort((*number).into()),
            Given::UInt(number) => GivenKind::UInt(*number),
            Given::ULong(number) => GivenKind::ULong(*number),
            Given::Float(number) => GivenKind::Float(*number),
            Given::Char(character) => GivenKind::Char((*character).into()),
            Given::Symbol(text) => GivenKind::Symbol(text.to_string()),
            Given::Uri(text) => GivenKind::Uri(text.to_string()),
            Given::DateTime { at_ms, text } => {
                GivenKind::DateTime(StoredDateTime { at_ms: *at_ms, text: text.to_string() })
            }
            Given::Decimal32 { bits, wide } => GivenKind::Decimal32(decimal((*bits).into(), wide)),
            Given::Decimal64 { bits, wide } => GivenKind::Decimal64(decimal(*bits, wide)),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<StoredGiven> for Given {
    type Error = String;

    fn try_from(StoredGiven { kind }: StoredGiven) -> Result<Self, String> {
        Ok(match required(kind, "given value of a kind that this version knows")? {
            GivenKind::Byte(number) => Self::Byte(narrow(number)?),
            GivenKind::Short(number) => Self::Short(narrow(number)?),
            GivenKind::Int(number) => Self::Int(number),
            GivenKind::Long(number) => Self::Long(number),
            GivenKind::UByte(number) => Self::UByte(narrow(number)?),
            GivenKind::UShort(number) => Self::UShort(narrow(number)?),
            GivenKind::UInt(number) => Self::UInt(number),
            GivenKind::ULong(number) => Self::ULong(number),
            GivenKind::Float(number) => Self::Float(number),
            GivenKind::Char(number) => Self::Char(narrow(number)?),
            GivenKind::Symbol(text) => Self::Symbol(text.into()),
            GivenKind::Uri(text) => Self::Uri(text.into()),
            GivenKind::DateTime(StoredDateTime { at_ms, text }) => {
                Self::DateTime { at_ms, text: text.into() }
            }
            GivenKind::Decimal32(StoredDecimal { bits, wide }) => {
                Self::Decimal32 { bits: narrow(bits)?, wide: bits_128(&wide)? }
            }
            GivenKind::Decimal64(StoredDecimal { bits, wide }) => {
                Self::Decimal64 { bits, wide: bits_128(&wide)? }
            }
        })
    }
}

/// Converts a number to its original type, which has fewer bits.
fn narrow<T: Copy + std::fmt::Display, U: TryFrom<T>>(number: T) -> Result<U, String> {
    U::try_from(number).map_err(|_| format!("{number} is out of the range of its type"))
}

/// A property with its value.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredProperty {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<StoredValue>,
}

/// Converts properties to their stored form.
pub(super) fn stored_properties(properties: &[(Box<str>, PropertyValue)]) -> Vec<StoredProperty> {
    let stored = |(name, value): &(Box<str>, PropertyValue)| StoredProperty {
        name: name.to_string(),
        value: Some(value.into()),
    };
    properties.iter().map(stored).collect()
}

/// Converts properties from their stored form.
pub(super) fn properties(stored: Vec<StoredProperty>) -> Result<Vec<(Box<str>, PropertyValue)>, String> {
    let property = |StoredProperty { name, value }| {
        let value: StoredValue =
            required(value, "value").map_err(|reason| format!("property '{name}': {reason}"))?;
        let value = value.try_into().map_err(|reason| format!("property '{name}': {reason}"))?;
        Ok((name.into(), value))
    };
    stored.into_iter().map(property).collect()
}

/// The properties of a message that rules evaluate.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredRuleProperties {
    #[prost(string, optional, tag = "1")]
    correlation_id: Option<String>,
    #[prost(string, optional, tag = "2")]
    message_id: Option<String>,
    #[prost(string, optional, tag = "3")]
    to: Option<String>,
    #[prost(string, optional, tag = "4")]
    reply_to: Option<String>,
    #[prost(string, optional, tag = "5")]
    label: Option<String>,
    #[prost(string, optional, tag = "6")]
    session_id: Option<String>,
    #[prost(string, optional, tag = "7")]
    reply_to_session_id: Option<String>,
    #[prost(string, optional, tag = "8")]
    content_type: Option<String>,
    #[prost(string, optional, tag = "9")]
    partition_key: Option<String>,
    #[prost(string, optional, tag = "10")]
    via_partition_key: Option<String>,
    #[prost(message, repeated, tag = "11")]
    user: Vec<StoredProperty>,
    #[prost(message, optional, tag = "12")]
    selectable: Option<StoredSelectable>,
}

impl From<&RuleProperties> for StoredRuleProperties {
    fn from(seen: &RuleProperties) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            correlation_id: text(&seen.correlation_id),
            message_id: text(&seen.message_id),
            to: text(&seen.to),
            reply_to: text(&seen.reply_to),
            label: text(&seen.label),
            session_id: text(&seen.session_id),
            reply_to_session_id: text(&seen.reply_to_session_id),
            content_type: text(&seen.content_type),
            partition_key: text(&seen.partition_key),
            via_partition_key: text(&seen.via_partition_key),
            user: stored_properties(&seen.user),
            selectable: StoredSelectable::of(&seen.selectable),
        }
    }
}

impl TryFrom<StoredRuleProperties> for RuleProperties {
    type Error = String;

    fn try_from(stored: StoredRuleProperties) -> Result<Self, String> {
        let text = |text: Option<String>| text.map(Into::into);
        Ok(Self {
            correlation_id: text(stored.correlation_id),
            message_id: text(stored.message_id),
            to: text(stored.to),
            reply_to: text(stored.reply_to),
            label: text(stored.label),
            session_id: text(stored.session_id),
            reply_to_session_id: text(stored.reply_to_session_id),
            content_type: text(stored.content_type),
            partition_key: text(stored.partition_key),
            via_partition_key: text(stored.via_partition_key),
            user: properties(stored.user)?,
            selectable: stored.selectable.map(Into::into).unwrap_or_default(),
        })
    }
}

/// Changes made by the action of a rule.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredChanges {
    #[prost(message, repeated, tag = "1")]
    texts: Vec<ChangedText>,
    #[prost(message, optional, tag = "2")]
    scheduled_enqueue_time_ms: Option<ChangedNumber>,
    #[prost(message, optional, tag = "3")]
    time_to_live_ms: Option<ChangedNumber>,
    /// Without a value: the property was removed.
    #[prost(message, repeated, tag = "4")]
    user: Vec<StoredProperty>,
}

/// A textual system property: set, or removed.
#[derive(Clone, PartialEq, prost::Message)]
struct ChangedText {
    #[prost(uint32, tag = "1")]
    property: u32,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

/// A numeric system property: set, or removed.
#[derive(Clone, PartialEq, prost::Message)]
struct ChangedNumber {
    #[prost(uint64, optional, tag = "1")]
    value: Option<u64>,
}

numbered!(TextProperty, text_property_number, text_property_from_number, "system property":
    0 ContentType, 1 CorrelationId, 2 Label, 3 MessageId, 4 PartitionKey, 5 ReplyTo, 6 ReplyToSessionId, 7 SessionId, 8 To);

impl From<&PropertyChanges> for StoredChanges {
    fn from(changes: &PropertyChanges) -> Self {
        let number = |change: Option<Option<u64>>| change.map(|value| ChangedNumber { value });
        let text = |(property, value): &(TextProperty, Option<Box<str>>)| ChangedText {
            property: text_property_number(*property),
            value: value.as_deref().map(str::to_owned),
        };
        let user = |(name, value): &(Box<str>, Option<PropertyValue>)| StoredProperty {
            name: name.to_string(),
            value: value.as_ref().map(Into::into),
        };
        Self {
            texts: changes.texts.iter().map(text).collect(),
            scheduled_enqueue_time_ms: number(changes.scheduled_enqueue_time_ms),
            time_to_live_ms: number(changes.time_to_live_ms),
            user: changes.user.iter().map(user).collect(),
        }
    }
}

impl TryFrom<StoredChanges> for PropertyChanges {
    type Error = String;

    fn try_from(stored: StoredChanges) -> Result<Self, String> {
        let number = |change: Option<ChangedNumber>| change.map(|change| change.value);
        let text = |ChangedText { property, value }| {
            Ok::<_, String>((text_property_from_number(property)?, value.map(Into::into)))
        };
        let user = |StoredProperty { name, value }| {
            let value = value.map(PropertyValue::try_from).transpose();
            Ok((name.clone().into(), value.map_err(|reason| format!("property '{name}': {reason}"))?))
        };
        Ok(Self {
            texts: stored.texts.into_iter().map(text).collect::<Result<_, _>>()?,
            scheduled_enqueue_time_ms: number(stored.scheduled_enqueue_time_ms),
            time_to_live_ms: number(stored.time_to_live_ms),
            user: stored.user.into_iter().map(user).collect::<Result<_, String>>()?,
        })
    }
}
