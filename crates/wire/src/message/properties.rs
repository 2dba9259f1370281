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
        let mut header = Header::default();
        if let Some(mut list) = open(descriptor::HEADER, &self.header)? {
            header.read(&mut list)?;
        }
        Ok(header)
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
    /// Reads the fields of a header that is empty so far.
    #[inline]
    pub(super) fn read(&mut self, list: &mut ListReader<'_>) -> Result<(), DecodeError> {
        if list.ends_with_nulls() { Ok(()) } else { self.read_fields(list) }
    }

    fn read_fields(&mut self, list: &mut ListReader<'_>) -> Result<(), DecodeError> {
        self.durable = list.boolean()?;
        self.priority = list.optional(Reader::u8)?;
        self.ttl_ms = list.uint()?;
        self.first_acquirer = list.boolean()?;
        self.delivery_count = list.uint()?;
        Ok(())
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
