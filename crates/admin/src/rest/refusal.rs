//! What the engine's refusals are over HTTP.

use peeklock_engine::Refusal;
use peeklock_errors::ErrorKind;

use crate::error::Error;

/// The error of a refused operation on messages.
#[must_use]
pub fn error(refusal: &Refusal) -> Error {
    match ErrorKind::from(refusal) {
        // What it means is the broker's business, not a client's.
        ErrorKind::Internal => Error::internal(),
        kind => Error::of(kind, refusal.to_string()),
    }
}

/// The entity is not there.
pub(super) fn gone(text: String) -> Error {
    Error::of(ErrorKind::EntityGone, text)
}
