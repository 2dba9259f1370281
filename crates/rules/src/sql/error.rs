//! What is wrong with a text.

/// A text that is no condition, or no list of statements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {} of the expression)", position + 1)]
pub struct SqlError {
    /// Where: characters before it.
    pub position: usize,
    /// What was found there and what was expected, as a phrase without a full stop.
    pub message: String,
}
