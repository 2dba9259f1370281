//! Facts: what happened to a partition. Only these change its state, and only these are stored.

/// Placeholder until the partition lands.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {}

/// How much an event weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Gone after a restart: locks, credit.
    Volatile,
    /// Written, not waited for: delivery counts.
    Lazy,
    /// Effects wait until it is durable.
    Sync,
}
