//! Body sections.

use bytes::BytesMut;

use super::{Bytes, DecodeError, Reader, Sections, Value};
use crate::code::descriptor;
use crate::write;

impl Sections {
    /// The contents of each `data` section of a batch message (format 0x80013700): encoded messages, slices of it.
    ///
    /// # Errors
    /// [`DecodeError`] when the body is anything but data sections (a footer is ignored, and annotations behind it).
    pub fn batch_messages(&self) -> Result<Vec<Bytes>, DecodeError> {
        let mut messages = Vec::new();
        let mut reader = Reader::new(&self.body);
        while !reader.is_empty() {
            match reader.descriptor()? {
                Some(descriptor::DATA) => messages.push(reader.binary()?),
                Some(descriptor::FOOTER | descriptor::DELIVERY_ANNOTATIONS) => reader.skip()?,
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
                Some(descriptor::FOOTER | descriptor::DELIVERY_ANNOTATIONS) => reader.skip()?,
                _ => return Err(DecodeError::new("a body that is not an amqp-value")),
            }
        }
        Ok(Value::Null)
    }
}

/// A body, decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The bytes of all data sections; no body at all is one without bytes.
    Data(Bytes),
    /// The elements of all sequence sections.
    Sequence(Vec<Value>),
    /// One value.
    Value(Value),
}

impl Sections {
    /// Decodes the body of a message; a footer is ignored.
    ///
    /// # Errors
    /// [`DecodeError`], also when there are more than [`Value::ELEMENTS_MAX`] elements in all sections.
    pub fn decode_body(&self) -> Result<Body, DecodeError> {
        // Of many short sections no list is made, which would be much larger than the body.
        let (mut data, mut further) = (Bytes::new(), BytesMut::new());
        let mut sequence = Vec::new();
        let mut reader = Reader::new(&self.body);
        while !reader.is_empty() {
            match reader.descriptor()? {
                Some(descriptor::DATA) if data.is_empty() => data = reader.binary()?,
                Some(descriptor::DATA) => further.extend_from_slice(&reader.binary()?),
                Some(descriptor::AMQP_SEQUENCE) => match reader.further_value()? {
                    Value::List(elements) => sequence.extend(elements),
                    _ => return Err(DecodeError::new("a sequence that is not a list")),
                },
                Some(descriptor::AMQP_VALUE) => return reader.value().map(Body::Value),
                Some(descriptor::FOOTER | descriptor::DELIVERY_ANNOTATIONS) => reader.skip()?,
                _ => return Err(DecodeError::new("a section that is no body")),
            }
        }
        if !sequence.is_empty() {
            return Ok(Body::Sequence(sequence));
        }
        Ok(Body::Data(if further.is_empty() { data } else { [data, further.freeze()].concat().into() }))
    }
}

/// Appends a data section.
pub fn encode_body_data(data: &[u8], output: &mut BytesMut) {
    write::described(descriptor::DATA, output);
    write::binary(data, output);
}

/// Appends an `amqp-value` section.
pub fn encode_body_value(value: &Value, output: &mut BytesMut) {
    write::described(descriptor::AMQP_VALUE, output);
    value.encode(output);
}
