//! Times of an entity's declarations.

use crate::Timestamp;

/// Times of an entity's declarations; the epoch if unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntityTimes {
    /// When it was created.
    pub created_at: Timestamp,
    /// When its options were last changed.
    pub updated_at: Timestamp,
}
