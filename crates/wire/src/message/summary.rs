//! The parts of a message that a broker uses when it stores one, read in the same pass that checks it.

use bytes::Bytes;

use super::split::{Places, check_form, locate};
use super::{DecodeError, Header, IdView, PropertiesView, Reader};
use crate::code::descriptor;

/// The header and the positions of all sections of a message that
/// [`Sections::split_canonical`](super::Sections::split_canonical) returned.
///
/// # Errors
/// [`DecodeError`] when a field of the header is of another type.
pub fn header_and_places(message: &Bytes) -> Result<(Header, Places), DecodeError> {
    let (mut header, mut places) = (Header::default(), Places::default());
    locate(message, &mut places, |code, reader| {
        match code {
            descriptor::HEADER => header.read(&mut reader.list()?)?,
            _ => reader.skip()?,
        }
        Ok(true)
    })?;
    Ok((header, places))
}

/// Header, properties, and the positions of all sections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[allow(missing_docs)] // each field is the section of that name
pub struct Summary<'a> {
    pub header: Header,
    pub properties: PropertiesView<'a>,
    pub places: Places,
}

impl<'a> Summary<'a> {
    /// Checks and reads a message in one pass, if it is like nearly all: in the canonical form of
    /// [`Sections::split_canonical`](super::Sections::split_canonical), with fields of the specification's types in
    /// header and properties, and without decimals in its maps.
    ///
    /// After false, the message may still be valid and the fields read so far are meaningless: the separate steps
    /// (`split_canonical`, [`Self::of_checked`]) then accept it or return the error.
    #[must_use]
    pub fn read_usual(&mut self, message: &'a Bytes) -> bool {
        let Self { header, properties, places } = self;
        let is_usual = locate(message, places, |code, reader| check_usual(code, reader, header, properties));
        is_usual.unwrap_or_default()
    }

    /// Reads a message that [`Sections::split_canonical`](super::Sections::split_canonical) returned.
    ///
    /// # Errors
    /// [`DecodeError`] when a field of header or properties is of another type.
    pub fn of_checked(message: &'a Bytes) -> Result<Self, DecodeError> {
        let mut summary = Self::default();
        let Self { header, properties, places } = &mut summary;
        locate(message, places, |code, reader| {
            match code {
                descriptor::HEADER => header.read(&mut reader.list()?)?,
                descriptor::PROPERTIES => properties.read(&mut reader.list()?)?,
                _ => reader.skip()?,
            }
            Ok(true)
        })?;
        Ok(summary)
    }
}

/// Checks a section and reads its fields; false or an error if it is unusual.
#[inline(always)]
fn check_usual<'a>(
    code: u8,
    reader: &mut Reader<'a>,
    header: &mut Header,
    properties: &mut PropertiesView<'a>,
) -> Result<bool, DecodeError> {
    match code {
        descriptor::HEADER => {
            let mut list = reader.list()?;
            header.read(&mut list)?;
            Ok(list.is_finished())
        }
        descriptor::PROPERTIES => {
            let mut list = reader.list()?;
            properties.read(&mut list)?;
            let is_other = |id| matches!(id, IdView::Other(_));
            let has_other_id = is_other(properties.message_id) || is_other(properties.correlation_id);
            Ok(list.is_finished() && !has_other_id)
        }
        descriptor::DATA => reader.binary_view().map(|_| true),
        _ => check_form(code, reader).map(|form| form.is_canonical && !form.may_hold_decimals),
    }
}
