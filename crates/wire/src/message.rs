//! Message sections (part 3.2): split once, and only decoded where needed.

mod annotations;
mod body;
mod entries;
mod properties;
mod split;
mod summary;
mod view;

use bytes::Bytes;

use super::read::Reader;
use super::{DecodeError, Str, Value};

pub use annotations::{
    encode_application_properties, encode_delivery_annotations, encode_message_annotations, lookup,
};
pub use body::{Body, encode_body_data, encode_body_value};
pub use entries::{MapEntries, MapEntry, MapSection};
pub use split::Places;
pub use summary::{Summary, header_and_places};
pub use view::{IdView, PropertiesView};

/// The header section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each field is the specification's of that name
pub struct Header {
    pub durable: Option<bool>,
    pub priority: Option<u8>,
    pub ttl_ms: Option<u32>,
    pub first_acquirer: Option<bool>,
    pub delivery_count: Option<u32>,
}

/// The properties section.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each field is the specification's of that name
pub struct MessageProperties {
    pub message_id: Value,
    pub user_id: Option<Bytes>,
    pub to: Option<Str>,
    pub subject: Option<Str>,
    pub reply_to: Option<Str>,
    pub correlation_id: Value,
    pub content_type: Option<Str>,
    pub content_encoding: Option<Str>,
    pub absolute_expiry_time_ms: Option<i64>,
    pub creation_time_ms: Option<i64>,
    pub group_id: Option<Str>,
    pub group_sequence: Option<u32>,
    pub reply_to_group_id: Option<Str>,
}

/// The encoded sections of a message, each a slice of it with its descriptor, empty when absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each field is the specification's of that name
pub struct Sections {
    pub header: Bytes,
    pub delivery_annotations: Bytes,
    pub message_annotations: Bytes,
    pub properties: Bytes,
    pub application_properties: Bytes,
    /// All body sections and the footer, unchanged.
    pub body: Bytes,
    /// The footer, which is a part of `body` too.
    pub footer: Bytes,
}
