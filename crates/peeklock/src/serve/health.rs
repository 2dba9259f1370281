//! How the broker is: alive as long as it answers at all, ready while it accepts connections and its store is sound.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use peeklock_engine::runtime::{Damage, Namespace};
use serde_json::{Value, json};

/// Damages listed at most: whoever asks need not have authenticated, and the log has them all.
const DAMAGES_LISTED_MAX: usize = 100;

/// How far the broker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// The store is being opened.
    Starting,
    /// Connections are accepted.
    Ready,
    /// A stop was asked for.
    Draining,
    /// Nothing more can be stored; the process ends.
    Lost,
}

impl State {
    /// As `/health/ready` tells it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Lost => "storage lost",
        }
    }
}

/// Shared by whoever changes it and whoever reports it; starts as [`State::Starting`].
#[derive(Clone, Default)]
pub(super) struct Health {
    state: Arc<AtomicU8>,
    namespace: Arc<Mutex<Option<Namespace>>>,
}

impl Health {
    /// From now on it is so.
    pub(super) fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// How it is.
    pub(super) fn state(&self) -> State {
        let states = [State::Starting, State::Ready, State::Draining];
        let state = self.state.load(Ordering::Acquire);
        states.into_iter().find(|known| *known as u8 == state).unwrap_or(State::Lost)
    }

    /// From now on damage is that of this namespace; `None` lets go of it.
    pub(super) fn set_namespace(&self, namespace: Option<Namespace>) {
        *self.namespace.lock().unwrap_or_else(PoisonError::into_inner) = namespace;
    }

    /// What `/health/ready` answers: the state, and what is damaged if anything is.
    pub(super) fn report(&self) -> Value {
        let status = self.state().name();
        let namespace = self.namespace.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let count = namespace.as_ref().map_or(0, Namespace::damage_count);
        if count == 0 {
            return json!({ "status": status });
        }
        let damage = namespace.map(|namespace| namespace.damage()).unwrap_or_default();
        let listed: Vec<Value> = damage.iter().take(DAMAGES_LISTED_MAX).map(describe).collect();
        json!({ "status": status, "degraded": true, "damage_count": count, "damage": listed })
    }
}

fn describe(damage: &Damage) -> Value {
    let file = damage.file.as_ref().and_then(|file| file.file_name());
    json!({
        "entity": damage.entity,
        "sequence_number": damage.sequence_number,
        "file": file.map(|file| file.to_string_lossy()),
        "offset": damage.offset,
        "reason": damage.reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_told() {
        let health = Health::default();
        assert_eq!(health.report(), json!({ "status": "starting" }));
        assert_eq!(health.state(), State::Starting);
        for state in [State::Ready, State::Draining, State::Lost, State::Starting] {
            health.set(state);
            assert_eq!(health.state(), state);
        }
    }
}
