//! Returns free memory to the system also while the broker is idle.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::allocator;

/// As long as the allocator keeps free memory for the next use.
const EVERY: Duration = Duration::from_secs(1);

/// Starts returning free memory, until the runtime ends. The allocator does it by itself only when memory is freed: after
/// a burst an idle broker would keep most of what the burst took.
pub(in crate::serve) fn give_back_unused() {
    tokio::spawn(async {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // The allocator walks the memory of the calling thread: that of the runtime's threads can be gigabytes.
            let _ = spawn_blocking(allocator::give_back_unused).await;
        }
    });
}
