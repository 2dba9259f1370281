//! Keeps the last lines in memory for the management API.

use peeklock_console::{LogKind, LogLine, LogRing};
use peeklock_engine::Timestamp;
use serde_json::Value;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::fields;
use crate::audit;

/// Longest text of one field, in characters.
const TEXT_CHARACTERS_MAX: usize = 512;

/// Keeps the events that it receives.
pub(super) struct RingLayer(pub(super) LogRing);

impl<S: Subscriber> Layer<S> for RingLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        keep(&self.0, event);
    }
}

/// Keeps an event.
pub(crate) fn keep(ring: &LogRing, event: &Event<'_>) {
    let metadata = event.metadata();
    let mut fields = fields(event, TEXT_CHARACTERS_MAX);
    let message = match fields.remove("message") {
        Some(Value::String(message)) => message,
        _ => String::new(),
    };
    let kind = if metadata.target() == audit::TARGET { LogKind::Audit } else { LogKind::Log };
    let at = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    let line = LogLine {
        at: Timestamp(at),
        level: metadata.level().as_str(),
        target: metadata.target(),
        message,
        fields,
    };
    ring.push(kind, line);
}
