//! The tiers of Service Bus.

/// A tier, the lowest first; a higher one has everything that a lower one has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Tier {
    /// Queues without sessions, duplicate detection, forwarding and transactions.
    Basic,
    /// Everything but large messages.
    Standard,
    /// Everything.
    #[default]
    Premium,
}
