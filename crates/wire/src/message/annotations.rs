//! The sections that are maps.

use bytes::BytesMut;

use super::{Bytes, DecodeError, Reader, Sections, Value};
use crate::code::descriptor;
use crate::write;

impl Sections {
    /// Decodes message annotations or application properties as an ordered map.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_map(section: &Bytes) -> Result<Vec<(Value, Value)>, DecodeError> {
        if section.is_empty() {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(section);
        reader.descriptor()?;
        reader.entries()
    }
}

/// Looks up a key written as string or symbol.
#[must_use]
pub fn lookup<'map>(map: &'map [(Value, Value)], key: &str) -> Option<&'map Value> {
    map.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
}

/// Appends a message-annotations section; keys become symbols.
pub fn encode_message_annotations(entries: &[(Value, Value)], output: &mut BytesMut) {
    write::described_map(descriptor::MESSAGE_ANNOTATIONS, entries, output, symbol_key);
}

/// Appends a delivery-annotations section; keys become symbols.
pub fn encode_delivery_annotations(entries: &[(Value, Value)], output: &mut BytesMut) {
    write::described_map(descriptor::DELIVERY_ANNOTATIONS, entries, output, symbol_key);
}

/// Appends an application-properties section; keys are strings.
pub fn encode_application_properties(entries: &[(Value, Value)], output: &mut BytesMut) {
    write::described_map(descriptor::APPLICATION_PROPERTIES, entries, output, |key, output| match key {
        Value::Symbol(text) => write::string(text, output),
        _ => key.encode(output),
    });
}

fn symbol_key(key: &Value, output: &mut BytesMut) {
    match key {
        Value::String(text) => write::symbol(text, output),
        _ => key.encode(output),
    }
}
