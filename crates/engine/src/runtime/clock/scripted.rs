//! A machine whose clocks are set by tests.

use std::future::Future;
use std::pin::Pin;

use tokio::sync::watch;

use super::machine::Machine;

/// A machine whose time passes only by calls. Clones share the state.
#[derive(Debug, Clone)]
pub struct ScriptedMachine {
    readings: watch::Sender<Readings>,
}

#[derive(Debug, Clone, Copy)]
struct Readings {
    boot_ms: u64,
    /// The wall clock without the disturbance.
    true_ms: u64,
    /// The present error of the wall clock, and the boot clock reading at which it ends.
    off: Option<(i64, u64)>,
}

impl Readings {
    fn off_ms(&self) -> i64 {
        self.off.filter(|(_, until)| self.boot_ms < *until).map_or(0, |(off_ms, _)| off_ms)
    }
}

impl ScriptedMachine {
    /// A machine whose wall clock starts at `wall_ms`, in milliseconds since 1970.
    #[must_use]
    pub fn new(wall_ms: u64) -> Self {
        let readings = Readings { boot_ms: 1_000, true_ms: wall_ms, off: None };
        Self { readings: watch::Sender::new(readings) }
    }

    /// Advances both clocks.
    pub fn pass(&self, duration_ms: u64) {
        self.readings.send_modify(|readings| {
            readings.boot_ms = readings.boot_ms.saturating_add(duration_ms);
            readings.true_ms = readings.true_ms.saturating_add(duration_ms);
        });
    }

    /// Sets the wall clock permanently.
    pub fn set_wall(&self, wall_ms: u64) {
        self.readings.send_modify(|readings| {
            readings.true_ms = wall_ms;
            readings.off = None;
        });
    }

    /// Adds an error to the wall clock for some time. Both arguments are in milliseconds.
    pub fn disturb(&self, off_ms: i64, for_ms: u64) {
        self.readings.send_modify(|readings| {
            readings.off = Some((off_ms, readings.boot_ms.saturating_add(for_ms)));
        });
    }

    /// The present error of the wall clock, in milliseconds.
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
            // A dropped machine never moves again.
            if readings.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
