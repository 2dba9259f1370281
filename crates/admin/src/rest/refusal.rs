//! What the engine's refusals are over HTTP.

use axum::http::StatusCode;
use peeklock_engine::Refusal;

use crate::error::Error;

/// The statuses of the operations' documentation (admin reference §7): 404 for locks, 410 for entities, 403 for what is
/// too much.
pub(super) fn error(refusal: &Refusal) -> Error {
    let text = refusal.to_string();
    match refusal {
        Refusal::MessageLockLost
        | Refusal::SessionLockLost
        | Refusal::MessageNotFound(_)
        | Refusal::RuleNotFound(_) => Error::not_found(text),
        Refusal::EntityDeleted => gone(text),
        Refusal::MessageTooLarge { .. }
        | Refusal::HeaderTooLarge { .. }
        | Refusal::EntityFull { .. }
        | Refusal::TooManyEntities(_)
        | Refusal::TooManySubscriptions(_)
        | Refusal::TooManySqlFilters(_)
        | Refusal::TooManyCorrelationFilters(_)
        | Refusal::StorageFull => Error::quota_exceeded(text),
        Refusal::EntityDisabled | Refusal::EntityDamaged(_) => Error::new(StatusCode::FORBIDDEN, 40301, text),
        Refusal::Unavailable | Refusal::MemoryShort | Refusal::NoSessionAvailable => Error::busy(text),
        Refusal::ReceiverNotFound => Error::internal(),
        Refusal::MessageDamaged(_) => Error::new(StatusCode::INTERNAL_SERVER_ERROR, 50001, text),
        Refusal::AlreadyDeadLettered
        | Refusal::SessionCannotBeLocked(_)
        | Refusal::SessionRequired
        | Refusal::SessionNotSupported
        | Refusal::SessionIdMissing
        | Refusal::SubscriptionExists(_)
        | Refusal::RuleExists(_)
        | Refusal::NotAllowed(_)
        | Refusal::InvalidArgument(_) => Error::bad_request(text),
    }
}

/// The entity is not there.
pub(super) fn gone(text: String) -> Error {
    Error::new(StatusCode::GONE, 41000, text)
}
