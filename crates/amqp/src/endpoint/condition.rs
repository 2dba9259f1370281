//! Error conditions of the AMQP specification (parts 2.8.15 to 2.8.18), the only kind of error sent to peers.

use crate::wire::performative::Error;

/// `amqp:internal-error`.
pub const INTERNAL_ERROR: &str = "amqp:internal-error";
/// `amqp:not-found`.
pub const NOT_FOUND: &str = "amqp:not-found";
/// `amqp:unauthorized-access`.
pub const UNAUTHORIZED_ACCESS: &str = "amqp:unauthorized-access";
/// `amqp:decode-error`.
pub const DECODE_ERROR: &str = "amqp:decode-error";
/// `amqp:resource-limit-exceeded`.
pub const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
/// `amqp:not-allowed`.
pub const NOT_ALLOWED: &str = "amqp:not-allowed";
/// `amqp:not-implemented`.
pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
/// `amqp:invalid-field`.
pub const INVALID_FIELD: &str = "amqp:invalid-field";
/// `amqp:frame-size-too-small`.
pub const FRAME_SIZE_TOO_SMALL: &str = "amqp:frame-size-too-small";
/// `amqp:connection:forced`.
pub const CONNECTION_FORCED: &str = "amqp:connection:forced";
/// `amqp:connection:framing-error`.
pub const FRAMING_ERROR: &str = "amqp:connection:framing-error";
/// `amqp:session:unattached-handle`.
pub const UNATTACHED_HANDLE: &str = "amqp:session:unattached-handle";
/// `amqp:session:handle-in-use`.
pub const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
/// `amqp:link:stolen`.
pub const LINK_STOLEN: &str = "amqp:link:stolen";
/// `amqp:link:message-size-exceeded`.
pub const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";

/// An error with a human-readable description.
pub fn error(condition: &str, description: impl Into<String>) -> Error {
    Error {
        condition: condition.into(),
        description: Some(description.into().into_boxed_str()),
        info: Vec::new(),
    }
}

/// The scope of a peer's protocol error: what has to be ended because of it.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection is closed.
    Connection(Error),
    /// The session with this key is ended.
    Session(usize, Error),
    /// The link with this key is detached.
    Link(usize, Error),
}

impl Fault {
    pub(super) fn connection(condition: &str, description: impl Into<String>) -> Self {
        Self::Connection(error(condition, description))
    }

    pub(super) fn session(key: usize, condition: &str, description: impl Into<String>) -> Self {
        Self::Session(key, error(condition, description))
    }

    pub(super) fn link(key: usize, condition: &str, description: impl Into<String>) -> Self {
        Self::Link(key, error(condition, description))
    }
}
