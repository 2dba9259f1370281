//! Errors of starting a namespace.

/// Reasons why a namespace did not start, or a declaration was refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StartError {
    /// The store reported an error.
    #[error(transparent)]
    Storage(#[from] peeklock_storage::Error),
    /// A stored record can't be understood.
    #[error("stored record of partition {partition} can't be read: {reason}")]
    Record {
        /// The partition.
        partition: u64,
        /// A description of the fault.
        reason: String,
    },
    /// The stored state of this entity, or of one whose name can't be read and that may be this one, is damaged.
    #[error(
        "the stored data of {name:?}, or of an entity whose name can't be read, is damaged; see `peeklock store check`"
    )]
    Damaged {
        /// The name as given.
        name: String,
    },
    /// An entity can't have this name.
    #[error("{name:?} can't be the name of an entity: {reason}")]
    InvalidName {
        /// The name as given.
        name: String,
        /// A description of the fault.
        reason: String,
    },
    /// An entity can't have these options.
    #[error("{name:?} can't have these options: {reason}")]
    InvalidOptions {
        /// The entity.
        name: String,
        /// The option, and its allowed values.
        reason: String,
    },
    /// The entity to be created exists.
    #[error("an entity {name:?} exists already")]
    Exists {
        /// The name as given.
        name: String,
    },
    /// The entity to be changed does not exist.
    #[error("there is no entity {name:?}")]
    NotFound {
        /// The name as given.
        name: String,
    },
    /// Subscriptions were declared for an entity that is not a topic.
    #[error("there is no topic {name:?}")]
    NoSuchTopic {
        /// The name as given.
        name: String,
    },
    /// The topic refused the subscription, or the namespace is full.
    #[error("{name:?}: {refusal}")]
    Refused {
        /// The subscription, queue or topic.
        name: String,
        /// The reason.
        refusal: crate::Refusal,
    },
    /// The operating system provided no randomness.
    #[error("the operating system gave no random numbers: {0}")]
    Randomness(String),
}
