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
    let mut header = None;
    let (places, _) = locate(message, |code, reader| {
        if code == descriptor::HEADER {
            header = Some(reader.clone());
        }
        reader.skip().map(|()| true)
    })?;
    let header = match header {
        Some(mut reader) => Header::read(&mut reader.list()?)?,
        None => Header::default(),
    };
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
        let located = locate(message, |code, reader| self.check_usual(code, reader));
        let Ok((places, is_usual)) = located else { return false };
        self.places = places;
        is_usual
    }

    /// Reads a message that [`Sections::split_canonical`](super::Sections::split_canonical) returned.
    ///
    /// # Errors
    /// [`DecodeError`] when a field of header or properties is of another type.
    pub fn of_checked(message: &'a Bytes) -> Result<Self, DecodeError> {
        let (mut header, mut properties) = (None, None);
        let (places, _) = locate(message, |code, reader| {
            match code {
                descriptor::HEADER => header = Some(reader.clone()),
                descriptor::PROPERTIES => properties = Some(reader.clone()),
                _ => {}
            }
            reader.skip().map(|()| true)
        })?;
        let mut summary = Self { places, ..Self::default() };
        if let Some(mut reader) = header {
            summary.header = Header::read(&mut reader.list()?)?;
        }
        if let Some(mut reader) = properties {
            summary.properties.read(&mut reader.list()?)?;
        }
        Ok(summary)
    }

    /// Checks a section and reads its fields; false or an error if it is unusual.
    fn check_usual(&mut self, code: u8, reader: &mut Reader<'a>) -> Result<bool, DecodeError> {
        match code {
            descriptor::HEADER => {
                let mut list = reader.list()?;
                self.header = Header::read(&mut list)?;
                Ok(list.is_finished())
            }
            descriptor::PROPERTIES => {
                let mut list = reader.list()?;
                self.properties.read(&mut list)?;
                let ids = [self.properties.message_id, self.properties.correlation_id];
                Ok(list.is_finished() && !ids.iter().any(|id| matches!(id, IdView::Other(_))))
            }
            descriptor::DATA => reader.binary_view().map(|_| true),
            _ => check_form(code, reader).map(|form| form.is_canonical && !form.may_hold_decimals),
        }
    }
}
