//! Why something is no message that can be accepted.

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Its encoding is broken.
    #[error("The message is malformed: {0}.")]
    Malformed(String),
    /// Something in it is missing, of the wrong type or out of range.
    #[error("{0}")]
    Argument(String),
    /// It is in a format that is not understood.
    #[error("{0}")]
    NotImplemented(String),
}
