//! Clocks of a machine that tests set.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::watch;

use super::machine::Machine;

/// A machine whose time passes when a test says so. Clones are the same machine.
#[derive(Debug, Clone)]
pub struct ScriptedMachine {
    readings: watch::Sender<Readings>,
}

#[derive(Debug, Clone, Copy)]
struct Readings {
    boot_ms: u64,
    /// The wall clock while nothing disturbs it.
    true_ms: u64,
    /// By how much it is off, and until which reading of the boot clock.
    off: Option<(i64, u64)>,
}

impl Readings {
    fn off_ms(&self) -> i64 {
        self.off.filter(|(_, until)| self.boot_ms < *until).map_or(0, |(off_ms, _)| off_ms)
    }
}

impl ScriptedMachine {
    /// A machine whose wall clock shows `wall_ms`, in milliseconds since 1970.
    #[must_use]
    pub fn new(wall_ms: u64) -> Self {
        let readings = Readings { boot_ms: 1_000, true_ms: wall_ms, off: None };
        Self { readings: watch::Sender::new(readings) }
    }

    /// Time passes: on both clocks.
    pub fn pass(&self, duration_ms: u64) {
        self.readings.send_modify(|readings| {
            readings.boot_ms = readings.boot_ms.saturating_add(duration_ms);
            readings.true_ms = readings.true_ms.saturating_add(duration_ms);
        });
    }

    /// The wall clock is set, for good.
    pub fn set_wall(&self, wall_ms: u64) {
        self.readings.send_modify(|readings| {
            readings.true_ms = wall_ms;
            readings.off = None;
        });
    }

    /// The wall clock is off for a while, then right again. Both are in milliseconds.
    pub fn disturb(&self, off_ms: i64, for_ms: u64) {
        self.readings.send_modify(|readings| {
            readings.off = Some((off_ms, readings.boot_ms.saturating_add(for_ms)));
        });
    }

    /// By how much the wall clock is off, in milliseconds.
    #[must_use]
    pub fn off_ms(&self) -> i64 {
        self.readings.borrow().off_ms()
    }
}

impl Machine for ScriptedMachine {
    fn boot_ms(&self) -> u64 {
        self.readings.borrow().boot_ms
    }

    fn wall_ms(&self) -> u64 {
        let readings = *self.readings.borrow();
        readings.true_ms.saturating_add_signed(readings.off_ms())
    }

    fn pause(&self, _: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut readings = self.readings.subscribe();
        Box::pin(async move {
            // A machine that is gone stands still for ever.
            if readings.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
