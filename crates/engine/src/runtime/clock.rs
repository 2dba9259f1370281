//! The door for time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::Timestamp;

/// Longest single sleep of [`SystemClock`]: a wall clock set forward is noticed at the latest after this.
const SLEEP_MS_MAX: u64 = 10_000;

/// Where the broker's time comes from. It never goes back.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Resolves at or after `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's wall clock, kept from going back: when it is set back, time goes on at its usual pace and the wall
/// clock catches up; when it is set forward, time jumps with it.
#[derive(Debug, Clone)]
pub struct SystemClock {
    inner: Arc<SystemClockInner>,
}

#[derive(Debug)]
struct SystemClockInner {
    started: Instant,
    /// Largest distance seen between the wall clock and the time since `started`, in milliseconds.
    offset_ms: AtomicU64,
}

impl SystemClock {
    /// A clock that starts at the wall clock's time.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one door for time")]
    pub fn new() -> Self {
        Self { inner: Arc::new(SystemClockInner { started: Instant::now(), offset_ms: AtomicU64::new(0) }) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemClockInner {
    #[allow(clippy::disallowed_methods, reason = "the one door for time")]
    fn now(&self) -> Timestamp {
        let elapsed_ms = duration_ms(Instant::now().saturating_duration_since(self.started));
        // Before 1970 counts as 1970: the monotonic part still advances.
        let wall_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, duration_ms);
        let offset_ms = wall_ms.saturating_sub(elapsed_ms);
        let offset_ms = self.offset_ms.fetch_max(offset_ms, Ordering::Relaxed).max(offset_ms);
        Timestamp(elapsed_ms.saturating_add(offset_ms))
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = Arc::clone(&self.inner);
        Box::pin(async move {
            loop {
                let left_ms = deadline.0.saturating_sub(clock.now().0);
                if left_ms == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left_ms.min(SLEEP_MS_MAX))).await;
            }
        })
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_shows_wall_time_and_never_goes_back() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        assert!(last.0 > 1_600_000_000_000, "milliseconds since 1970, got {last:?}");
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_wall_clock_set_back_does_not_stop_time() {
        let clock = SystemClock::new();
        let ahead_ms = clock.now().0 + 3_600_000;
        clock.inner.offset_ms.store(ahead_ms, Ordering::Relaxed);
        assert!(clock.now().0 >= ahead_ms);
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_those_who_are_due_only() {
        let clock = ManualClock::new(Timestamp(1_000));
        let mut early = clock.sleep_until(Timestamp(1_500));
        let mut late = clock.sleep_until(Timestamp(2_500));
        clock.advance(999);
        early.as_mut().await;
        assert_eq!(clock.now(), Timestamp(1_999));
        let pending =
            tokio::select! { biased; () = late.as_mut() => false, () = std::future::ready(()) => true };
        assert!(pending);
        clock.advance(501);
        late.await;
    }
}
