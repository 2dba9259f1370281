//! Administrative changes by operation and outcome, for metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use peeklock_metrics::{Family, Page, Source, Unit};
use tracing::Event;
use tracing::field::{Field, Visit};

const CHANGES: Family = Family::counter(
    "peeklock_admin_changes",
    Unit::None,
    "Administrative changes, made or refused, by operation and outcome.",
);
/// The outcome in events of changes that were made; refused ones have the reason.
const OK: &str = "ok";

/// Counters of changes by operation and outcome; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<BTreeMap<(String, &'static str), u64>>>);

impl Changes {
    /// Counts an event. Operations are constants in the code, so they are few.
    pub(super) fn note(&self, event: &Event<'_>) {
        let mut read = Read { operation: String::new(), is_ok: false };
        event.record(&mut read);
        let outcome = if read.is_ok { OK } else { "refused" };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((read.operation, outcome)).or_default() += 1;
    }
}

impl Source for Changes {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let labels = |(operation, outcome): (String, &str)| {
            [("operation", operation), ("outcome", outcome.to_owned())]
        };
        page.each(&CHANGES, counts.into_iter().map(|(change, count)| (labels(change), count)))
    }
}

struct Read {
    operation: String,
    is_ok: bool,
}

impl Visit for Read {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "operation" => value.clone_into(&mut self.operation),
            "outcome" => self.is_ok = value == OK,
            _ => {}
        }
    }

    /// Ignores values that are not text: they are not the fields above, or the error of a reload.
    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use crate::audit::{AuditControl, TARGET};

    #[test]
    fn changes_are_counted_wherever_the_audit_log_goes() {
        let control = AuditControl::default();
        let metrics = peeklock_metrics::Metrics::default();
        metrics.register(control.changes());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(control.layer()), || {
            for outcome in ["ok", "ok", "there is no such queue"] {
                tracing::info!(target: TARGET, operation = "create", entity = "a", outcome);
            }
            tracing::info!(target: TARGET, operation = "reload", outcome = %"a mistake");
        });
        let text = metrics.text().unwrap();
        for line in [
            "create\",outcome=\"ok\"} 2",
            "create\",outcome=\"refused\"} 1",
            "reload\",outcome=\"refused\"} 1",
        ] {
            assert!(text.contains(&format!("peeklock_admin_changes_total{{operation=\"{line}\n")), "{text}");
        }
    }
}
