//! Errors in an SQL text.

/// The error of a text that is not a condition, or not a list of statements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {} of the expression)", position + 1)]
pub struct SqlError {
    /// Number of characters before the error.
    pub position: usize,
    /// What was found and what was expected, as a phrase without a full stop.
    pub message: String,
}
