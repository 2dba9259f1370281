//! The clocks of the machine.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The source of [`super::SystemClock`]; tests provide their own.
pub trait Machine: Send + Sync + 'static {
    /// Milliseconds since the machine started, including time for which it was suspended. Never goes back and is never set.
    fn boot_ms(&self) -> u64;

    /// The wall clock: milliseconds since the Unix epoch. May be set at any time.
    fn wall_ms(&self) -> u64;

    /// Waits for at most a duration in milliseconds.
    fn pause(&self, duration_ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Longest pause in milliseconds. The runtime's timers stand still while the machine is suspended, so waiting tasks must
/// check the clock again after this.
const PAUSE_MS_MAX: u64 = 10_000;

/// The system's clock that includes suspensions. macOS's monotonic clock does.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThisMachine;

impl Machine for ThisMachine {
    fn boot_ms(&self) -> u64 {
        let now = clock_gettime(BOOT_CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000)
    }

    #[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn pause(&self, duration_ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(duration_ms.min(PAUSE_MS_MAX))))
    }
}
