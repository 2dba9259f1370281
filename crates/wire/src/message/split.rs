//! Splits a message into its sections.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::{DecodeError, MapSection, Reader, Sections, Value};
use crate::budget::Budget;
use crate::check::{MapForm, SectionKeys};
use crate::code::{descriptor, format};
use crate::read::Result;

/// Bytes of `0x00 0x53 code`.
const DESCRIPTOR_BYTES: usize = 3;

impl Sections {
    /// Finds the sections. Checks order, sizes, descriptors and depth of the whole message, so that an untrusted
    /// message can't harm a later reader, but decodes nothing.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn split(message: &Bytes) -> Result<Self> {
        split(message, check_section).map(|(sections, _)| sections)
    }

    /// Finds the sections of a message that [`Self::split`] accepted before; as cheap as skipping them.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn split_trusted(message: &Bytes) -> Result<Self> {
        split(message, |_, reader| reader.skip().map(|()| true)).map(|(sections, _)| sections)
    }

    /// Checks and splits a message for storing, and returns its canonical form: its sections in the order of the fields
    /// here, without gaps, their descriptors as smallulong (Python reads no other), the keys of annotations and footer
    /// as symbols (Java reads no other), those of application properties as strings. Nearly every message is in that
    /// form already and is not copied.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn split_canonical(message: &Bytes) -> Result<(Bytes, Self)> {
        let (sections, is_canonical) = split(message, check_section)?;
        if is_canonical {
            return Ok((message.clone(), sections));
        }
        let rewritten = sections.rewrite()?;
        let sections = Self::split_trusted(&rewritten)?;
        Ok((rewritten, sections))
    }

    #[cold]
    fn rewrite(&self) -> Result<Bytes> {
        let mut rewritten = BytesMut::new();
        for part in [
            &self.header,
            &self.delivery_annotations,
            &self.message_annotations,
            &self.properties,
            &self.application_properties,
        ] {
            rewrite(part, |_| true, &mut rewritten)?;
        }
        // Where the footer came before the body, delivery annotations may be between the two.
        let is_body = |code| !matches!(code, descriptor::FOOTER | descriptor::DELIVERY_ANNOTATIONS);
        rewrite(&self.body, is_body, &mut rewritten)?;
        rewrite(&self.body, |code| code == descriptor::FOOTER, &mut rewritten)?;
        Ok(rewritten.freeze())
    }

    /// A copy of a section that is a map, with keys of the type that the section should have, and with values replaced
    /// where `replace` returns one for an encoded value.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn copy_map(section: &Bytes, replace: impl Fn(&[u8]) -> Option<Value>) -> Result<Bytes> {
        let mut copy = BytesMut::with_capacity(section.len());
        let code = section_code(&mut Reader::new(section))?;
        copy_map(code, section, replace, &mut copy)?;
        Ok(copy.freeze())
    }
}

/// Appends the sections of `part` that `wanted` selects.
fn rewrite(part: &Bytes, wanted: impl Fn(u8) -> bool, rewritten: &mut BytesMut) -> Result<()> {
    let mut reader = Reader::new(part);
    while !reader.is_empty() {
        let start = reader.position();
        let code = section_code(&mut reader)?;
        let value = reader.skipped()?;
        if !wanted(code) {
            continue;
        }
        if map_keys(code).is_some() {
            copy_map(code, &part.slice(start..reader.position()), |_| None, rewritten)?;
        } else {
            rewritten.put_slice(&[format::DESCRIBED, format::SMALL_ULONG, code]);
            rewritten.put_slice(value);
        }
    }
    Ok(())
}

fn copy_map(
    code: u8,
    section: &Bytes,
    replace: impl Fn(&[u8]) -> Option<Value>,
    copy: &mut BytesMut,
) -> Result<()> {
    let symbol_keys = map_keys(code) == Some(SectionKeys::Symbols);
    let mut map = MapSection::begin(code, symbol_keys, copy);
    for entry in Sections::map_entries(section)? {
        let entry = entry?;
        match replace(entry.encoded_value) {
            Some(value) => map.entry_with(entry, &value),
            None => map.entry(entry),
        }
    }
    map.finish();
    Ok(())
}

/// The required keys of a section that is a map.
fn map_keys(code: u8) -> Option<SectionKeys> {
    match code {
        descriptor::DELIVERY_ANNOTATIONS | descriptor::MESSAGE_ANNOTATIONS | descriptor::FOOTER => {
            Some(SectionKeys::Symbols)
        }
        descriptor::APPLICATION_PROPERTIES => Some(SectionKeys::Strings),
        _ => None,
    }
}

/// Positions of the sections in a message; an empty range for an absent section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each field is the specification's of that name
pub struct Places {
    pub header: Range<usize>,
    pub delivery_annotations: Range<usize>,
    pub message_annotations: Range<usize>,
    pub properties: Range<usize>,
    pub application_properties: Range<usize>,
    /// All body sections and the footer.
    pub body: Range<usize>,
    /// The footer, which is a part of `body` too.
    pub footer: Range<usize>,
}

/// Splits a message, skipping each section's value with `step`, which returns whether that is in canonical form;
/// returns whether the whole message is.
fn split(message: &Bytes, step: impl FnMut(u8, &mut Reader<'_>) -> Result<bool>) -> Result<(Sections, bool)> {
    let mut places = Places::default();
    let is_canonical = locate(message, &mut places, step)?;
    let slice = |place: Range<usize>| message.slice(place);
    let sections = Sections {
        header: slice(places.header),
        delivery_annotations: slice(places.delivery_annotations),
        message_annotations: slice(places.message_annotations),
        properties: slice(places.properties),
        application_properties: slice(places.application_properties),
        body: slice(places.body),
        footer: slice(places.footer),
    };
    Ok((sections, is_canonical))
}

/// [`split`] without slices; `places` must be empty. They are filled in place, because the struct is expensive to move.
pub(super) fn locate<'a>(
    message: &'a Bytes,
    places: &mut Places,
    mut step: impl FnMut(u8, &mut Reader<'a>) -> Result<bool>,
) -> Result<bool> {
    let mut reader = Reader::new(message);
    let mut last = 0;
    let mut is_canonical = true;
    while !reader.is_empty() {
        let start = reader.position();
        let code = section_code(&mut reader)?;
        if code == descriptor::FOOTER && !places.footer.is_empty() {
            return Err(DecodeError::new("footer twice".to_owned()));
        }
        last = advance(last, code)?;
        is_canonical &= last == code && reader.position() - start == DESCRIPTOR_BYTES;
        is_canonical &= step(code, &mut reader)?;
        let place = start..reader.position();
        let section = match code {
            descriptor::HEADER => &mut places.header,
            descriptor::DELIVERY_ANNOTATIONS => &mut places.delivery_annotations,
            descriptor::MESSAGE_ANNOTATIONS => &mut places.message_annotations,
            descriptor::PROPERTIES => &mut places.properties,
            descriptor::APPLICATION_PROPERTIES => &mut places.application_properties,
            _ => {
                let start = if places.body.is_empty() { place.start } else { places.body.start };
                places.body = start..place.end;
                if code == descriptor::FOOTER {
                    places.footer = place;
                }
                continue;
            }
        };
        if !Range::is_empty(section) {
            return Err(DecodeError::new(format!("section {code:#04x} twice")));
        }
        *section = place;
    }
    Ok(is_canonical)
}

/// The code of the next section.
fn section_code(reader: &mut Reader<'_>) -> Result<u8> {
    match reader.descriptor()? {
        Some(code @ descriptor::HEADER..=descriptor::FOOTER) => Ok(code),
        code => Err(crate::performative::unknown("message section", code)),
    }
}

/// Code of delivery annotations at the end of a message.
const TRAILING_ANNOTATIONS: u8 = u8::MAX;

/// Part 3.2: sections ascend; only data and sequence sections repeat, and a body has one kind. But Python
/// (azure-servicebus 7.15.0, `encode_payload`) writes the delivery annotations last, uamqp (1.6.11, `encode_message`)
/// directly before the body, and rhea (3.0.5, `message.encode`), and so the JavaScript SDK, and uamqp the footer before
/// the body.
fn advance(last: u8, code: u8) -> Result<u8> {
    if code == descriptor::FOOTER && last < descriptor::DATA {
        // Only the body may follow.
        return Ok(descriptor::APPLICATION_PROPERTIES);
    }
    let follows = match code {
        descriptor::DATA | descriptor::AMQP_SEQUENCE => last < descriptor::DATA || last == code,
        descriptor::AMQP_VALUE => last < descriptor::DATA,
        _ => last < code,
    };
    match code {
        _ if follows => Ok(code),
        descriptor::DELIVERY_ANNOTATIONS if last < descriptor::DATA => Ok(last),
        descriptor::DELIVERY_ANNOTATIONS if last < TRAILING_ANNOTATIONS => Ok(TRAILING_ANNOTATIONS),
        _ => Err(DecodeError::new(format!("section {code:#04x} after section {last:#04x}"))),
    }
}

/// Checks a section's value: its type and everything within; returns whether it is in canonical form.
fn check_section(code: u8, reader: &mut Reader<'_>) -> Result<bool> {
    check_form(code, reader).map(|form| form.is_canonical)
}

/// [`check_section`] with the form of sections that are maps. Sections that will be decoded have a limited number of
/// elements, bodies have no limit.
pub(super) fn check_form(code: u8, reader: &mut Reader<'_>) -> Result<MapForm> {
    let found = reader.peek().unwrap_or_default();
    let (fits, budget) = match code {
        descriptor::HEADER | descriptor::PROPERTIES => (is_list(found), Budget::VALUE),
        descriptor::AMQP_SEQUENCE => (is_list(found), Budget::CHECK_ONLY),
        descriptor::DATA => (matches!(found, format::BINARY_8 | format::BINARY_32), Budget::CHECK_ONLY),
        descriptor::AMQP_VALUE => (true, Budget::CHECK_ONLY),
        _ => (matches!(found, format::MAP_8 | format::MAP_32), Budget::VALUE),
    };
    if !fits {
        return Err(DecodeError::new(format!("constructor {found:#04x} in section {code:#04x}")));
    }
    reader.budget = budget;
    match map_keys(code) {
        Some(keys) => reader.check_section_map(keys),
        None => reader.check(0).map(|()| MapForm::default()),
    }
}

fn is_list(code: u8) -> bool {
    matches!(code, format::LIST_0 | format::LIST_8 | format::LIST_32)
}
