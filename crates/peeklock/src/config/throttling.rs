//! `[throttling]`: limits of the messages per second that clients may send and request.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use peeklock_budget::throttle::Rates;

use super::table::Table;

/// 0 means no limit.
const MESSAGES_PER_SECOND: RangeInclusive<u64> = 0..=1_000_000;

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> Rates {
    let rates = Rates {
        connection: rate(&mut table, "connection"),
        identity: rate(&mut table, "identity"),
        entity: rate(&mut table, "entity"),
        entities: read_entities(&mut table),
    };
    table.finish();
    rates
}

fn read_entities(table: &mut Table<'_, '_>) -> HashMap<String, Option<u32>> {
    let mut entities = HashMap::new();
    for (mut inner, place) in table.array("entities", "throttling.entities") {
        let name = inner.text("name", "\"orders\"", |name| Ok(name.to_lowercase()));
        if inner.value("name").is_none() {
            inner.report(&place, "name", "missing; write name = \"orders\" or the like");
        }
        let rate = rate(&mut inner, "messages_per_second");
        inner.finish();
        if let Some(name) = name {
            entities.insert(name, rate);
        }
    }
    entities
}

fn rate(table: &mut Table<'_, '_>, key: &'static str) -> Option<u32> {
    let rate = table.integer(key, 0, &MESSAGES_PER_SECOND);
    u32::try_from(rate).ok().filter(|rate| *rate > 0)
}
