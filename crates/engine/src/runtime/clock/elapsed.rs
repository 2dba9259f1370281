//! A clock for measuring durations only.

use std::future::Future;
use std::pin::Pin;

use super::Clock;
use super::machine::{Machine, ThisMachine};
use crate::Timestamp;

/// The time since the machine started. Nothing corrects it, so it is suitable for measuring how long a peer was silent; it
/// is not related to a date.
#[derive(Debug, Clone, Copy, Default)]
pub struct ElapsedClock(ThisMachine);

impl Clock for ElapsedClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.boot_ms())
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let machine = self.0;
        Box::pin(async move {
            loop {
                let left_ms = deadline.0.saturating_sub(machine.boot_ms());
                if left_ms == 0 {
                    return;
                }
                machine.pause(left_ms).await;
            }
        })
    }
}
