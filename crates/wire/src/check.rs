//! Checks values without building them: a value that passes can be read by [`Value::decode`](super::Value::decode) and
//! any other decoder. No allocation; recursion is bounded by [`Value::DEPTH_MAX`](super::Value::DEPTH_MAX).

use super::DecodeError;
use super::code::format;
use super::decode::{character, deeper};
use super::keys::{Keys, check_not_null};
use super::read::{Reader, Result, boolean_octet, unexpected, utf8};

/// Required keys of a message section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionKeys {
    /// Annotations and the footer: symbols, or numbers that the specification reserves (part 3.2.10).
    Symbols,
    /// Application properties: strings, with values of simple types (part 3.2.5).
    Strings,
}

/// Form of a section that is a map, determined by its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MapForm {
    /// Every text key is of the kind that the section should have. The other kind is accepted: Java writes the keys of
    /// footers as strings (7.17.20).
    pub(super) is_canonical: bool,
    /// Some value is a decimal, or is described and may contain one.
    pub(super) may_hold_decimals: bool,
}

impl Default for MapForm {
    /// The form of a section without entries.
    fn default() -> Self {
        Self { is_canonical: true, may_hold_decimals: false }
    }
}

impl Reader<'_> {
    /// Skips one value nested in `depth` others, checking every byte.
    pub(super) fn check(&mut self, depth: usize) -> Result<()> {
        let code = self.byte()?;
        self.check_contents(code, depth)
    }

    /// Skips the value after its constructor.
    fn check_contents(&mut self, code: u8, depth: usize) -> Result<()> {
        match code {
            format::DESCRIBED => {
                let depth = deeper(depth)?;
                self.check_descriptor()?;
                self.check(depth)
            }
            format::LIST_8 | format::LIST_32 => self.check_list(code, deeper(depth)?),
            format::MAP_8 | format::MAP_32 => self.check_map(code, deeper(depth)?),
            format::ARRAY_8 | format::ARRAY_32 => self.check_array(code, deeper(depth)?),
            _ => self.check_primitive(code),
        }
    }

    fn check_list(&mut self, code: u8, depth: usize) -> Result<()> {
        let (mut inner, count) = self.compound(code)?;
        inner.budget.charge(count)?;
        for _ in 0..count {
            inner.check(depth)?;
        }
        self.leave(&inner)
    }

    fn check_map(&mut self, code: u8, depth: usize) -> Result<()> {
        let (mut inner, entries) = self.open_map(code)?;
        let compares = inner.budget.compares(entries);
        let mut keys = Keys::default();
        for _ in 0..entries {
            let key = inner.consumed(|reader| reader.check(depth))?;
            check_not_null(key)?;
            if compares {
                keys.add(key);
            }
            inner.check(depth)?;
        }
        keys.check()?;
        self.leave(&inner)
    }

    /// Skips the map of a message section like [`Self::check`] and checks the types of its keys and values.
    pub(super) fn check_section_map(&mut self, expected: SectionKeys) -> Result<MapForm> {
        let code = self.byte()?;
        let (mut inner, entries) = self.open_map(code)?;
        let mut keys = Keys::default();
        let mut form = MapForm::default();
        for _ in 0..entries {
            let key = inner.consumed(|reader| reader.check(1))?;
            check_not_null(key)?;
            let code = key.first().copied().unwrap_or_default();
            match code {
                format::STRING_8 | format::STRING_32 => form.is_canonical &= expected == SectionKeys::Strings,
                format::SYMBOL_8 | format::SYMBOL_32 => form.is_canonical &= expected == SectionKeys::Symbols,
                format::ULONG_0 | format::SMALL_ULONG | format::ULONG if expected == SectionKeys::Symbols => {
                }
                _ => return Err(unexpected("a symbol or string as key", code)),
            }
            if matches!(code, format::ULONG_0 | format::SMALL_ULONG | format::ULONG) {
                keys.add(key);
            } else {
                keys.add_text(key);
            }
            form.may_hold_decimals |= inner.is_at_decimal_or_descriptor();
            if expected == SectionKeys::Strings {
                inner.clone().expect_simple()?;
            }
            inner.check(1)?;
        }
        keys.check()?;
        self.leave(&inner)?;
        Ok(form)
    }

    fn is_at_decimal_or_descriptor(&self) -> bool {
        matches!(
            self.peek(),
            Some(format::DESCRIBED | format::DECIMAL_32 | format::DECIMAL_64 | format::DECIMAL_128)
        )
    }

    /// A map's contents and its number of entries.
    fn open_map(&mut self, code: u8) -> Result<(Self, u32)> {
        let (mut inner, count) = self.compound(code)?;
        if count % 2 != 0 {
            return Err(DecodeError::new("a map with a key without value"));
        }
        inner.budget.charge(count)?;
        Ok((inner, count / 2))
    }

    /// Checks that the next value is no list, map or array, with or without a descriptor.
    fn expect_simple(mut self) -> Result<()> {
        loop {
            match self.byte()? {
                format::DESCRIBED => self.skip()?,
                format::LIST_0
                | format::LIST_8
                | format::LIST_32
                | format::MAP_8
                | format::MAP_32
                | format::ARRAY_8
                | format::ARRAY_32 => {
                    return Err(DecodeError::new(
                        "an application property that is a list, a map or an array",
                    ));
                }
                _ => return Ok(()),
            }
        }
    }

    fn check_array(&mut self, code: u8, depth: usize) -> Result<()> {
        let (mut inner, count) = self.compound(code)?;
        if count == 0 && inner.is_empty() {
            return Ok(());
        }
        let mut depth = depth;
        let mut element_code = inner.byte()?;
        while element_code == format::DESCRIBED {
            depth = deeper(depth)?;
            let descriptor_start = inner.position();
            inner.check_descriptor()?;
            inner.charge_copies(count, descriptor_start)?;
            element_code = inner.byte()?;
        }
        inner.reserve_array(count, element_code)?;
        for _ in 0..count {
            inner.check_contents(element_code, depth)?;
        }
        self.leave(&inner)
    }

    fn check_descriptor(&mut self) -> Result<()> {
        match self.peek() {
            Some(
                format::ULONG_0 | format::SMALL_ULONG | format::ULONG | format::SYMBOL_8 | format::SYMBOL_32,
            ) => self.check(0),
            _ => self.value_descriptor().map(drop),
        }
    }

    fn check_primitive(&mut self, code: u8) -> Result<()> {
        match code {
            format::STRING_8 | format::STRING_32 | format::SYMBOL_8 | format::SYMBOL_32 => {
                utf8(self.sized(code)?).map(drop)
            }
            format::BOOLEAN => boolean_octet(self.byte()?).map(drop),
            format::CHAR => character(self.fixed()?).map(drop),
            _ => self.skip_contents(code),
        }
    }
}
