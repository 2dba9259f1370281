//! When an entity was declared.

use crate::Timestamp;

/// When an entity was declared; the epoch where nobody noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntityTimes {
    /// When it was created.
    pub created_at: Timestamp,
    /// When its options were changed last.
    pub updated_at: Timestamp,
}
