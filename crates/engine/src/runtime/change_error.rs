//! Reasons why an administrator's change failed.

use super::StartError;
use crate::Refusal;

/// Reasons why a change failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChangeError {
    /// The entity, or its parent, does not exist.
    #[error("there is no entity {name:?}")]
    NotFound {
        /// The name as given.
        name: String,
    },
    /// The entity to be created exists.
    #[error("an entity {name:?} exists already")]
    Exists {
        /// The name as given.
        name: String,
    },
    /// The request is invalid; the text is for the requester.
    #[error("{reason}")]
    Invalid {
        /// The error and the allowed values.
        reason: String,
    },
    /// The catalogue or a partition refused it for another reason, such as [`Refusal::TooManyEntities`] or
    /// [`Refusal::EntityDamaged`].
    #[error(transparent)]
    Refused(Refusal),
    /// The store is full or lost, or the broker is stopping.
    #[error(transparent)]
    Store(#[from] peeklock_storage::Error),
}

impl From<StartError> for ChangeError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Storage(error) => Self::Store(error),
            StartError::Exists { name } => Self::Exists { name },
            StartError::NotFound { name } | StartError::NoSuchTopic { name } => Self::NotFound { name },
            StartError::Refused { name, refusal } => Self::refused(&name, refusal),
            other => Self::Invalid { reason: other.to_string() },
        }
    }
}

impl ChangeError {
    /// A change to `name` that its partition refused.
    pub(super) fn refused(name: &str, refusal: Refusal) -> Self {
        let name = name.to_owned();
        match refusal {
            Refusal::EntityDeleted | Refusal::RuleNotFound(_) => Self::NotFound { name },
            Refusal::RuleExists(_) | Refusal::SubscriptionExists(_) => Self::Exists { name },
            Refusal::StorageFull => {
                Self::Store(peeklock_storage::Error::Full { reason: refusal.to_string() })
            }
            Refusal::Unavailable | Refusal::StorageFailing => {
                Self::Store(peeklock_storage::Error::Unavailable { reason: refusal.to_string() })
            }
            Refusal::InvalidArgument(reason) => Self::Invalid { reason },
            other => Self::Refused(other),
        }
    }
}
