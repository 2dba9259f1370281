//! The original SQL text, which is also what is stored: programs are compiled again after reading it.

use crate::PropertyValue;

/// A text with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SqlSource {
    /// The text.
    pub(super) expression: Box<str>,
    /// The values of `@name`.
    pub(super) parameters: Vec<(Box<str>, PropertyValue)>,
}

impl SqlSource {
    /// The parameters in the form used by programs.
    pub(super) fn plain_parameters(&self) -> Vec<(Box<str>, PropertyValue)> {
        self.parameters.iter().map(|(name, value)| (name.clone(), value.plain())).collect()
    }
}
