//! The fields of a composite type, one after the other.

use super::{Reader, Result};
use crate::DecodeError;
use crate::budget::FIELDS_MAX;
use crate::code::format;

/// The fields of a composite type in order. What a shorter list leaves out is null, what a longer one has beyond
/// the fields we know is never looked at (part 1.4).
#[derive(Debug)]
pub(crate) struct ListReader<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) fields_left: u32,
}

impl<'a> ListReader<'a> {
    /// The next field through `read`; `None` when it is null or left out.
    #[inline(always)]
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.fields_left == 0 {
            return Ok(None);
        }
        self.fields_left -= 1;
        if self.reader.null() { Ok(None) } else { read(&mut self.reader).map(Some) }
    }

    /// The next field, which must be there.
    #[inline(always)]
    pub(crate) fn required<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<T> {
        self.optional(read)?.ok_or_else(|| missing(name))
    }

    /// The next field or its type's default.
    #[inline(always)]
    pub(crate) fn or_default<T: Default>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<T> {
        self.optional(read).map(Option::unwrap_or_default)
    }

    /// Steps over all fields that are left if they are not more than [`FIELDS_MAX`] and each is null; most senders set few of many.
    #[inline]
    pub(crate) fn ends_with_nulls(&mut self) -> bool {
        let rest = self.reader.rest;
        let is_end = self.fields_left <= FIELDS_MAX
            && usize::try_from(self.fields_left) == Ok(rest.len())
            && rest.iter().all(|code| *code == format::NULL);
        if is_end {
            self.fields_left = 0;
            self.reader.rest = &[];
        }
        is_end
    }

    /// Whether nothing is left, neither fields nor bytes after them.
    pub(crate) fn is_finished(&self) -> bool {
        self.fields_left == 0 && self.reader.is_empty()
    }

    /// Steps over a field nobody here interprets.
    pub(crate) fn ignore(&mut self) -> Result<()> {
        self.optional(Reader::skip).map(drop)
    }
}

#[cold]
fn missing(name: &'static str) -> DecodeError {
    DecodeError::new(format!("the mandatory field {name} is missing"))
}
