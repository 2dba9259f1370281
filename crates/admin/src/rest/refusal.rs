//! Maps the engine's refusals to HTTP errors.

use peeklock_engine::Refusal;
use peeklock_errors::ErrorKind;

use crate::error::Error;

/// The error of a refused operation on messages.
#[must_use]
pub fn error(refusal: &Refusal) -> Error {
    match ErrorKind::from(refusal) {
        // Details are internal, not for a client.
        ErrorKind::Internal => Error::internal(),
        kind => Error::of(kind, refusal.to_string()),
    }
}

/// The error as the operations on messages report it: what AMQP refuses as not allowed has a status of its own here.
pub(super) fn of_operation(error: Error) -> Error {
    match error.kind {
        ErrorKind::NotAllowed => Error::of(ErrorKind::OperationNotAllowed, error.text),
        _ => error,
    }
}

/// The entity does not exist.
pub(super) fn gone(text: String) -> Error {
    Error::of(ErrorKind::EntityGone, text)
}
