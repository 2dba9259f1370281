//! Measures the memory of the state of everything stored, and refuses growth before the machine or container runs out
//! of memory.

use std::path::Path;
use std::time::Duration;

use peeklock_budget::Budget;
use peeklock_budget::state::StateChange;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::machine::process_bytes;
use crate::allocator;

/// Interval of measurements while more than half of the limit is used.
const EVERY: Duration = Duration::from_millis(100);
/// While less is used, only every nth measurement is made.
const SELDOM: u32 = 10;

/// Measures until the task is aborted.
pub(in crate::serve) fn watch_state(budget: Budget) -> JoinHandle<()> {
    let is_measurable = measure(&budget);
    if !is_measurable {
        tracing::info!(
            "the system does not report the memory of the process: limits.state_memory_max has no effect"
        );
    }
    tokio::spawn(async move {
        if is_measurable {
            measure_again(&budget).await;
        }
    })
}

async fn measure_again(budget: &Budget) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut left_out = 0;
    loop {
        ticks.tick().await;
        left_out += 1;
        if left_out >= SELDOM || budget.state().measured_bytes() >= budget.state().limit_bytes() / 2 {
            left_out = 0;
            measure(budget);
        }
    }
}

/// Measures once; false if the system doesn't report the memory of the process.
pub(in crate::serve) fn measure(budget: &Budget) -> bool {
    let Some(mut bytes) = process_bytes(Path::new("/")) else { return false };
    let state = budget.state();
    if state.is_full() || state_bytes(budget, bytes) >= state.limit_bytes() {
        // Memory retained by the allocator is no reason to refuse growth.
        allocator::give_back();
        bytes = process_bytes(Path::new("/")).unwrap_or(bytes);
    }
    measured(budget, bytes);
    true
}

/// The memory of the process except for messages in transit.
fn state_bytes(budget: &Budget, process_bytes: u64) -> usize {
    usize::try_from(process_bytes).unwrap_or(usize::MAX).saturating_sub(budget.used_bytes())
}

/// Records the measured memory of the process, in bytes.
fn measured(budget: &Budget, process_bytes: u64) {
    let bytes = state_bytes(budget, process_bytes);
    let limit_bytes = budget.state().limit_bytes();
    match budget.state().measured(bytes) {
        Some(StateChange::Filled) => tracing::warn!(
            bytes,
            limit_bytes,
            "no memory left for more messages: sends are refused until some are received; give the broker more memory, or raise limits.state_memory_max"
        ),
        Some(StateChange::Emptied) => {
            tracing::warn!(bytes, limit_bytes, "memory is available again: sends are accepted");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use peeklock_budget::Owner;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn messages_under_way_are_no_part_of_the_state() {
        let budget = Budget::beside_state(64 * MIB, 0, 100 * MIB);
        let mut share = budget.share(Owner::Incoming);
        share.set(50 * MIB);
        measured(&budget, 140 << 20);
        assert_eq!((budget.state().measured_bytes(), budget.state().is_full()), (90 * MIB, false));
        share.set(40 * MIB);
        measured(&budget, 140 << 20);
        assert!(budget.state().is_full());
    }
}
