//! What rules see of a message: decoded once by the front end, and only for topics.

use serde::{Deserialize, Serialize};

/// The properties of a message that filters can name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Facts {
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
    pub user: Vec<(Box<str>, FactValue)>,
}

/// A value that filters can compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FactValue {
    /// Present and null.
    Null,
    /// A truth value.
    Boolean(bool),
    /// Any integer that fits 64 signed bits, whatever its width was.
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
    /// Anything else, by its AMQP encoding: equal when the bytes are.
    Other(Box<[u8]>),
}
