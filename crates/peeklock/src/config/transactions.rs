//! `[transactions]`: limits of transactions over AMQP.

use std::ops::RangeInclusive;

use peeklock_amqp::servicebus::TransactionLimits;

use super::table::Table;

const SECOND_MS: u64 = 1_000;

/// Limited, because messages are held in memory until the commit.
const TIME_OUT_MS: RangeInclusive<u64> = SECOND_MS..=3_600 * SECOND_MS;
/// Limited, because a commit is one batch of the store.
const MESSAGES: RangeInclusive<u64> = 1..=10_000;
const OPEN: RangeInclusive<u64> = 1..=100_000;

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> TransactionLimits {
    let default = TransactionLimits::default();
    let limits = TransactionLimits {
        time_out_ms: table.duration_ms("time_out", default.time_out_ms, &TIME_OUT_MS),
        messages_max: count(&mut table, "messages", default.messages_max, &MESSAGES),
        open_max: count(&mut table, "open_per_connection", default.open_max, &OPEN),
    };
    table.finish();
    limits
}

fn count(table: &mut Table<'_, '_>, key: &'static str, default: usize, range: &RangeInclusive<u64>) -> usize {
    let number = table.integer(key, default as u64, range);
    usize::try_from(number).unwrap_or(usize::MAX)
}
