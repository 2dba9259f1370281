//! How SQL is stored: as it was written. Programs are made anew when it is read back.

use serde::{Deserialize, Serialize};

use crate::PropertyValue;

/// A text with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct StoredSql {
    /// The text.
    pub(super) expression: Box<str>,
    /// What `@name` stands for.
    pub(super) parameters: Vec<(Box<str>, PropertyValue)>,
}

impl StoredSql {
    /// The parameters as a program takes them.
    pub(super) fn plain_parameters(&self) -> Vec<(Box<str>, PropertyValue)> {
        self.parameters.iter().map(|(name, value)| (name.clone(), value.plain())).collect()
    }
}
