//! `[limits]`: limits of entities and memory.

use std::ops::RangeInclusive;

use peeklock_engine::schema::TIME_TO_LIVE_MS_MIN;
use peeklock_engine::{RULE_LIMITS, RuleLimits, Tier};

use super::duration;
use super::size;
use super::table::Table;

/// Service Bus's own minimum of `auto_delete_on_idle` (S-27).
const AUTO_DELETE_ON_IDLE_MIN_MS: u64 = 5 * 60 * 1_000;
/// Below 100 ms an entity is deleted before its first client has connected.
const AUTO_DELETE_ON_IDLE_MIN_RANGE_MS: RangeInclusive<u64> = 100..=AUTO_DELETE_ON_IDLE_MIN_MS;

/// Service Bus's own maximum of queues and topics in a namespace.
const ENTITIES_MAX: u64 = 10_000;
const ENTITIES_RANGE: RangeInclusive<u64> = 1..=1_000_000;
const MEMORY_BYTES: RangeInclusive<u64> = 4 << 20..=1024 << 30;
/// An idle broker uses some 30 MiB.
const STATE_MEMORY_BYTES: RangeInclusive<u64> = 64 << 20..=16_384 << 30;

/// The memory budget holds the largest partly received messages of one connection this many times, so that a connection
/// with a message of maximum size can make progress while others hold memory as well.
pub(crate) const LARGEST_PARTS_OF_MEMORY: u64 = 4;

/// Default maximum of partly received messages of a connection where the memory allows it: the largest message that an
/// entity may have, in a request to schedule it.
const REASSEMBLY_BYTES_MAX: u64 = 104 << 20;

/// Limits that apply to all entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitsConfig {
    /// Minimum of every `auto_delete_on_idle`; lower than Service Bus's only for tests.
    pub(crate) auto_delete_on_idle_min_ms: u64,
    /// Default and maximum of every `default_message_time_to_live`; `None` for no limit (S-15).
    pub(crate) message_time_to_live_max_ms: Option<u64>,
    /// Maximum number of queues and topics together.
    pub(crate) entities_max: u64,
    /// Memory that peers may make the process hold, in bytes; `None` for a part of the machine's or container's.
    pub(crate) memory_bytes_max: Option<u64>,
    /// Memory for the broker's state of everything stored, in bytes; `None` for a part of the machine's or container's.
    pub(crate) state_memory_bytes_max: Option<u64>,
    /// Limits of subscriptions and rules per topic.
    pub(crate) rules: RuleLimits,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            auto_delete_on_idle_min_ms: AUTO_DELETE_ON_IDLE_MIN_MS,
            message_time_to_live_max_ms: None,
            entities_max: ENTITIES_MAX,
            memory_bytes_max: None,
            state_memory_bytes_max: None,
            rules: RuleLimits::default(),
        }
    }
}

impl LimitsConfig {
    /// Applies the limits of the tier as well.
    pub(super) fn within(self, tier: Tier) -> Self {
        let limits = [self.message_time_to_live_max_ms, tier.time_to_live_ms_max()];
        Self { message_time_to_live_max_ms: limits.into_iter().flatten().min(), ..self }
    }

    /// Maximum size of partly received messages of a connection in bytes: the configured one, or what a budget of
    /// `memory_bytes` allows. Without a budget, as on a machine with enough memory.
    pub(crate) fn reassembly_bytes_max(asked: Option<u64>, memory_bytes: Option<u64>) -> u64 {
        let automatic = memory_bytes.map_or(u64::MAX, |bytes| bytes / LARGEST_PARTS_OF_MEMORY);
        asked.unwrap_or(automatic.min(REASSEMBLY_BYTES_MAX))
    }

    /// Checks that the memory is enough for the messages that a connection may send.
    ///
    /// # Errors
    /// A message with the valid form.
    pub(super) fn check(&self, reassembly_bytes_max: Option<u64>) -> Result<(), String> {
        let least = reassembly_bytes_max.unwrap_or(0).saturating_mul(LARGEST_PARTS_OF_MEMORY);
        match self.memory_bytes_max {
            Some(bytes) if bytes < least => Err(format!(
                "memory_max in [limits] is {}, less than {LARGEST_PARTS_OF_MEMORY} times reassembly_size_max in [amqp]; write at least \"{}\", or a smaller reassembly_size_max",
                size::display(bytes),
                size::display(least)
            )),
            _ => Ok(()),
        }
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
        message_time_to_live_max_ms: read_time_to_live(&mut table),
        entities_max: table.integer("entities_max", default.entities_max, &ENTITIES_RANGE),
        memory_bytes_max: table.size_bytes_or_automatic("memory_max", "512 MiB", &MEMORY_BYTES),
        state_memory_bytes_max: table.size_bytes_or_automatic(
            "state_memory_max",
            "2 GiB",
            &STATE_MEMORY_BYTES,
        ),
        rules: read_rules(&mut table),
    };
    table.finish();
    config
}

fn read_time_to_live(table: &mut Table<'_, '_>) -> Option<u64> {
    let parse = |text: &str| {
        let too_short = || duration::too_short(text, TIME_TO_LIVE_MS_MIN);
        duration::parse_open(text, TIME_TO_LIVE_MS_MIN, too_short)
    };
    table.text("message_time_to_live_max", "\"P14D\"", parse).flatten()
}

fn read_rules(table: &mut Table<'_, '_>) -> RuleLimits {
    let mut limits = RuleLimits::default();
    for limit in RULE_LIMITS {
        let slot = (limit.get_mut)(&mut limits);
        let number = table.integer(limit.name, *slot as u64, &limit.range);
        *slot = usize::try_from(number).unwrap_or(usize::MAX);
    }
    limits
}
