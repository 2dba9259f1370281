//! Limits lines caused by peers: a burst of each kind, and a rate afterwards. Dropped lines are counted, and the count
//! is logged later.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

use crate::audit;

/// Lines of a kind that may be logged in a burst.
const BURST: u32 = 50;
/// Interval at which one more may be logged.
const REFILL_EVERY: Duration = Duration::from_millis(200);
/// Interval of logging the counts of dropped lines.
pub(super) const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Modules with lines that peers can cause at will; operators' actions are logged completely.
const PEERS: [&str; 7] = [
    "peeklock_amqp",
    "peeklock_net",
    "peeklock_admin",
    "peeklock_access",
    "peeklock_console",
    "peeklock::serve::http",
    audit::TARGET,
];

/// Rate limits of lines by call site; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct LineLimit(Arc<Mutex<HashMap<Identifier, Kind>>>);

/// The lines of one call site.
#[derive(Debug)]
struct Kind {
    words: String,
    left: u32,
    refilled_at: Instant,
    left_out: u64,
}

impl LineLimit {
    /// Whether an event is logged. Audit lines are dropped only if they are about peers without a credential.
    pub(crate) fn admits(&self, event: &Event<'_>) -> bool {
        if !is_limited(event) {
            return true;
        }
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(event.metadata().callsite()).or_insert_with(|| Kind::new(event));
        kind.take(Instant::now())
    }

    /// Counts of dropped lines since the last call, by their text.
    pub(super) fn take_left_out(&self) -> Vec<(String, u64)> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = kinds.values_mut().filter(|kind| kind.left_out > 0);
        left_out.map(|kind| (kind.words.clone(), std::mem::take(&mut kind.left_out))).collect()
    }
}

// Without `callsite_enabled`: for a call site that is always enabled, tracing does not let a filter refuse a single
// event.
impl<S> Filter<S> for LineLimit {
    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        self.admits(event)
    }
}

impl Kind {
    fn new(event: &Event<'_>) -> Self {
        let mut words = Words::default();
        event.record(&mut words);
        let words = format!("{}: {}", event.metadata().target(), words.message);
        Self { words, left: BURST, refilled_at: Instant::now(), left_out: 0 }
    }

    fn take(&mut self, now: Instant) -> bool {
        let refills = now.duration_since(self.refilled_at).as_millis() / REFILL_EVERY.as_millis();
        if let Ok(refills @ 1..) = u32::try_from(refills) {
            self.left = self.left.saturating_add(refills).min(BURST);
            self.refilled_at = now;
        }
        let Some(left) = self.left.checked_sub(1) else {
            self.left_out += 1;
            return false;
        };
        self.left = left;
        true
    }
}

/// Whether the rate of such lines is limited. Below the level info all lines are logged.
fn is_limited(event: &Event<'_>) -> bool {
    let metadata = event.metadata();
    let is_of = |place: &&str| metadata.target().starts_with(*place);
    if *metadata.level() > Level::INFO || !PEERS.iter().any(is_of) {
        return false;
    }
    if metadata.target() != audit::TARGET {
        return true;
    }
    let mut words = Words::default();
    event.record(&mut words);
    words.has_peer && !words.has_principal
}

/// The text and relevant fields of an event.
#[derive(Debug, Default)]
struct Words {
    message: String,
    has_peer: bool,
    has_principal: bool,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "peer" => self.has_peer = true,
            "principal" => self.has_principal = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kind_are_few_after_the_first_and_counted() {
        let start = Instant::now();
        let mut kind = Kind { words: String::new(), left: BURST, refilled_at: start, left_out: 0 };
        let taken = (0..1_000).filter(|_| kind.take(start)).count();
        assert_eq!((taken, kind.left_out), (50, 950));
        kind.left_out = 0;
        let later = start + 2 * REFILL_EVERY;
        assert_eq!((0..10).filter(|_| kind.take(later)).count(), 2);
        assert_eq!(kind.left_out, 8);
    }
}
