//! How the broker is: alive as long as it answers at all, ready while it accepts connections and its store is sound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

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
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<AtomicU8>);

impl Health {
    /// From now on it is so.
    pub(super) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }

    /// How it is.
    pub(super) fn state(&self) -> State {
        let states = [State::Starting, State::Ready, State::Draining];
        let state = self.0.load(Ordering::Acquire);
        states.into_iter().find(|known| *known as u8 == state).unwrap_or(State::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_told() {
        let health = Health::default();
        assert_eq!(health.state(), State::Starting);
        for state in [State::Ready, State::Draining, State::Lost, State::Starting] {
            health.set(state);
            assert_eq!(health.state(), state);
        }
    }
}
