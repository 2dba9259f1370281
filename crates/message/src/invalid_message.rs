//! Reasons for rejecting a message.

/// The reason for rejecting a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    /// Its encoding is broken.
    #[error("The message is malformed: {0}.")]
    Malformed(String),
    /// Something in it is missing, of the wrong type or out of range.
    #[error("{0}")]
    Argument(String),
    /// A part of it is too large.
    #[error("{0}")]
    TooLarge(String),
    /// Its format is not supported.
    #[error("{0}")]
    NotImplemented(String),
}
