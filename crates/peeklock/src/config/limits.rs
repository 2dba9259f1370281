//! `[limits]`: bounds of what may be asked for.

use std::ops::RangeInclusive;

use peeklock_engine::RuleLimits;

use super::entity;
use super::size;
use super::table::Table;

/// Service Bus's own minimum of `auto_delete_on_idle` (S-27).
const AUTO_DELETE_ON_IDLE_MIN_MS: u64 = 5 * 60 * 1_000;
/// Below 100 ms an entity is gone before its first client has connected.
const AUTO_DELETE_ON_IDLE_MIN_RANGE_MS: RangeInclusive<u64> = 100..=AUTO_DELETE_ON_IDLE_MIN_MS;

/// Service Bus's own maximum of queues and topics in a namespace.
const ENTITIES_MAX: u64 = 10_000;
const ENTITIES_RANGE: RangeInclusive<u64> = 1..=1_000_000;
/// Each subscription is an entity with memory of its own.
const SUBSCRIPTIONS_RANGE: RangeInclusive<u64> = 1..=1_000_000;
/// Without any, none is accepted.
const FILTERS_RANGE: RangeInclusive<u64> = 0..=10_000_000;
/// Longer texts do not fit beside others into what is stored of a subscription.
const EXPRESSION_CHARACTERS_RANGE: RangeInclusive<u64> = 1..=65_536;
const STATEMENTS_RANGE: RangeInclusive<u64> = 1..=4_096;

const MEMORY_BYTES: RangeInclusive<u64> = 4 << 20..=1024 << 30;

/// The budget of memory holds the largest partly received messages of one connection so many times, so that a connection
/// whose message is as large as allowed may go on while others hold something as well.
pub(crate) const LARGEST_PARTS_OF_MEMORY: u64 = 4;

/// What no entity may go beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitsConfig {
    /// Least `auto_delete_on_idle` of any entity; lower than Service Bus's only for tests.
    pub(crate) auto_delete_on_idle_min_ms: u64,
    /// Default and maximum of every `default_message_time_to_live`; `None` for no limit (S-15).
    pub(crate) message_time_to_live_max_ms: Option<u64>,
    /// Queues and topics together, beyond which none is created.
    pub(crate) entities_max: u64,
    /// Memory that peers may make the process hold, in bytes; `None` for a part of the machine's or container's.
    pub(crate) memory_bytes_max: Option<u64>,
    /// How much topics may have of subscriptions and rules.
    pub(crate) rules: RuleLimits,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            auto_delete_on_idle_min_ms: AUTO_DELETE_ON_IDLE_MIN_MS,
            message_time_to_live_max_ms: None,
            entities_max: ENTITIES_MAX,
            memory_bytes_max: None,
            rules: RuleLimits::default(),
        }
    }
}

impl LimitsConfig {
    /// Whether the memory holds what a connection may send.
    ///
    /// # Errors
    /// What to write instead.
    pub(super) fn check(&self, reassembly_bytes_max: u64) -> Result<(), String> {
        let least = reassembly_bytes_max.saturating_mul(LARGEST_PARTS_OF_MEMORY);
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
        message_time_to_live_max_ms: entity::time_to_live_ms(&mut table, "message_time_to_live_max"),
        entities_max: table.integer("entities_max", default.entities_max, &ENTITIES_RANGE),
        memory_bytes_max: read_memory(&mut table),
        rules: read_rules(&mut table, &default.rules),
    };
    table.finish();
    config
}

fn read_memory(table: &mut Table<'_, '_>) -> Option<u64> {
    let read = table.text("memory_max", "\"512 MiB\"", |text| match text {
        "automatic" => Ok(None),
        _ => size::parse_in(text, &MEMORY_BYTES).map(Some),
    });
    read.flatten()
}

fn read_rules(table: &mut Table<'_, '_>, default: &RuleLimits) -> RuleLimits {
    let mut number = |key, default: usize, range| {
        let number = table.integer(key, default as u64, &range);
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    RuleLimits {
        subscriptions_per_topic: number(
            "subscriptions_per_topic",
            default.subscriptions_per_topic,
            SUBSCRIPTIONS_RANGE,
        ),
        sql_filters_per_topic: number("sql_filters_per_topic", default.sql_filters_per_topic, FILTERS_RANGE),
        correlation_filters_per_topic: number(
            "correlation_filters_per_topic",
            default.correlation_filters_per_topic,
            FILTERS_RANGE,
        ),
        sql_expression_characters: number(
            "sql_expression_characters",
            default.sql_expression_characters,
            EXPRESSION_CHARACTERS_RANGE,
        ),
        action_statements: number("action_statements", default.action_statements, STATEMENTS_RANGE),
    }
}
