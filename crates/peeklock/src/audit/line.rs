//! Formats an event as a line.

use serde_json::{Map, Value};
use tracing::Event;

use crate::logging;

/// Longest text of one field, in characters: names of entities are chosen by peers.
const TEXT_CHARACTERS_MAX: usize = 1_024;

/// The time and the fields of an event as a JSON object, with the end of its line.
pub(super) fn of(event: &Event<'_>) -> String {
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let mut values = Map::from_iter([("time".to_owned(), Value::from(now))]);
    values.extend(logging::fields(event, TEXT_CHARACTERS_MAX));
    let mut line = Value::Object(values).to_string();
    line.push('\n');
    line
}
