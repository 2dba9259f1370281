//! Header and properties sections.

use bytes::BytesMut;

use super::{Bytes, DecodeError, Header, MessageProperties, Reader, Sections};
use crate::code::descriptor;
use crate::read::ListReader;
use crate::{Value, write};

impl Sections {
    /// Decodes the header; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_header(&self) -> Result<Header, DecodeError> {
        let Some(mut list) = open(descriptor::HEADER, &self.header)? else {
            return Ok(Header::default());
        };
        Ok(Header {
            durable: list.optional(Reader::boolean)?,
            priority: list.optional(Reader::u8)?,
            ttl_ms: list.optional(Reader::u32)?,
            first_acquirer: list.optional(Reader::boolean)?,
            delivery_count: list.optional(Reader::u32)?,
        })
    }

    /// Decodes the properties; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_properties(&self) -> Result<MessageProperties, DecodeError> {
        let Some(mut list) = open(descriptor::PROPERTIES, &self.properties)? else {
            return Ok(MessageProperties::default());
        };
        Ok(MessageProperties {
            message_id: list.or_default(Reader::value)?,
            user_id: list.optional(Reader::binary)?,
            to: list.optional(Reader::text)?.map(Into::into),
            subject: list.optional(Reader::text)?.map(Into::into),
            reply_to: list.optional(Reader::text)?.map(Into::into),
            correlation_id: list.or_default(Reader::value)?,
            content_type: list.optional(Reader::text)?.map(Into::into),
            content_encoding: list.optional(Reader::text)?.map(Into::into),
            absolute_expiry_time_ms: list.optional(Reader::i64)?,
            creation_time_ms: list.optional(Reader::i64)?,
            group_id: list.optional(Reader::text)?.map(Into::into),
            group_sequence: list.optional(Reader::u32)?,
            reply_to_group_id: list.optional(Reader::text)?.map(Into::into),
        })
    }
}

/// The fields of a section that is there.
fn open(code: u8, section: &Bytes) -> Result<Option<ListReader<'_>>, DecodeError> {
    if section.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::new(section);
    reader.expect_descriptor(code)?;
    reader.list().map(Some)
}

impl Header {
    /// Appends the section, all five fields written.
    pub fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::HEADER, 5, output, |output| {
            write::optional(self.durable, write::boolean, output);
            write::optional(self.priority, write::ubyte, output);
            write::optional(self.ttl_ms, write::uint, output);
            write::optional(self.first_acquirer, write::boolean, output);
            write::optional(self.delivery_count, write::uint, output);
        });
    }
}

impl MessageProperties {
    /// Appends the section, all thirteen fields written.
    pub fn encode(&self, output: &mut BytesMut) {
        write::composite(descriptor::PROPERTIES, 13, output, |output| {
            Value::encode(&self.message_id, output);
            write::optional(self.user_id.as_deref(), write::binary, output);
            write::optional(self.to.as_deref(), write::string, output);
            write::optional(self.subject.as_deref(), write::string, output);
            write::optional(self.reply_to.as_deref(), write::string, output);
            Value::encode(&self.correlation_id, output);
            write::optional(self.content_type.as_deref(), write::symbol, output);
            write::optional(self.content_encoding.as_deref(), write::symbol, output);
            write::optional(self.absolute_expiry_time_ms, write::timestamp, output);
            write::optional(self.creation_time_ms, write::timestamp, output);
            write::optional(self.group_id.as_deref(), write::string, output);
            write::optional(self.group_sequence, write::uint, output);
            write::optional(self.reply_to_group_id.as_deref(), write::string, output);
        });
    }
}
