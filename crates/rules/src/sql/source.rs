//! SQL as it was written, which is also how it is stored: programs are made anew when it is read back.

use crate::PropertyValue;

/// A text with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SqlSource {
    /// The text.
    pub(super) expression: Box<str>,
    /// What `@name` stands for.
    pub(super) parameters: Vec<(Box<str>, PropertyValue)>,
}

impl SqlSource {
    /// The parameters as a program takes them.
    pub(super) fn plain_parameters(&self) -> Vec<(Box<str>, PropertyValue)> {
        self.parameters.iter().map(|(name, value)| (name.clone(), value.plain())).collect()
    }
}
