//! The data of a message that rules can access: decoded once by the front end, and only for topics.

use crate::{Given, TextProperty, names};

/// The properties of a message that filters can name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuleProperties {
    /// `correlation-id`, as text.
    pub correlation_id: Option<Box<str>>,
    /// `message-id`, as text.
    pub message_id: Option<Box<str>>,
    /// `to`.
    pub to: Option<Box<str>>,
    /// `reply-to`.
    pub reply_to: Option<Box<str>>,
    /// `subject`, once called label.
    pub label: Option<Box<str>>,
    /// `group-id`.
    pub session_id: Option<Box<str>>,
    /// `reply-to-group-id`.
    pub reply_to_session_id: Option<Box<str>>,
    /// `content-type`.
    pub content_type: Option<Box<str>>,
    /// Application properties in the order sent; names match case-insensitively.
    pub user: Vec<(Box<str>, PropertyValue)>,
    /// `x-opt-partition-key`.
    pub partition_key: Option<Box<str>>,
    /// `x-opt-via-partition-key`.
    pub via_partition_key: Option<Box<str>>,
    /// Further properties that selectors can name.
    pub selectable: SelectableFields,
}

/// Fields of a message that JMS selectors can name and SQL rules cannot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SelectableFields {
    /// `durable` of the header.
    pub is_durable: bool,
    /// `priority` of the header.
    pub priority: Option<u8>,
    /// `creation-time`, in milliseconds since 1970.
    pub creation_time_ms: Option<i64>,
    /// `group-sequence`.
    pub group_sequence: Option<u32>,
    /// `user-id`, if it is a text.
    pub user_id: Option<Box<str>>,
}

impl RuleProperties {
    /// The application property of this name, case-insensitively, with the spelling in the message. If several differ
    /// only in case, the first one.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<(&str, &PropertyValue)> {
        let found = self.user.iter().find(|(known, _)| names::same(known, name));
        found.map(|(name, value)| (&**name, value))
    }

    /// A text system property that actions may set.
    #[must_use]
    pub fn text(&self, property: TextProperty) -> Option<&str> {
        match property {
            TextProperty::ContentType => self.content_type.as_deref(),
            TextProperty::CorrelationId => self.correlation_id.as_deref(),
            TextProperty::Label => self.label.as_deref(),
            TextProperty::MessageId => self.message_id.as_deref(),
            TextProperty::PartitionKey => self.partition_key.as_deref(),
            TextProperty::ReplyTo => self.reply_to.as_deref(),
            TextProperty::ReplyToSessionId => self.reply_to_session_id.as_deref(),
            TextProperty::SessionId => self.session_id.as_deref(),
            TextProperty::To => self.to.as_deref(),
        }
    }

    /// A text system property that actions may set.
    pub fn text_mut(&mut self, property: TextProperty) -> &mut Option<Box<str>> {
        match property {
            TextProperty::ContentType => &mut self.content_type,
            TextProperty::CorrelationId => &mut self.correlation_id,
            TextProperty::Label => &mut self.label,
            TextProperty::MessageId => &mut self.message_id,
            TextProperty::PartitionKey => &mut self.partition_key,
            TextProperty::ReplyTo => &mut self.reply_to,
            TextProperty::ReplyToSessionId => &mut self.reply_to_session_id,
            TextProperty::SessionId => &mut self.session_id,
            TextProperty::To => &mut self.to,
        }
    }
}

/// A value that filters can compare.
#[derive(Debug, Clone, PartialEq)]
pub enum PropertyValue {
    /// A null value of an existing property.
    Null,
    /// A truth value.
    Boolean(bool),
    /// Any integer that fits 64 signed bits, regardless of its original width.
    Integer(i64),
    /// A larger unsigned integer.
    Unsigned(u64),
    /// A float or double.
    Double(f64),
    /// A string or symbol.
    Text(Box<str>),
    /// A timestamp, in milliseconds since 1970.
    Timestamp(i64),
    /// A UUID.
    Uuid(u128),
    /// A value of another type, in its AMQP encoding: equal when the bytes are.
    Other(Box<[u8]>),
    /// A duration, in ticks of 100 ns (`com.microsoft:timespan`).
    TimeSpan(i64),
    /// A time sent with an offset, in ticks of 100 ns since the year 1 (`com.microsoft:datetime-offset`).
    DateTimeOffset(i64),
    /// A decimal of 128 bits in its AMQP encoding.
    Decimal(u128),
    /// A rule's value in its given form; messages have none of these.
    Given(Box<Given>),
}

impl PropertyValue {
    /// The value for comparison.
    #[must_use]
    pub fn plain(&self) -> Self {
        match self {
            Self::Given(given) => given.plain(),
            value => value.clone(),
        }
    }

    /// Whether two values are equal for a filter: numbers by value, regardless of their type. JS writes all numbers in
    /// filters as doubles, but integers in messages as integers.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (value, Self::Given(given)) | (Self::Given(given), value) => given.equals(value),
            (Self::Integer(integer), Self::Double(double))
            | (Self::Double(double), Self::Integer(integer)) => is_integer(*double, (*integer).into()),
            (Self::Unsigned(integer), Self::Double(double))
            | (Self::Double(double), Self::Unsigned(integer)) => is_integer(*double, (*integer).into()),
            _ => self == other,
        }
    }
}

/// Exact; casting the integer to a double would round it.
fn is_integer(double: f64, integer: i128) -> bool {
    double.fract() == 0.0 && double as i128 == integer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value() {
        let (integer, double) = (PropertyValue::Integer, PropertyValue::Double);
        assert!(integer(5).equals(&double(5.0)) && double(5.0).equals(&integer(5)));
        assert!(integer(0).equals(&double(-0.0)) && double(0.5).equals(&double(0.5)));
        assert!(!integer(5).equals(&double(5.5)) && !integer(0).equals(&double(f64::NAN)));
        assert!(!integer(i64::MAX).equals(&double(i64::MAX as f64)), "a double can't be that number");
        assert!(PropertyValue::Unsigned(1 << 63).equals(&double(9_223_372_036_854_775_808.0)));
        assert!(!integer(5).equals(&PropertyValue::Text("5".into())));
        assert!(!integer(i64::MAX).equals(&double(f64::INFINITY)));
    }
}
