//! Time. All that decides takes it from here; docs/time.md is the policy.
//!
//! - [`SystemClock`] is the broker's: `machine` is what it reads, `steering` how it follows the wall clock.
//! - [`ElapsedClock`] only measures, for connections.
//! - [`TravelClock`] can be moved forward by users' tests. [`ManualClock`] is for ours, and [`ScriptedMachine`] feeds a
//!   [`SystemClock`] in them.

mod elapsed;
mod machine;
mod scripted;
mod steering;
mod system;
#[cfg(test)]
mod tests;
mod travel;

use std::future::Future;
use std::pin::Pin;

use tokio::sync::watch;

pub use self::elapsed::ElapsedClock;
pub use self::machine::Machine;
pub use self::scripted::ScriptedMachine;
pub use self::system::SystemClock;
pub use self::travel::{TooFarAhead, TravelClock};
use crate::Timestamp;

/// The broker's time. It never goes back, but for a correction by more than some minutes ([`SetBack`]).
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Resolves at or after `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// The store holds instants up to `latest`. A clock that is behind it goes on from there; one that does not follow the
    /// time of the store does nothing.
    fn go_on_from(&self, _latest: Timestamp) {}

    /// Now, and how often the clock was set back until now.
    fn reading(&self) -> (Timestamp, SetBacks) {
        (self.now(), SetBacks::default())
    }

    /// Resolves when it is set back the next time.
    fn next_set_back(&self) -> Pin<Box<dyn Future<Output = SetBacks> + Send>> {
        Box::pin(std::future::pending())
    }

    /// Whether a start returns to the present, whatever later instants the store holds.
    fn returns_to_the_present(&self) -> bool {
        false
    }
}

/// A clock that can be moved forward.
pub trait Travel: Clock {
    /// Shows at least `at` from now on, and wakes every sleeper whose deadline has come.
    fn move_to(&self, at: Timestamp);
}

/// A correction by which time went back: instants between the two were never true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetBack {
    /// The time before.
    pub from: Timestamp,
    /// The time after.
    pub to: Timestamp,
}

/// All corrections by which time went back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetBacks {
    /// How many there were.
    pub count: u64,
    /// By how much together, in milliseconds.
    pub total_ms: u64,
    /// The last one.
    pub last: SetBack,
}

impl SetBacks {
    fn add(&mut self, set_back: SetBack) {
        self.count += 1;
        self.total_ms = self.total_ms.saturating_add(set_back.from.0.saturating_sub(set_back.to.0));
        self.last = set_back;
    }
}

/// A clock that stands still until it is told to advance: tests fire timers of hours without waiting. Clones show
/// the same time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now) }
    }

    /// Moves the time forward and wakes every sleeper whose deadline has come.
    pub fn advance(&self, duration_ms: u64) {
        self.now.send_modify(|now| *now = now.plus_ms(duration_ms));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            // A clock that was dropped stands still for ever.
            if now.wait_for(|now| *now >= deadline).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn go_on_from(&self, latest: Timestamp) {
        self.move_to(latest);
    }
}

impl Travel for ManualClock {
    fn move_to(&self, at: Timestamp) {
        self.now.send_if_modified(|now| {
            let moved = *now < at;
            *now = (*now).max(at);
            moved
        });
    }
}
