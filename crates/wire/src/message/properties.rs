//! Header and properties sections.

use bytes::BytesMut;

use super::{Bytes, DecodeError, Header, MessageProperties, PropertiesView, Reader, Sections};
use crate::code::descriptor;
use crate::read::ListReader;
use crate::write;

impl Sections {
    /// Decodes the header; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_header(&self) -> Result<Header, DecodeError> {
        match open(descriptor::HEADER, &self.header)? {
            Some(mut list) => Header::read(&mut list),
            None => Ok(Header::default()),
        }
    }

    /// Decodes the properties; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode_properties(&self) -> Result<MessageProperties, DecodeError> {
        self.view_properties()?.to_owned(&self.properties)
    }

    /// The properties, borrowed; defaults when absent.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn view_properties(&self) -> Result<PropertiesView<'_>, DecodeError> {
        let mut properties = PropertiesView::default();
        if let Some(mut list) = open(descriptor::PROPERTIES, &self.properties)? {
            properties.read(&mut list)?;
        }
        Ok(properties)
    }
}

/// The fields of a section, if it is present.
fn open(code: u8, section: &Bytes) -> Result<Option<ListReader<'_>>, DecodeError> {
    if section.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::new(section);
    reader.expect_descriptor(code)?;
    reader.list().map(Some)
}

impl Header {
    pub(super) fn read(list: &mut ListReader<'_>) -> Result<Self, DecodeError> {
        if list.ends_with_nulls() {
            return Ok(Self::default());
        }
        Ok(Self {
            durable: list.optional(Reader::boolean)?,
            priority: list.optional(Reader::u8)?,
            ttl_ms: list.optional(Reader::u32)?,
            first_acquirer: list.optional(Reader::boolean)?,
            delivery_count: list.optional(Reader::u32)?,
        })
    }

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
        PropertiesView::of(self).encode_with(
            |output| self.message_id.encode(output),
            |output| self.correlation_id.encode(output),
            output,
        );
    }
}
