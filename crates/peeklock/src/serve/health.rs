//! Health of the broker: alive while it answers, ready while it accepts connections and its store is intact.

use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use peeklock_engine::runtime::{Damage, Namespace, Shortage};
use peeklock_storage::{Place, ScrubDamage};
use serde_json::{Map, Value, json};
use tokio::sync::watch;

/// Maximum number of damages listed: unauthenticated clients may query them, and the log has all.
const DAMAGES_LISTED_MAX: usize = 100;

/// The state of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// The store is being opened.
    Starting,
    /// Another node of the cluster serves, or this one is taking over.
    Standby,
    /// Connections are accepted.
    Ready,
    /// A stop was requested.
    Draining,
    /// Nothing more can be stored; the process is ending.
    Lost,
}

impl State {
    /// The state's name in `/health/ready`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Standby => "standby",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Lost => "storage lost",
        }
    }
}

/// State shared by its writers and reporters; starts as [`State::Starting`].
#[derive(Clone, Default)]
pub(super) struct Health {
    state: Arc<AtomicU8>,
    namespace: Arc<Mutex<Option<Namespace>>>,
    scrubbed: Arc<Mutex<Option<Scrubbed>>>,
}

/// Damage found by the scrubber.
struct Scrubbed {
    damage: watch::Receiver<Vec<ScrubDamage>>,
    /// Number of entries already recorded in the namespace.
    noted: usize,
}

impl Health {
    /// Changes the state.
    pub(super) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// The state as set, unless the store is lost.
    pub(super) fn state(&self) -> State {
        let namespace = self.namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if namespace.as_ref().is_some_and(|namespace| namespace.lost_shard().is_some()) {
            return State::Lost;
        }
        let states = [State::Starting, State::Standby, State::Ready, State::Draining];
        let state = self.state.load(Ordering::Acquire);
        states.into_iter().find(|known| *known as u8 == state).unwrap_or(State::Lost)
    }

    /// Sets the namespace whose damage is reported; `None` removes it.
    pub(super) fn set_namespace(&self, namespace: Option<Namespace>) {
        *self.namespace.lock().unwrap_or_else(PoisonError::into_inner) = namespace;
    }

    /// Adds the damage found by the scrubber.
    pub(super) fn set_scrub_damage(&self, damage: watch::Receiver<Vec<ScrubDamage>>) {
        let scrubbed = Scrubbed { damage, noted: 0 };
        *self.scrubbed.lock().unwrap_or_else(PoisonError::into_inner) = Some(scrubbed);
    }

    /// The namespace, if there is one, with all known damage recorded.
    pub(super) fn namespace(&self) -> Option<Namespace> {
        let namespace = self.namespace.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        if let Some(scrubbed) = &mut *self.scrubbed.lock().unwrap_or_else(PoisonError::into_inner) {
            let all = scrubbed.damage.borrow();
            for ScrubDamage { file, offset, key, reason } in all.iter().skip(scrubbed.noted) {
                let reason = format!("found by reading the log again: {reason}");
                let place = Place { unit: file.display().to_string(), offset: *offset };
                namespace.note_damage(*key, place, reason);
            }
            scrubbed.noted = all.len();
        }
        Some(namespace)
    }

    /// The answer of `/health/ready`: the state, why sends are refused, and damage, if any.
    pub(super) fn report(&self) -> Value {
        let mut report = Map::new();
        report.insert("status".to_owned(), json!(self.state().name()));
        if let Some(namespace) = self.namespace() {
            if let Some(shortage) = namespace.shortage() {
                report.insert("sends_refused".to_owned(), json!(reason(shortage)));
            }
            report.extend(listed_damage(&namespace));
        }
        if report.len() > 1 {
            report.insert("degraded".to_owned(), json!(true));
        }
        Value::Object(report)
    }
}

const fn reason(shortage: Shortage) -> &'static str {
    match shortage {
        Shortage::Storage => "storage full",
        Shortage::Writes => "storage failing",
        Shortage::Memory => "memory full",
    }
}

fn listed_damage(namespace: &Namespace) -> Map<String, Value> {
    let mut report = Map::new();
    let count = namespace.damage_count();
    if count > 0 {
        let damage = namespace.damage();
        let listed: Vec<Value> = damage.iter().take(DAMAGES_LISTED_MAX).map(describe).collect();
        report.insert("damage_count".to_owned(), json!(count));
        report.insert("quarantined_messages".to_owned(), json!(namespace.quarantined_count()));
        report.insert("damage".to_owned(), json!(listed));
    }
    report
}

fn describe(damage: &Damage) -> Value {
    // Unauthenticated clients may query this, so the path of the data directory is only in the log.
    let file = damage.place.as_ref().and_then(|place| Path::new(&place.unit).file_name());
    json!({
        "entity": damage.entity,
        "sequence_number": damage.sequence_number,
        "file": file.map(|file| file.to_string_lossy()),
        "offset": damage.place.as_ref().map(|place| place.offset),
        "reason": damage.reason,
    })
}

#[cfg(test)]
mod tests {
    use peeklock_engine::Timestamp;
    use peeklock_engine::runtime::{ManualClock, NamespaceOptions};
    use peeklock_storage::{Error, MemoryStore, Pressure, ShardId, Store};

    use super::*;

    #[test]
    fn the_state_that_was_set_is_reported() {
        let health = Health::default();
        assert_eq!(health.report(), json!({ "status": "starting" }));
        assert_eq!(health.state(), State::Starting);
        for state in [State::Ready, State::Draining, State::Standby, State::Lost, State::Starting] {
            health.set(state);
            assert_eq!(health.state(), state);
        }
    }

    #[tokio::test]
    async fn a_broker_that_refuses_sends_is_degraded_and_one_whose_store_is_lost_is_not_ready() {
        let (store, clock) = (MemoryStore::new(), ManualClock::new(Timestamp(1_700_000_000_000)));
        let lease = store.acquire(ShardId(0)).await.unwrap();
        let namespace = Namespace::start(lease, Arc::new(clock), NamespaceOptions::default()).await.unwrap();
        let health = Health::default();
        health.set(State::Ready);
        health.set_namespace(Some(namespace.clone()));
        assert_eq!(health.report(), json!({ "status": "ready" }));
        store.set_pressure(Pressure::Full);
        let full = json!({ "status": "ready", "degraded": true, "sends_refused": "storage full" });
        assert_eq!(health.report(), full);
        store.set_pressure(Pressure::Failing);
        assert_eq!(health.report()["sends_refused"], "storage failing");
        store.set_pressure(Pressure::Normal);
        namespace.budget().state().measured(usize::MAX);
        let full = json!({ "status": "ready", "degraded": true, "sends_refused": "memory full" });
        assert_eq!(health.report(), full);
        store.lose(Error::InDoubt { reason: "test".to_owned() });
        namespace.shard_lost().await;
        assert_eq!(health.state(), State::Lost);
        assert_eq!(health.report().get("status"), Some(&json!("storage lost")));
    }
}
