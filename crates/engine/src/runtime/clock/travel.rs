//! A clock that users' tests can move forward.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::watch;

use super::{Clock, SetBacks, SystemClock, Travel};
use crate::Timestamp;

const DAY_MS: u64 = 86_400_000;

/// The machine's clock plus an offset that only grows: time runs at its usual speed and can be made to jump forward. Clones
/// share the time.
#[derive(Debug, Clone)]
pub struct TravelClock {
    system: SystemClock,
    /// The offset, in milliseconds.
    ahead_ms: watch::Sender<u64>,
}

/// The offset would exceed [`TravelClock::AHEAD_MS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the clock is {ahead_ms} ms ahead of the machine's; the limit is {} ms", TravelClock::AHEAD_MS_MAX)]
pub struct TooFarAhead {
    /// The present offset, in milliseconds.
    pub ahead_ms: u64,
}

impl TravelClock {
    /// Maximum offset from the machine's clock, in milliseconds, over all jumps: a hundred years, beyond which dates leave
    /// the range of some clients.
    pub const AHEAD_MS_MAX: u64 = 36_500 * DAY_MS;

    /// A clock without an offset to the machine's time.
    #[must_use]
    pub fn new() -> Self {
        Self::over(SystemClock::new())
    }

    /// A clock without an offset to another.
    #[must_use]
    pub fn over(system: SystemClock) -> Self {
        Self { system, ahead_ms: watch::Sender::new(0) }
    }

    /// The underlying clock.
    #[must_use]
    pub fn system(&self) -> SystemClock {
        self.system.clone()
    }

    /// Moves the time forward at once and returns the new time. [`super::super::Namespace::travel`] fires all timers in
    /// between instead.
    ///
    /// # Errors
    /// [`TooFarAhead`]; the time is unchanged then.
    pub fn advance(&self, duration_ms: u64) -> Result<Timestamp, TooFarAhead> {
        self.check(duration_ms)?;
        self.ahead_ms.send_modify(|ahead_ms| *ahead_ms = ahead_ms.saturating_add(duration_ms));
        Ok(self.now())
    }
}

impl Travel for TravelClock {
    fn check(&self, duration_ms: u64) -> Result<(), TooFarAhead> {
        let ahead_ms = *self.ahead_ms.borrow();
        let allowed = ahead_ms.saturating_add(duration_ms) <= Self::AHEAD_MS_MAX;
        if allowed { Ok(()) } else { Err(TooFarAhead { ahead_ms }) }
    }

    fn move_to(&self, at: Timestamp) {
        let missing_ms = at.0.saturating_sub(self.now().0);
        self.ahead_ms.send_if_modified(|ahead_ms| {
            *ahead_ms = ahead_ms.saturating_add(missing_ms).min(Self::AHEAD_MS_MAX);
            missing_ms > 0
        });
    }
}

impl Default for TravelClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TravelClock {
    fn now(&self) -> Timestamp {
        self.system.now().plus_ms(*self.ahead_ms.borrow())
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (system, mut ahead_ms) = (self.system.clone(), self.ahead_ms.subscribe());
        Box::pin(async move {
            loop {
                let at = Timestamp(deadline.0.saturating_sub(*ahead_ms.borrow_and_update()));
                tokio::select! {
                    () = system.sleep_until(at) => return,
                    changed = ahead_ms.changed() => if changed.is_err() {
                        // A dropped clock never jumps again.
                        return system.sleep_until(at).await;
                    },
                }
            }
        })
    }

    fn reading(&self) -> (Timestamp, SetBacks) {
        let (now, set_backs) = self.system.reading();
        (now.plus_ms(*self.ahead_ms.borrow()), set_backs)
    }

    fn next_set_back(&self) -> Pin<Box<dyn Future<Output = SetBacks> + Send>> {
        self.system.next_set_back()
    }

    fn returns_to_the_present(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn it_shows_the_machine_s_time_plus_all_jumps_and_never_goes_back() {
        let machine = SystemClock::new();
        // Of the same machine: two clocks differ by up to a millisecond, since each starts at a whole one.
        let clock = TravelClock::over(machine.clone());
        let before = machine.now();
        assert!(clock.now() >= before && clock.now() < before.plus_ms(HOUR_MS));
        let mut last = clock.now();
        for jumps in 1..=3 {
            let now = clock.advance(HOUR_MS).unwrap();
            assert!(now >= before.plus_ms(jumps * HOUR_MS) && now >= last.plus_ms(HOUR_MS));
            assert!(clock.clone().now() >= now, "clones share the time");
            last = now;
        }
    }

    #[test]
    fn it_is_never_more_than_a_hundred_years_ahead() {
        let clock = TravelClock::new();
        clock.advance(TravelClock::AHEAD_MS_MAX - 1).unwrap();
        let refused = Err(TooFarAhead { ahead_ms: TravelClock::AHEAD_MS_MAX - 1 });
        assert_eq!(clock.advance(2), refused);
        assert_eq!(clock.advance(u64::MAX), refused);
        clock.advance(1).unwrap();
    }

    // Tokio's own clock is paused and moves only when all tasks wait, so its reading shows how long the tasks slept.
    #[tokio::test(start_paused = true)]
    async fn a_jump_wakes_those_who_are_due_at_once_and_no_others() {
        let clock = TravelClock::new();
        let begun = tokio::time::Instant::now();
        let (soon, later) = (clock.now().plus_ms(HOUR_MS), clock.now().plus_ms(24 * HOUR_MS));
        let sleep = |until| tokio::spawn(clock.sleep_until(until));
        let (due, not_due) = (sleep(soon), sleep(later));
        tokio::task::yield_now().await;
        clock.advance(HOUR_MS).unwrap();
        due.await.unwrap();
        assert_eq!(begun.elapsed(), std::time::Duration::ZERO);
        assert!(!not_due.is_finished());
        clock.advance(24 * HOUR_MS).unwrap();
        not_due.await.unwrap();
        assert_eq!(begun.elapsed(), std::time::Duration::ZERO);
        clock.sleep_until(soon).await;
    }

    #[tokio::test]
    async fn sleepers_outlive_the_clock() {
        let clock = TravelClock::new();
        let sleep = clock.sleep_until(clock.now().plus_ms(1));
        drop(clock);
        sleep.await;
    }
}
