//! Checking values without building them: what passes here, [`Value::decode`](super::Value::decode) and any other
//! decoder can read. No allocation; recursion is bounded by [`Value::DEPTH_MAX`](super::Value::DEPTH_MAX).

use super::DecodeError;
use super::code::format;
use super::decode::{character, deeper};
use super::read::{Reader, Result, boolean_octet, utf8};

impl Reader<'_> {
    /// Steps over one value inside `depth` others, looking at every byte that has a meaning.
    pub(super) fn check(&mut self, depth: usize) -> Result<()> {
        let code = self.byte()?;
        self.check_contents(code, depth)
    }

    /// Steps over the value after its constructor.
    fn check_contents(&mut self, code: u8, depth: usize) -> Result<()> {
        match code {
            format::DESCRIBED => {
                let depth = deeper(depth)?;
                self.check_descriptor()?;
                self.check(depth)
            }
            format::LIST_8 | format::LIST_32 => self.check_elements(code, deeper(depth)?, false),
            format::MAP_8 | format::MAP_32 => self.check_elements(code, deeper(depth)?, true),
            format::ARRAY_8 | format::ARRAY_32 => self.check_array(code, deeper(depth)?),
            _ => self.check_primitive(code),
        }
    }

    fn check_elements(&mut self, code: u8, depth: usize, in_pairs: bool) -> Result<()> {
        let (mut inner, count) = self.compound(code)?;
        if in_pairs && count % 2 != 0 {
            return Err(DecodeError::new("a map with a key without value"));
        }
        inner.budget.charge(count)?;
        for _ in 0..count {
            inner.check(depth)?;
        }
        self.leave(&inner)
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
