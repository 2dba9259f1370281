//! Durability classes of events.

use crate::event::{Change, Event};

/// The durability class of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Not stored, lost at a restart: locks, credit.
    Volatile,
    /// Stored, but effects do not wait: delivery counts.
    Lazy,
    /// Stored, and effects wait until it is durable.
    Sync,
}

impl Event {
    /// Its durability class.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self {
            Self::Published(published) if published.copies.is_empty() && published.scheduled.is_none() => {
                Durability::Volatile
            }
            Self::BodyKept { .. } | Self::TombstoneRemoved { .. } | Self::NumbersReserved { .. } => {
                Durability::Lazy
            }
            Self::Accepted { .. }
            | Self::Published(_)
            | Self::Activated { .. }
            | Self::Removed { .. }
            | Self::Deleted(_)
            | Self::SessionStateSet { .. }
            | Self::SubscriptionSet(_)
            | Self::SubscriptionRemoved { .. }
            | Self::Remembered { .. } => Durability::Sync,
            Self::Changed { change: Change::Returned | Change::HeldBackNoLonger, .. }
            | Self::Used { stored: true, .. }
            | Self::Forgotten { .. } => Durability::Lazy,
            Self::Changed { .. } => Durability::Sync,
            Self::Locked { .. }
            | Self::Renewed { .. }
            | Self::Released { .. }
            | Self::ReceiverOpened { .. }
            | Self::Selection { .. }
            | Self::CreditSet { .. }
            | Self::CreditDrained { .. }
            | Self::ReceiverClosed { .. }
            | Self::Watched { .. }
            | Self::SessionAwaited { .. }
            | Self::SessionNotAwaited { .. }
            | Self::SessionLocked { .. }
            | Self::SessionTaken { .. }
            | Self::SessionRenewed { .. }
            | Self::SessionUnlocked { .. }
            | Self::Used { stored: false, .. }
            | Self::Quarantined { .. }
            | Self::NotDelivered { .. }
            | Self::OptionsChanged { .. }
            | Self::Ended => Durability::Volatile,
        }
    }

    /// Whether it only adds or removes messages. If so, the stored state of all other messages remains valid while this event
    /// is not durable yet.
    #[must_use]
    pub fn leaves_others_as_they_are(&self) -> bool {
        match self {
            Self::Accepted { .. } | Self::Removed { .. } | Self::Deleted(_) | Self::Remembered { .. } => true,
            Self::Published(published) => published.content.is_some(),
            other => other.durability() != Durability::Sync,
        }
    }
}
