//! `[limits]`: bounds of what may be asked for.

use std::ops::RangeInclusive;

use super::entity;
use super::table::Table;

/// Service Bus's own minimum of `auto_delete_on_idle` (S-27).
const AUTO_DELETE_ON_IDLE_MIN_MS: u64 = 5 * 60 * 1_000;
/// Below 100 ms an entity is gone before its first client has connected.
const AUTO_DELETE_ON_IDLE_MIN_RANGE_MS: RangeInclusive<u64> = 100..=AUTO_DELETE_ON_IDLE_MIN_MS;

/// What no entity may go beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitsConfig {
    /// Least `auto_delete_on_idle` of any entity; lower than Service Bus's only for tests.
    pub(crate) auto_delete_on_idle_min_ms: u64,
    /// Default and maximum of every `default_message_time_to_live`; `None` for no limit (S-15).
    pub(crate) message_time_to_live_max_ms: Option<u64>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self { auto_delete_on_idle_min_ms: AUTO_DELETE_ON_IDLE_MIN_MS, message_time_to_live_max_ms: None }
    }
}

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> LimitsConfig {
    let default = LimitsConfig::default();
    let config = LimitsConfig {
        auto_delete_on_idle_min_ms: table.duration_ms(
            "auto_delete_on_idle_min",
            default.auto_delete_on_idle_min_ms,
            &AUTO_DELETE_ON_IDLE_MIN_RANGE_MS,
        ),
        message_time_to_live_max_ms: entity::time_to_live_ms(&mut table, "message_time_to_live_max"),
    };
    table.finish();
    config
}
