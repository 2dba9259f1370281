//! Limits of memory and work while reading one value.

use super::read::Result;
use super::{DecodeError, Value};

/// No composite type has more fields.
pub(super) const FIELDS_MAX: u32 = 16;

/// What the rest of one value may still use; see [`Value::ELEMENTS_MAX`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) elements: u32,
    pub(super) zero_width_elements: u32,
    /// Keys of maps that may still be compared with each other.
    pub(super) compared_keys: u32,
}

impl Budget {
    pub(super) const VALUE: Self = Self {
        elements: Value::ELEMENTS_MAX,
        zero_width_elements: Value::ZERO_WIDTH_ELEMENTS_MAX,
        compared_keys: Value::ELEMENTS_MAX,
    };

    /// For data that is checked without building values: every element has at least one byte, or counts as zero-width.
    pub(super) const CHECK_ONLY: Self = Self { elements: u32::MAX, ..Self::VALUE };

    pub(super) fn charge(&mut self, elements: u32) -> Result<()> {
        self.elements = self.elements.checked_sub(elements).ok_or_else(too_many_elements)?;
        Ok(())
    }

    /// Whether the keys of a map with this many entries may be compared: their list must not be much larger than the
    /// data.
    pub(super) fn compares(&mut self, keys: u32) -> bool {
        let left = self.compared_keys.checked_sub(keys);
        self.compared_keys = left.unwrap_or(self.compared_keys);
        left.is_some()
    }

    pub(super) fn charge_zero_width(&mut self, elements: u32) -> Result<()> {
        self.zero_width_elements =
            self.zero_width_elements.checked_sub(elements).ok_or_else(too_many_elements)?;
        Ok(())
    }
}

#[cold]
fn too_many_elements() -> DecodeError {
    DecodeError::new("too many elements in one value")
}
