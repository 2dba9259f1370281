//! The fields of an event as JSON.

use std::fmt;

use peeklock_wire::loggable_within;
use serde_json::{Map, Value};
use tracing::Event;
use tracing::field::{Field, Visit};

/// The fields of an event, including its message; texts are escaped and cut after this many characters, because some
/// come from peers.
pub(crate) fn fields(event: &Event<'_>, text_characters_max: usize) -> Map<String, Value> {
    let mut fields = Fields { values: Map::new(), text_characters_max };
    event.record(&mut fields);
    fields.values
}

struct Fields {
    values: Map<String, Value>,
    text_characters_max: usize,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.values.insert(field.name().to_owned(), value.into());
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
        self.put(field, &*loggable_within(value, self.text_characters_max));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
