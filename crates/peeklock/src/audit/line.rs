//! An event as a line.

use std::fmt;

use peeklock_wire::loggable_within;
use serde_json::{Map, Value};
use tracing::Event;
use tracing::field::{Field, Visit};

/// Longest text of one field, in characters: names of entities come from peers.
const TEXT_CHARACTERS_MAX: usize = 1_024;

/// The time and the fields of an event as a JSON object, with the end of its line.
pub(super) fn of(event: &Event<'_>) -> String {
    let mut fields = Fields(Map::new());
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    fields.0.insert("time".to_owned(), now.into());
    event.record(&mut fields);
    let mut line = Value::Object(fields.0).to_string();
    line.push('\n');
    line
}

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, &*loggable_within(value, TEXT_CHARACTERS_MAX));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
