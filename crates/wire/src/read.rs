//! A bounds-checked cursor over input, and the lenient readers for fields of known types.

use bytes::Bytes;

use super::DecodeError;
use super::budget::Budget;
use super::code::descriptor;
use super::code::format::{self, Width};

mod fields;

pub(super) use fields::ListReader;

pub(super) type Result<T> = std::result::Result<T, DecodeError>;

#[cold]
fn truncated() -> DecodeError {
    DecodeError::new("the data ends inside a value")
}

#[cold]
pub(super) fn unexpected(expected: &str, code: u8) -> DecodeError {
    DecodeError::new(format!("expected {expected}, found constructor {code:#04x}"))
}

#[cold]
fn out_of_range(expected: &str) -> DecodeError {
    DecodeError::new(format!("the number is out of the range of {expected}"))
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::new("text that is not UTF-8"))
}

/// A cursor over `source`; every part it returns lies within.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a> {
    source: &'a Bytes,
    rest: &'a [u8],
    pub(super) budget: Budget,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Bytes) -> Self {
        Self { source, rest: source, budget: Budget::VALUE }
    }

    /// A reader for a part of the same source.
    #[inline(always)]
    pub(super) fn within(&self, part: &'a [u8]) -> Self {
        Self { source: self.source, rest: part, budget: self.budget }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes not yet read.
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Bytes read so far.
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.source.len() - self.rest.len()
    }

    /// A part of the source without copying it.
    #[inline(always)]
    pub(super) fn share(&self, part: &'a [u8]) -> Bytes {
        self.source.slice_ref(part)
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline(always)]
    pub(super) fn byte(&mut self) -> Result<u8> {
        let (&first, rest) = self.rest.split_first().ok_or_else(truncated)?;
        self.rest = rest;
        Ok(first)
    }

    #[inline(always)]
    pub(super) fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (part, rest) = self.rest.split_at_checked(bytes).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(part)
    }

    #[inline(always)]
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (&part, rest) = self.rest.split_first_chunk().ok_or_else(truncated)?;
        self.rest = rest;
        Ok(part)
    }

    #[inline]
    pub(super) fn size_8(&mut self) -> Result<usize> {
        self.byte().map(usize::from)
    }

    #[inline]
    pub(super) fn size_32(&mut self) -> Result<usize> {
        let size = u32::from_be_bytes(self.fixed()?);
        usize::try_from(size).map_err(|_| truncated())
    }

    /// Contents of a variable-width or compound value, after its size.
    #[inline(always)]
    pub(super) fn sized(&mut self, code: u8) -> Result<&'a [u8]> {
        let size = if code & 0x10 == 0 { self.size_8()? } else { self.size_32()? };
        self.take(size)
    }

    /// Contents and count of a list, map or array (`code` tells the width of both).
    #[inline(always)]
    pub(super) fn compound(&mut self, code: u8) -> Result<(Self, u32)> {
        let contents = self.sized(code)?;
        let mut inner = self.within(contents);
        let count = if code & 0x10 == 0 { inner.byte()?.into() } else { u32::from_be_bytes(inner.fixed()?) };
        Ok((inner, count))
    }

    /// Skips one value by its sizes alone.
    pub(super) fn skip(&mut self) -> Result<()> {
        let mut values = 1_usize;
        while values > 0 {
            values -= 1;
            match self.byte()? {
                format::DESCRIBED => values += 2,
                code => self.skip_contents(code)?,
            }
        }
        Ok(())
    }

    /// Skips one value and returns its bytes.
    pub(super) fn skipped(&mut self) -> Result<&'a [u8]> {
        self.consumed(Self::skip)
    }

    /// The bytes that `read` consumes.
    pub(super) fn consumed(&mut self, read: impl FnOnce(&mut Self) -> Result<()>) -> Result<&'a [u8]> {
        let before = self.rest;
        read(self)?;
        Ok(before.get(..before.len() - self.rest.len()).unwrap_or_default())
    }

    /// Skips the contents after a constructor other than a descriptor's.
    #[inline(always)]
    pub(super) fn skip_contents(&mut self, code: u8) -> Result<()> {
        let bytes = match format::width(code) {
            Some(Width::Fixed(bytes)) => bytes,
            Some(Width::Size8) => self.size_8()?,
            Some(Width::Size32) => self.size_32()?,
            None => return Err(unexpected("a value", code)),
        };
        self.take(bytes).map(drop)
    }

    /// Reads `0x00 descriptor`, numeric of any width or symbolic; `None` for an unknown descriptor.
    #[inline(always)]
    pub(super) fn descriptor(&mut self) -> Result<Option<u8>> {
        match self.rest {
            // The encoding that nearly every peer uses.
            [format::DESCRIBED, format::SMALL_ULONG, code, rest @ ..] => {
                self.rest = rest;
                Ok(Some(*code))
            }
            _ => self.any_descriptor(),
        }
    }

    /// Reads these bytes if they come next; returns whether they did.
    #[inline(always)]
    pub(super) fn take_if_next(&mut self, bytes: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(bytes);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn any_descriptor(&mut self) -> Result<Option<u8>> {
        match self.byte()? {
            format::DESCRIBED => {}
            code => return Err(unexpected("a described type", code)),
        }
        match self.byte()? {
            format::SMALL_ULONG => self.byte().map(Some),
            format::ULONG => Ok(u8::try_from(u64::from_be_bytes(self.fixed()?)).ok()),
            format::ULONG_0 => Ok(Some(0)),
            code @ (format::SYMBOL_8 | format::SYMBOL_32) => self.sized(code).map(descriptor::from_name),
            code => Err(unexpected("a descriptor", code)),
        }
    }

    /// Reads `0x00 descriptor` that must be `expected`.
    pub(super) fn expect_descriptor(&mut self, expected: u8) -> Result<()> {
        match self.descriptor()? {
            Some(found) if found == expected => Ok(()),
            found => {
                Err(DecodeError::new(format!("expected descriptor {expected:#04x}, found {found:02x?}")))
            }
        }
    }

    /// Opens a list to read its fields one by one.
    #[inline(always)]
    pub(super) fn list(&mut self) -> Result<ListReader<'a>> {
        match self.byte()? {
            format::LIST_0 => Ok(ListReader { reader: self.within(&[]), fields_left: 0 }),
            code @ (format::LIST_8 | format::LIST_32) => {
                let (reader, fields_left) = self.compound(code)?;
                Ok(ListReader { reader, fields_left })
            }
            code => Err(unexpected("a list", code)),
        }
    }

    /// Reads a null if there is one; returns whether there was.
    #[inline(always)]
    pub(super) fn null(&mut self) -> bool {
        match self.rest.split_first() {
            Some((&format::NULL, rest)) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// An integer of any width.
    fn integer(&mut self) -> Result<i128> {
        let code = self.byte()?;
        Ok(match code {
            format::UINT_0 | format::ULONG_0 => 0,
            format::SMALL_UINT | format::SMALL_ULONG | format::UBYTE => self.byte()?.into(),
            format::BYTE | format::SMALL_INT | format::SMALL_LONG => i8::from_be_bytes(self.fixed()?).into(),
            format::USHORT => u16::from_be_bytes(self.fixed()?).into(),
            format::SHORT => i16::from_be_bytes(self.fixed()?).into(),
            format::UINT => u32::from_be_bytes(self.fixed()?).into(),
            format::INT => i32::from_be_bytes(self.fixed()?).into(),
            format::ULONG => u64::from_be_bytes(self.fixed()?).into(),
            format::LONG | format::TIMESTAMP => i64::from_be_bytes(self.fixed()?).into(),
            _ => return Err(unexpected("an integer", code)),
        })
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        u8::try_from(self.integer()?).map_err(|_| out_of_range("a ubyte"))
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        u16::try_from(self.integer()?).map_err(|_| out_of_range("a ushort"))
    }

    #[inline(always)]
    pub(super) fn u32(&mut self) -> Result<u32> {
        match self.rest {
            // The three encodings of a uint in the specification.
            [format::UINT_0, rest @ ..] => {
                self.rest = rest;
                Ok(0)
            }
            [format::SMALL_UINT, number, rest @ ..] => {
                self.rest = rest;
                Ok((*number).into())
            }
            [format::UINT, a, b, c, d, rest @ ..] => {
                self.rest = rest;
                Ok(u32::from_be_bytes([*a, *b, *c, *d]))
            }
            _ => u32::try_from(self.integer()?).map_err(|_| out_of_range("a uint")),
        }
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        u64::try_from(self.integer()?).map_err(|_| out_of_range("a ulong"))
    }

    pub(super) fn i64(&mut self) -> Result<i64> {
        i64::try_from(self.integer()?).map_err(|_| out_of_range("a long"))
    }

    #[inline(always)]
    pub(super) fn boolean(&mut self) -> Result<bool> {
        match self.byte()? {
            format::TRUE => Ok(true),
            format::FALSE => Ok(false),
            format::BOOLEAN => boolean_octet(self.byte()?),
            code => Err(unexpected("a boolean", code)),
        }
    }

    /// A string or symbol.
    pub(super) fn text(&mut self) -> Result<&'a str> {
        let code = self.byte()?;
        self.text_of(code)
    }

    /// The text after its constructor.
    pub(super) fn text_of(&mut self, code: u8) -> Result<&'a str> {
        match code {
            format::STRING_8 | format::SYMBOL_8 | format::STRING_32 | format::SYMBOL_32 => {
                utf8(self.sized(code)?)
            }
            _ => Err(unexpected("a string or symbol", code)),
        }
    }

    #[inline]
    pub(super) fn binary(&mut self) -> Result<Bytes> {
        let contents = self.binary_view()?;
        Ok(self.share(contents))
    }

    /// A binary, borrowed.
    #[inline]
    pub(super) fn binary_view(&mut self) -> Result<&'a [u8]> {
        match self.byte()? {
            code @ (format::BINARY_8 | format::BINARY_32) => self.sized(code),
            code => Err(unexpected("a binary", code)),
        }
    }
}

pub(super) fn boolean_octet(octet: u8) -> Result<bool> {
    match octet {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::new("a boolean that is neither 0 nor 1")),
    }
}
