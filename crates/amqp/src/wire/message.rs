//! Message sections (part 3.2): split once, never decode what only passes through.

use bytes::{Bytes, BytesMut};

use super::{DecodeError, Str, Value};

/// The header section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Header {
    pub durable: Option<bool>,
    pub priority: Option<u8>,
    pub ttl_ms: Option<u32>,
    pub first_acquirer: Option<bool>,
    pub delivery_count: Option<u32>,
}

/// The properties section.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)]
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
#[allow(missing_docs)]
pub struct Sections {
    pub header: Bytes,
    pub delivery_annotations: Bytes,
    pub message_annotations: Bytes,
    pub properties: Bytes,
    pub application_properties: Bytes,
    /// All body sections and the footer, untouched.
    pub body: Bytes,
}

#[allow(unused_variables)] // signatures only; the codec's author replaces the bodies
impl Sections {
    /// Finds the sections. Checks order, sizes and descriptors all the way to the end, and depth (an untrusted
    /// message must not hurt a later reader), but decodes nothing.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn split(message: &Bytes) -> Result<Self, DecodeError> {
        unimplemented!()
    }

    /// Finds the sections of a message that [`Self::split`] accepted before; as cheap as skipping.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn split_trusted(message: &Bytes) -> Result<Self, DecodeError> {
        unimplemented!()
    }

    /// Decodes the header; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_header(&self) -> Result<Header, DecodeError> {
        unimplemented!()
    }

    /// Decodes the properties; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_properties(&self) -> Result<MessageProperties, DecodeError> {
        unimplemented!()
    }

    /// Decodes message annotations or application properties as an ordered map.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_map(section: &Bytes) -> Result<Vec<(Value, Value)>, DecodeError> {
        unimplemented!()
    }

    /// The contents of each `data` section of a batch message (format 0x80013700): encoded messages.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is anything but data sections.
    pub fn batch_messages(&self) -> Result<Vec<Bytes>, DecodeError> {
        unimplemented!()
    }

    /// The value of an `amqp-value` body (management requests, tokens), `Null` when the body is empty.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is of another kind.
    pub fn body_value(&self) -> Result<Value, DecodeError> {
        unimplemented!()
    }
}

impl Header {
    /// Appends the section, all five fields written.
    pub fn encode(&self, output: &mut BytesMut) {
        let _ = output;
        unimplemented!()
    }
}

impl MessageProperties {
    /// Appends the section, all thirteen fields written.
    pub fn encode(&self, output: &mut BytesMut) {
        let _ = output;
        unimplemented!()
    }
}

/// Appends a message-annotations section; keys become symbols.
pub fn encode_message_annotations(entries: &[(Value, Value)], output: &mut BytesMut) {
    let _ = (entries, output);
    unimplemented!()
}

/// Appends a delivery-annotations section; keys become symbols.
pub fn encode_delivery_annotations(entries: &[(Value, Value)], output: &mut BytesMut) {
    let _ = (entries, output);
    unimplemented!()
}

/// Appends an application-properties section; keys are strings.
pub fn encode_application_properties(entries: &[(Value, Value)], output: &mut BytesMut) {
    let _ = (entries, output);
    unimplemented!()
}

/// Appends an `amqp-value` section.
pub fn encode_body_value(value: &Value, output: &mut BytesMut) {
    let _ = (value, output);
    unimplemented!()
}
