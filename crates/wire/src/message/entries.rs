//! Map sections entry by entry, without building values: for entries that a broker copies from one message to the next.

use bytes::BytesMut;

use super::{Bytes, DecodeError, Reader, Sections, Value};
use crate::code::{descriptor, format};
use crate::read::unexpected;
use crate::write;

impl Sections {
    /// The entries of message annotations or application properties in order, values still encoded.
    ///
    /// # Errors
    /// [`DecodeError`], here or from the iterator.
    pub fn map_entries(section: &Bytes) -> Result<MapEntries<'_>, DecodeError> {
        let mut reader = Reader::new(section);
        if section.is_empty() {
            return Ok(MapEntries { reader, entries_left: 0 });
        }
        reader.descriptor()?;
        match reader.byte()? {
            code @ (format::MAP_8 | format::MAP_32) => {
                let (reader, count) = reader.compound(code)?;
                Ok(MapEntries { reader, entries_left: count / 2 })
            }
            code => Err(unexpected("a map", code)),
        }
    }
}

/// Iterates over a map section; see [`Sections::map_entries`].
#[derive(Debug, Clone)]
pub struct MapEntries<'a> {
    reader: Reader<'a>,
    entries_left: u32,
}

/// An entry of a map section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapEntry<'a> {
    /// The key's text; `None` for a key that is neither string nor symbol.
    pub key: Option<&'a str>,
    /// The key as encoded.
    pub encoded_key: &'a [u8],
    /// The value as encoded.
    pub encoded_value: &'a [u8],
}

impl MapEntry<'_> {
    fn has_symbol_key(&self) -> bool {
        matches!(self.encoded_key.first(), Some(&(format::SYMBOL_8 | format::SYMBOL_32)))
    }
}

impl<'a> Iterator for MapEntries<'a> {
    type Item = Result<MapEntry<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries_left = self.entries_left.checked_sub(1)?;
        let entry = self.entry();
        if entry.is_err() {
            self.entries_left = 0;
        }
        Some(entry)
    }
}

impl<'a> MapEntries<'a> {
    /// Upper bound of the remaining entries, limited by the remaining bytes.
    #[must_use]
    pub fn entries_left(&self) -> usize {
        // A key and a value have at least one byte each.
        usize::try_from(self.entries_left).unwrap_or(usize::MAX).min(self.reader.remaining() / 2)
    }

    /// The entries with text keys, their values decoded; binaries are slices of the section.
    pub fn values(mut self) -> impl Iterator<Item = Result<(&'a str, Value), DecodeError>> {
        std::iter::from_fn(move || {
            loop {
                self.entries_left = self.entries_left.checked_sub(1)?;
                let read = self.text_entry();
                if read.is_err() {
                    self.entries_left = 0;
                }
                if let Some(entry) = read.transpose() {
                    return Some(entry);
                }
            }
        })
    }

    fn is_at_text(&self) -> bool {
        matches!(
            self.reader.peek(),
            Some(format::STRING_8 | format::SYMBOL_8 | format::STRING_32 | format::SYMBOL_32)
        )
    }

    /// An entry with a text key; `None` for any other, which is skipped.
    fn text_entry(&mut self) -> Result<Option<(&'a str, Value)>, DecodeError> {
        if self.is_at_text() {
            return Ok(Some((self.reader.text()?, self.reader.value()?)));
        }
        self.reader.skip().and_then(|()| self.reader.skip()).map(|()| None)
    }

    fn entry(&mut self) -> Result<MapEntry<'a>, DecodeError> {
        let key = if self.is_at_text() { Some(self.reader.clone().text()?) } else { None };
        Ok(MapEntry { key, encoded_key: self.reader.skipped()?, encoded_value: self.reader.skipped()? })
    }
}

/// Writes a map section entry by entry; [`Self::finish`] completes it.
#[derive(Debug)]
#[must_use = "the section is incomplete before `finish`"]
pub struct MapSection<'a> {
    output: &'a mut BytesMut,
    start: usize,
    count: usize,
    symbol_keys: bool,
}

impl<'a> MapSection<'a> {
    /// Begins a message-annotations section; keys are written as symbols.
    pub fn message_annotations(output: &'a mut BytesMut) -> Self {
        Self::begin(descriptor::MESSAGE_ANNOTATIONS, true, output)
    }

    /// Begins a delivery-annotations section; keys are written as symbols.
    pub fn delivery_annotations(output: &'a mut BytesMut) -> Self {
        Self::begin(descriptor::DELIVERY_ANNOTATIONS, true, output)
    }

    /// Begins an application-properties section; keys are written as strings.
    pub fn application_properties(output: &'a mut BytesMut) -> Self {
        Self::begin(descriptor::APPLICATION_PROPERTIES, false, output)
    }

    /// Begins a section that is a map; keys are written as symbols or as strings.
    pub(super) fn begin(descriptor: u8, symbol_keys: bool, output: &'a mut BytesMut) -> Self {
        let start = write::open_described(descriptor, output);
        Self { output, start, count: 0, symbol_keys }
    }

    #[inline]
    fn key(&mut self, key: &str) -> &mut BytesMut {
        self.count += 2;
        if self.symbol_keys {
            write::symbol(key, self.output);
        } else {
            write::string(key, self.output);
        }
        self.output
    }

    /// Adds a long (`x-opt-sequence-number`).
    #[inline]
    pub fn long(&mut self, key: &str, number: i64) {
        write::long(number, self.key(key));
    }

    /// Adds an int (`x-opt-message-state`).
    pub fn int(&mut self, key: &str, number: i32) {
        write::int(number, self.key(key));
    }

    /// Adds a uuid (`x-opt-lock-token`), in the order of RFC 4122.
    #[inline]
    pub fn uuid(&mut self, key: &str, uuid: [u8; 16]) {
        write::wide(format::UUID, uuid, self.key(key));
    }

    /// Adds a timestamp (`x-opt-enqueued-time`), in milliseconds since the Unix epoch.
    #[inline]
    pub fn timestamp(&mut self, key: &str, timestamp_ms: i64) {
        write::timestamp(timestamp_ms, self.key(key));
    }

    /// Adds a string.
    pub fn string(&mut self, key: &str, text: &str) {
        write::string(text, self.key(key));
    }

    /// Adds an arbitrary value.
    pub fn value(&mut self, key: &str, value: &Value) {
        value.encode(self.key(key));
    }

    /// Adds an encoded value: one complete value, as returned by [`Value::to_bytes`].
    pub fn encoded(&mut self, key: &str, encoded_value: &[u8]) {
        self.key(key).extend_from_slice(encoded_value);
    }

    /// Adds an entry of another section unchanged, except for the type of its key: Java expects symbols as keys of
    /// annotations and footers, strings as keys of application properties.
    pub fn entry(&mut self, entry: MapEntry<'_>) {
        self.entry_key(entry);
        self.output.extend_from_slice(entry.encoded_value);
    }

    /// Adds an entry of another section with another value.
    pub(super) fn entry_with(&mut self, entry: MapEntry<'_>, value: &Value) {
        self.entry_key(entry);
        value.encode(self.output);
    }

    fn entry_key(&mut self, entry: MapEntry<'_>) {
        match entry.key {
            Some(key) if entry.has_symbol_key() != self.symbol_keys => {
                self.key(key);
            }
            _ => {
                self.count += 2;
                self.output.extend_from_slice(entry.encoded_key);
            }
        }
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Completes the section.
    pub fn finish(self) {
        write::close_compound(format::MAP_8, format::MAP_32, self.start, self.count, self.output);
    }
}
