//! `GET overview`: sums over the whole namespace.

use std::sync::PoisonError;
use std::time::Duration;

use peeklock_budget::Owner;
use peeklock_budget::state::State;
use peeklock_engine::Totals;
use peeklock_engine::partition::Counts;
use peeklock_engine::runtime::{Shortage, Sums};
use serde_json::{Map, Value as Json, json};
use tokio::time::Instant;

use crate::answer::{Outcome, found};
use crate::call::Call;
use crate::{Console, DiskBytes, time};

/// How long sums are cached before all entities are examined again.
const KEPT: Duration = Duration::from_secs(1);

/// The last sums.
#[derive(Debug, Default)]
pub(crate) struct Cache(Option<(Instant, Sums)>);

/// Returns the sums, memory usage and damage.
pub(crate) fn get(console: &Console, call: &Call) -> Outcome {
    call.manage(console)?;
    let admin = &console.admin;
    let (namespace, sums) = (&admin.namespace, sums(console));
    let (budget, now) = (namespace.budget(), namespace.clock().now());
    let used: Map<String, Json> =
        Owner::ALL.into_iter().map(|owner| (owner.name().to_owned(), json!(budget.used_by(owner)))).collect();
    found(json!({
        "now": time::text(now),
        "version": console.about.version,
        "uptime_ms": u64::try_from(admin.uptime().as_millis()).unwrap_or(u64::MAX),
        "entities": {
            "queues": sums.queues,
            "topics": sums.topics,
            "subscriptions": sums.subscriptions,
        },
        "connections": console.connections.count(),
        "messages": messages(&sums),
        "oldest_message_age_ms": sums.oldest.map(|oldest| now.0.saturating_sub(oldest.0)),
        "totals": totals(&sums.totals),
        "size_bytes": sums.counts.size_bytes,
        "memory": { "limit_bytes": budget.limit_bytes(), "used": used, "state": state(budget.state()) },
        "storage": storage(console),
        "damage": { "count": namespace.damage_count(), "quarantined_messages": sums.counts.quarantined },
    }))
}

/// Numbers of messages by state; locked ones are available only for the whole namespace.
fn messages(sums: &Sums) -> Json {
    let mut messages = counts(&sums.counts);
    if let Some(fields) = messages.as_object_mut() {
        fields.insert("locked".to_owned(), json!(sums.activity.locked));
    }
    messages
}

/// State of the stored data.
fn state(state: &State) -> Json {
    json!({
        "limit_bytes": state.limit_bytes(),
        "used_bytes": state.measured_bytes(),
        "pressure": if state.is_full() { "full" } else { "normal" },
    })
}

fn storage(console: &Console) -> Json {
    let pressure = match console.admin.namespace.shortage() {
        Some(Shortage::Storage) => "full",
        Some(Shortage::Writes) => "failing",
        Some(Shortage::Memory) | None => "normal",
    };
    match console.disk.as_ref().and_then(|disk| disk()) {
        None => json!({ "pressure": pressure }),
        Some(DiskBytes { live, dead, allocated, free }) => json!({
            "pressure": pressure,
            "live_bytes": live,
            "dead_bytes": dead,
            "allocated_bytes": allocated,
            "free_bytes": free,
        }),
    }
}

/// Examines all entities at most once in [`KEPT`], however many requests there are.
fn sums(console: &Console) -> Sums {
    let mut cache = console.overview.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    match cache.0 {
        Some((at, sums)) if now.duration_since(at) < KEPT => sums,
        _ => {
            let sums = console.admin.namespace.sums();
            cache.0 = Some((now, sums));
            sums
        }
    }
}

/// Numbers of messages by state. `active` is Service Bus's count: available, locked and deferred messages.
pub(crate) fn counts(counts: &Counts) -> Json {
    json!({
        "active": counts.active,
        "deferred": counts.deferred,
        "scheduled": counts.scheduled,
        "dead_lettered": counts.dead_letter,
        "transfer_dead_lettered": counts.transfer_dead_letter,
        "quarantined": counts.quarantined,
    })
}

/// Counters of messages since the broker started.
pub(crate) fn totals(totals: &Totals) -> Json {
    json!({
        "accepted": totals.accepted,
        "delivered": totals.delivered,
        "completed": totals.completed,
        "abandoned": totals.abandoned,
        "deferred": totals.deferred,
        "dead_lettered": totals.dead_lettered(),
        "expired": totals.expired,
    })
}
