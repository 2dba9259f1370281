//! Why an administrator's change was not made.

use super::StartError;
use crate::Refusal;

/// Why a change was not made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ChangeError {
    /// What is to be changed, or what it belongs to, does not exist.
    #[error("there is no entity {name:?}")]
    NotFound {
        /// The name as given.
        name: String,
    },
    /// What is to be created exists.
    #[error("an entity {name:?} exists already")]
    Exists {
        /// The name as given.
        name: String,
    },
    /// What was asked for is not possible; a text for whoever asked.
    #[error("{reason}")]
    Invalid {
        /// What is wrong, and what it must be.
        reason: String,
    },
    /// The catalogue or a partition refused it for another reason, such as [`Refusal::TooManyEntities`] or
    /// [`Refusal::EntityDamaged`].
    #[error(transparent)]
    Refused(Refusal),
    /// The store is full or lost, or the broker stops.
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
            Refusal::Unavailable => {
                Self::Store(peeklock_storage::Error::Unavailable { reason: refusal.to_string() })
            }
            Refusal::InvalidArgument(reason) => Self::Invalid { reason },
            other => Self::Refused(other),
        }
    }
}
