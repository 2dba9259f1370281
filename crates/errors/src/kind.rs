//! The row of each refusal. The matches are exhaustive, so that a new refusal requires one.

use peeklock_access::Denied;
use peeklock_engine::Refusal;

use crate::ErrorKind;

impl From<&Refusal> for ErrorKind {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::MessageLockLost => Self::MessageLockLost,
            Refusal::MessageNotFound(_) | Refusal::ScheduledNotFound(_) | Refusal::DeferredNotFound(_) => {
                Self::MessageNotFound
            }
            Refusal::MessageTooLarge { .. } | Refusal::HeaderTooLarge { .. } => Self::MessageTooLarge,
            Refusal::MessageDamaged(_) => Self::MessageDamaged,
            Refusal::EntityFull { .. } => Self::EntityFull,
            Refusal::StorageFull => Self::StorageFull,
            Refusal::StorageFailing => Self::StorageFailing,
            Refusal::StateFull => Self::StateFull,
            Refusal::SessionLockLost => Self::SessionLockLost,
            Refusal::SessionCannotBeLocked(_) => Self::SessionCannotBeLocked,
            Refusal::NoSessionAvailable => Self::NoSessionAvailable,
            Refusal::SubscriptionExists(_) | Refusal::RuleExists(_) => Self::EntityExists,
            Refusal::RuleNotFound(_) => Self::EntityNotFound,
            Refusal::TooManyEntities(_) => Self::TooManyEntities,
            Refusal::TooManySubscriptions(_) => Self::TooManySubscriptions,
            Refusal::TooManySqlFilters(_) => Self::TooManySqlFilters,
            Refusal::TooManyCorrelationFilters(_) => Self::TooManyCorrelationFilters,
            Refusal::AlreadyDeadLettered
            | Refusal::SessionRequired
            | Refusal::SessionNotSupported
            | Refusal::SessionIdMissing
            | Refusal::NotAllowed(_) => Self::NotAllowed,
            Refusal::ReceiverNotFound => Self::Internal,
            Refusal::InvalidArgument(_) => Self::InvalidArgument,
            Refusal::Unavailable | Refusal::MemoryShort => Self::Unavailable,
            Refusal::EntityDamaged(_) => Self::EntityDamaged,
            Refusal::EntityDisabled => Self::EntityDisabled,
            Refusal::EntityDeleted => Self::EntityGone,
        }
    }
}

impl From<&Denied> for ErrorKind {
    fn from(denied: &Denied) -> Self {
        match denied {
            Denied::Missing => Self::TokenMissing,
            Denied::Malformed(_) => Self::TokenMalformed,
            Denied::Signature | Denied::Issuer => Self::TokenSignature,
            Denied::UnknownKey => Self::IssuerKeyUnknown,
            Denied::Audience => Self::TokenAudience,
            Denied::Expired(_) | Denied::NotYet => Self::TokenExpired,
            Denied::Role | Denied::Right { .. } => Self::RightMissing,
        }
    }
}
