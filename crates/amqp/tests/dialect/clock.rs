//! The broker's clock: its time moves at once, and its timers fire when the test lets them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peeklock_engine::Timestamp;
use peeklock_engine::runtime::{Clock, ManualClock, Travel};

#[derive(Debug, Clone)]
pub(crate) struct LateClock {
    now_ms: Arc<AtomicU64>,
    timers: ManualClock,
}

impl LateClock {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { now_ms: Arc::new(AtomicU64::new(now.0)), timers: ManualClock::new(now) }
    }

    /// Moves the time; timers that are due wait for [`Self::fire`].
    pub(crate) fn advance(&self, duration_ms: u64) {
        self.now_ms.fetch_add(duration_ms, Ordering::SeqCst);
    }

    /// Fires the timers that are due.
    pub(crate) fn fire(&self) {
        self.timers.move_to(self.now());
    }
}

impl Clock for LateClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.timers.sleep_until(deadline)
    }
}
