//! The broker's clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::machine::{Machine, ThisMachine};
use super::steering::{Notice, Steering};
use super::{Clock, SetBack, SetBacks};
use crate::Timestamp;

/// Minimum interval between readings of the wall clock, in milliseconds.
const OBSERVE_EVERY_MS: u64 = 100;
/// Interval at which [`SystemClock::keep_up`] reads the clock.
const KEEP_UP_EVERY: Duration = Duration::from_secs(1);

/// Elapsed time from the boot clock, anchored at the wall clock. A different wall clock is accepted once it was stable for
/// some minutes: then time steps forward, runs at half speed, or is set back. See docs/time.md. Clones share the time.
#[derive(Clone)]
pub struct SystemClock {
    inner: Arc<Inner>,
}

struct Inner {
    machine: Arc<dyn Machine>,
    state: Mutex<State>,
    set_backs: watch::Sender<SetBacks>,
}

struct State {
    steering: Steering,
    observed: u64,
    set_backs: SetBacks,
}

impl std::fmt::Debug for SystemClock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SystemClock").finish_non_exhaustive()
    }
}

impl SystemClock {
    /// The clock of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Arc::new(ThisMachine))
    }

    /// A clock driven by the clocks of `machine`.
    #[must_use]
    pub fn over(machine: Arc<dyn Machine>) -> Self {
        let (boot, wall) = (machine.boot_ms(), machine.wall_ms());
        let state =
            State { steering: Steering::new(boot, wall), observed: boot, set_backs: SetBacks::default() };
        let (state, set_backs) = (Mutex::new(state), watch::Sender::new(SetBacks::default()));
        Self { inner: Arc::new(Inner { machine, state, set_backs }) }
    }

    /// Reads the wall clock periodically, so that it is followed even while no other task reads the time. Never ends.
    pub async fn keep_up(self) {
        loop {
            tokio::time::sleep(KEEP_UP_EVERY).await;
            self.now();
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present time, and the corrections that set time back so far.
    fn read(&self) -> (Timestamp, SetBacks) {
        let mut state = self.state();
        let boot = self.machine.boot_ms();
        let mut notice = None;
        if boot.saturating_sub(state.observed) >= OBSERVE_EVERY_MS {
            state.observed = boot;
            notice = state.steering.observe(boot, self.machine.wall_ms());
            if let Some(Notice::Back(set_back)) = notice {
                state.set_backs.add(set_back);
            }
        }
        let reading = (state.steering.now(boot), state.set_backs);
        drop(state);
        if let Some(notice) = notice {
            self.note(notice, reading);
        }
        reading
    }

    fn note(&self, notice: Notice, (now, set_backs): (Timestamp, SetBacks)) {
        match notice {
            Notice::Differs { by_ms, confirmation_ms } => tracing::warn!(
                by_ms,
                "the wall clock differs from the broker's time; the broker adopts it if the difference lasts {confirmation_ms} ms"
            ),
            Notice::Vanished => tracing::info!("the wall clock agrees with the broker's time again"),
            Notice::Forward { by_ms } => {
                tracing::warn!(
                    by_ms,
                    now_ms = now.0,
                    "the broker's time was stepped forward to the wall clock"
                );
            }
            Notice::Slow { by_ms } => tracing::warn!(
                by_ms,
                "the broker's time is ahead of the wall clock and runs at half speed until the two agree"
            ),
            Notice::Back(SetBack { from, to }) => {
                tracing::error!(
                    from_ms = from.0,
                    to_ms = to.0,
                    "the broker's time was set back to the wall clock: locks expire, receivers are closed, and \
                     everything stored with a later time counts as stored now"
                );
                self.set_backs.send_if_modified(|known| {
                    let is_news = known.count < set_backs.count;
                    if is_news {
                        *known = set_backs;
                    }
                    is_news
                });
            }
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.inner.read().0
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let clock = Arc::clone(&self.inner);
        // Callers ask for a duration: a correction that sets time back does not prolong it.
        let before = clock.state().set_backs;
        Box::pin(async move {
            loop {
                let (now, set_backs) = clock.read();
                let set_back_ms = set_backs.total_ms.saturating_sub(before.total_ms);
                let left_ms = deadline.0.saturating_sub(set_back_ms).saturating_sub(now.0);
                if left_ms == 0 {
                    return;
                }
                clock.machine.pause(left_ms).await;
            }
        })
    }

    fn go_on_from(&self, latest: Timestamp) {
        let boot = self.inner.machine.boot_ms();
        let (notice, now) = {
            let mut state = self.inner.state();
            let notice = state.steering.go_on_from(boot, latest);
            (notice, state.steering.now(boot))
        };
        if let Some(notice) = notice {
            self.inner.note(notice, (now, SetBacks::default()));
        }
    }

    fn reading(&self) -> (Timestamp, SetBacks) {
        self.inner.read()
    }

    fn next_set_back(&self) -> Pin<Box<dyn Future<Output = SetBacks> + Send>> {
        let mut set_backs = self.inner.set_backs.subscribe();
        Box::pin(async move {
            match set_backs.changed().await {
                Ok(()) => *set_backs.borrow(),
                Err(_) => std::future::pending().await,
            }
        })
    }
}
