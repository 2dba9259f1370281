//! Limits of the options that an administrator may set.

use peeklock_engine::Tier;

/// Limits from the broker's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Minimum of `AutoDeleteOnIdle`, in milliseconds; Service Bus's is five minutes (S-27).
    pub auto_delete_on_idle_min_ms: u64,
    /// Default and maximum of every `DefaultMessageTimeToLive`, in milliseconds; `None` for no limit (S-15).
    pub message_time_to_live_max_ms: Option<u64>,
    /// Largest message that store and connections allow, in bytes.
    pub message_size_max_bytes: u64,
    /// The tier whose limits apply to entities.
    pub tier: Tier,
}

impl Default for Limits {
    /// Service Bus's limits in its Premium tier.
    fn default() -> Self {
        Self {
            auto_delete_on_idle_min_ms: 5 * 60 * 1_000,
            message_time_to_live_max_ms: None,
            message_size_max_bytes: 100 << 20,
            tier: Tier::Premium,
        }
    }
}
