//! Time. All deciding code gets the time from here; the policy is docs/time.md.
//!
//! - [`SystemClock`] is the broker's clock: `machine` is its source, `steering` how it follows the wall clock.
//! - [`ElapsedClock`] only measures durations, for connections.
//! - [`TravelClock`] can be moved forward by users' tests. [`ManualClock`] and [`ScriptedMachine`], which drives a
//!   [`SystemClock`], are for our tests.

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

/// The broker's time. It never goes back, except by a correction of more than some minutes ([`SetBack`]).
pub trait Clock: Send + Sync + 'static {
    /// The present time.
    fn now(&self) -> Timestamp;

    /// Resolves at or after `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Reports the latest timestamp in the store. A clock that is behind it continues from there; a clock that does not
    /// follow the store's time ignores it.
    fn go_on_from(&self, _latest: Timestamp) {}

    /// The present time, and the corrections that set time back so far.
    fn reading(&self) -> (Timestamp, SetBacks) {
        (self.now(), SetBacks::default())
    }

    /// Resolves at the next correction that sets time back.
    fn next_set_back(&self) -> Pin<Box<dyn Future<Output = SetBacks> + Send>> {
        Box::pin(std::future::pending())
    }

    /// Whether a start uses the present time even if the store holds later timestamps.
    fn returns_to_the_present(&self) -> bool {
        false
    }
}

/// A clock that can be moved forward.
pub trait Travel: Clock {
    /// Checks whether the clock can be moved forward by a duration in milliseconds.
    ///
    /// # Errors
    /// [`TooFarAhead`].
    fn check(&self, _duration_ms: u64) -> Result<(), TooFarAhead> {
        Ok(())
    }

    /// Moves the clock to at least `at`, and wakes every sleeper whose deadline has come.
    fn move_to(&self, at: Timestamp);
}

/// A correction that set time back: timestamps between the two were never valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetBack {
    /// The time before.
    pub from: Timestamp,
    /// The time after.
    pub to: Timestamp,
}

/// All corrections that set time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetBacks {
    /// Their number.
    pub count: u64,
    /// Their sum, in milliseconds.
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

/// A clock that moves only when advanced, so that tests fire timers of hours without waiting. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// A clock that starts at `now`.
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
            // A dropped clock never moves again.
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
