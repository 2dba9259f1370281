//! Body sections.

use bytes::BytesMut;

use super::{Bytes, DecodeError, Reader, Sections, Value};
use crate::code::descriptor;
use crate::write;

impl Sections {
    /// The contents of each `data` section of a batch message (format 0x80013700): encoded messages, slices of it.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is anything but data sections (a footer is ignored).
    pub fn batch_messages(&self) -> Result<Vec<Bytes>, DecodeError> {
        let mut messages = Vec::new();
        let mut reader = Reader::new(&self.body);
        while !reader.is_empty() {
            match reader.descriptor()? {
                Some(descriptor::DATA) => messages.push(reader.binary()?),
                Some(descriptor::FOOTER) => reader.skip()?,
                _ => return Err(DecodeError::new("a batch whose body is not made of data sections")),
            }
        }
        Ok(messages)
    }

    /// The value of an `amqp-value` body (management requests, tokens), `Null` when there is no body.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is of another kind (a footer is ignored).
    pub fn body_value(&self) -> Result<Value, DecodeError> {
        let mut reader = Reader::new(&self.body);
        while !reader.is_empty() {
            match reader.descriptor()? {
                Some(descriptor::AMQP_VALUE) => return reader.value(),
                Some(descriptor::FOOTER) => reader.skip()?,
                _ => return Err(DecodeError::new("a body that is not an amqp-value")),
            }
        }
        Ok(Value::Null)
    }
}

/// Appends an `amqp-value` section.
pub fn encode_body_value(value: &Value, output: &mut BytesMut) {
    write::described(descriptor::AMQP_VALUE, output);
    value.encode(output);
}
