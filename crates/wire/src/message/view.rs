//! The properties section, borrowed: most messages are only passed on, so nothing is copied.

use bytes::{BufMut, Bytes, BytesMut};

use super::{DecodeError, MessageProperties, Reader};
use crate::code::{descriptor, format};
use crate::read::ListReader;
use crate::{Value, write};

type Result<T> = std::result::Result<T, DecodeError>;

/// Fields of the properties section.
const PROPERTIES_FIELDS: u8 = 13;

/// A message id or correlation id (parts 3.2.11 to 3.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each variant is the specification's type of that name
pub enum IdView<'a> {
    /// Null or omitted.
    #[default]
    Absent,
    ULong(u64),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
    String(&'a str),
    /// An encoded value of a type that is not allowed for ids.
    Other(&'a [u8]),
}

/// The properties section, borrowed from a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each field is the specification's of that name
pub struct PropertiesView<'a> {
    pub message_id: IdView<'a>,
    pub user_id: Option<&'a [u8]>,
    pub to: Option<&'a str>,
    pub subject: Option<&'a str>,
    pub reply_to: Option<&'a str>,
    pub correlation_id: IdView<'a>,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    pub absolute_expiry_time_ms: Option<i64>,
    pub creation_time_ms: Option<i64>,
    pub group_id: Option<&'a str>,
    pub group_sequence: Option<u32>,
    pub reply_to_group_id: Option<&'a str>,
}

impl<'a> IdView<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        match reader.peek() {
            Some(format::ULONG_0 | format::SMALL_ULONG | format::ULONG) => reader.u64().map(Self::ULong),
            Some(format::UUID) => reader.byte().and_then(|_| reader.fixed()).map(Self::Uuid),
            Some(format::BINARY_8 | format::BINARY_32) => reader.binary_view().map(Self::Binary),
            Some(format::STRING_8 | format::STRING_32) => reader.text().map(Self::String),
            _ => reader.skipped().map(Self::Other),
        }
    }

    fn to_value(self, source: &Bytes) -> Result<Value> {
        Ok(match self {
            Self::Absent => Value::Null,
            Self::ULong(number) => Value::ULong(number),
            Self::Uuid(bytes) => Value::Uuid(bytes),
            Self::Binary(bytes) => Value::Binary(source.slice_ref(bytes)),
            Self::String(text) => Value::String(text.into()),
            Self::Other(encoded) => Value::decode(&mut source.slice_ref(encoded))?,
        })
    }

    fn encode(self, output: &mut BytesMut) {
        match self {
            Self::Absent => write::null(output),
            Self::ULong(number) => write::ulong(number, output),
            Self::Uuid(bytes) => write::wide(format::UUID, bytes, output),
            Self::Binary(bytes) => write::binary(bytes, output),
            Self::String(text) => write::string(text, output),
            Self::Other(encoded) => output.put_slice(encoded),
        }
    }
}

impl<'a> PropertiesView<'a> {
    /// Reads the fields in place, because the struct is expensive to move.
    pub(super) fn read(&mut self, list: &mut ListReader<'a>) -> Result<()> {
        self.message_id = list.or_default(IdView::read)?;
        if list.ends_with_nulls() {
            return Ok(());
        }
        self.user_id = list.optional(Reader::binary_view)?;
        self.to = list.optional(Reader::text)?;
        self.subject = list.optional(Reader::text)?;
        self.reply_to = list.optional(Reader::text)?;
        self.correlation_id = list.or_default(IdView::read)?;
        if list.ends_with_nulls() {
            return Ok(());
        }
        self.content_type = list.optional(Reader::text)?;
        self.content_encoding = list.optional(Reader::text)?;
        self.absolute_expiry_time_ms = list.optional(Reader::i64)?;
        self.creation_time_ms = list.optional(Reader::i64)?;
        self.group_id = list.optional(Reader::text)?;
        self.group_sequence = list.optional(Reader::u32)?;
        self.reply_to_group_id = list.optional(Reader::text)?;
        Ok(())
    }

    /// A copy; binaries are slices of `source`, from which the properties were read.
    pub(super) fn to_owned(self, source: &Bytes) -> Result<MessageProperties> {
        Ok(MessageProperties {
            message_id: self.message_id.to_value(source)?,
            user_id: self.user_id.map(|id| source.slice_ref(id)),
            to: self.to.map(Into::into),
            subject: self.subject.map(Into::into),
            reply_to: self.reply_to.map(Into::into),
            correlation_id: self.correlation_id.to_value(source)?,
            content_type: self.content_type.map(Into::into),
            content_encoding: self.content_encoding.map(Into::into),
            absolute_expiry_time_ms: self.absolute_expiry_time_ms,
            creation_time_ms: self.creation_time_ms,
            group_id: self.group_id.map(Into::into),
            group_sequence: self.group_sequence,
            reply_to_group_id: self.reply_to_group_id.map(Into::into),
        })
    }

    /// All fields except the ids.
    pub(super) fn of(properties: &'a MessageProperties) -> Self {
        Self {
            message_id: IdView::Absent,
            user_id: properties.user_id.as_deref(),
            to: properties.to.as_deref(),
            subject: properties.subject.as_deref(),
            reply_to: properties.reply_to.as_deref(),
            correlation_id: IdView::Absent,
            content_type: properties.content_type.as_deref(),
            content_encoding: properties.content_encoding.as_deref(),
            absolute_expiry_time_ms: properties.absolute_expiry_time_ms,
            creation_time_ms: properties.creation_time_ms,
            group_id: properties.group_id.as_deref(),
            group_sequence: properties.group_sequence,
            reply_to_group_id: properties.reply_to_group_id.as_deref(),
        }
    }

    /// Appends the section, all thirteen fields written.
    pub fn encode(&self, output: &mut BytesMut) {
        let (message_id, correlation_id) = (self.message_id, self.correlation_id);
        self.encode_with(|output| message_id.encode(output), |output| correlation_id.encode(output), output);
    }

    /// [`Self::encode`] with other writers of the ids.
    pub(super) fn encode_with(
        &self,
        message_id: impl FnOnce(&mut BytesMut),
        correlation_id: impl FnOnce(&mut BytesMut),
        output: &mut BytesMut,
    ) {
        write::composite(descriptor::PROPERTIES, PROPERTIES_FIELDS, output, |output| {
            message_id(output);
            write::optional(self.user_id, write::binary, output);
            write::optional(self.to, write::string, output);
            write::optional(self.subject, write::string, output);
            write::optional(self.reply_to, write::string, output);
            correlation_id(output);
            write::optional(self.content_type, write::symbol, output);
            write::optional(self.content_encoding, write::symbol, output);
            write::optional(self.absolute_expiry_time_ms, write::timestamp, output);
            write::optional(self.creation_time_ms, write::timestamp, output);
            write::optional(self.group_id, write::string, output);
            write::optional(self.group_sequence, write::uint, output);
            write::optional(self.reply_to_group_id, write::string, output);
        });
    }
}
