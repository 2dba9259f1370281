//! The fields of a composite type, in order.

use super::{Reader, Result};
use crate::DecodeError;
use crate::budget::FIELDS_MAX;
use crate::code::format;

/// The fields of a composite type in order. Fields missing from a shorter list are null, additional fields of a longer
/// one are ignored (part 1.4).
#[derive(Debug)]
pub(crate) struct ListReader<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) fields_left: u32,
}

impl<'a> ListReader<'a> {
    /// Reads the next field with `read`; `None` when it is null or omitted.
    #[inline(always)]
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.is_present() { read(&mut self.reader).map(Some) } else { Ok(None) }
    }

    /// The next field, a uint: without a function argument, whose call is not inlined.
    #[inline(always)]
    pub(crate) fn uint(&mut self) -> Result<Option<u32>> {
        if self.is_present() { self.reader.u32().map(Some) } else { Ok(None) }
    }

    /// The next field, a boolean.
    #[inline(always)]
    pub(crate) fn boolean(&mut self) -> Result<Option<bool>> {
        if self.is_present() { self.reader.boolean().map(Some) } else { Ok(None) }
    }

    /// Passes to the next field; returns whether it has a value.
    #[inline(always)]
    fn is_present(&mut self) -> bool {
        if self.fields_left == 0 {
            return false;
        }
        self.fields_left -= 1;
        !self.reader.null()
    }

    /// The next field, a uint that must be present.
    #[inline(always)]
    pub(crate) fn required_uint(&mut self, name: &'static str) -> Result<u32> {
        self.uint()?.ok_or_else(|| missing(name))
    }

    /// The next field, which must be present.
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

    /// The next field, a boolean that must be present.
    #[inline(always)]
    pub(crate) fn required_boolean(&mut self, name: &'static str) -> Result<bool> {
        self.boolean()?.ok_or_else(|| missing(name))
    }

    /// Skips all remaining fields if they are at most [`FIELDS_MAX`] and all null; most senders set few of many.
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

    /// Skips all remaining fields if they are these constructors; returns whether they are.
    #[inline(always)]
    pub(crate) fn ends_with(&mut self, constructors: &[u8]) -> bool {
        let is_end =
            self.reader.rest == constructors && usize::try_from(self.fields_left) == Ok(constructors.len());
        if is_end {
            self.fields_left = 0;
            self.reader.rest = &[];
        }
        is_end
    }

    /// Whether nothing remains, neither fields nor bytes after them.
    pub(crate) fn is_finished(&self) -> bool {
        self.fields_left == 0 && self.reader.is_empty()
    }

    /// Skips a field that is not interpreted.
    pub(crate) fn ignore(&mut self) -> Result<()> {
        self.optional(Reader::skip).map(drop)
    }
}

#[cold]
fn missing(name: &'static str) -> DecodeError {
    DecodeError::new(format!("the mandatory field {name} is missing"))
}
