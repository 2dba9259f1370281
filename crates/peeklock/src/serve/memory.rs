//! Limits of the memory that peers may make the process hold, and of the state of everything stored.

use std::path::Path;

use peeklock_budget::Budget;

use self::machine::available_bytes;
use super::error::ServeError;
use crate::config::{Config, LARGEST_PARTS_OF_MEMORY, LimitsConfig};

mod machine;
mod state;
mod unused;

pub(super) use state::{measure, watch_state};
pub(super) use unused::give_back_unused;

const MIB: u64 = 1 << 20;

/// Divisor: the default budget is this part of the available memory; the rest is for the state of waiting messages,
/// which the budget doesn't cover.
const PART_OF_MACHINE: u64 = 4;

/// Maximum of the default budget: more has no benefit.
const BYTES_MAX: u64 = 1024 * MIB;

/// Minimum of the default budget, if the largest messages don't require more.
const BYTES_MIN: u64 = 128 * MIB;

/// The default limit of the state of everything stored is `STATE_PARTS / STATE_OF_PARTS` of the available memory.
const STATE_PARTS: u64 = 5;
/// The rest is for the budget, and for temporary memory while a store opens.
const STATE_OF_PARTS: u64 = 8;
/// Divisor: memory of the process beside state and budget, as a part of the available memory.
const REST_PART_OF_MACHINE: u64 = 16;
/// Minimum limit of the state, in bytes, so that an idle broker is not full.
const STATE_BYTES_MIN: u64 = 64 * MIB;

/// Divisor: while a store opens, data that is needed again soon may take this part of the available memory; the state
/// of the same messages takes two to three times as much.
const STARTUP_CACHE_PART_OF_MACHINE: u64 = 8;

/// Memory limits of the process: for messages in transit, and for the state of everything stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    /// Budget for all messages in transit, in bytes.
    budget_bytes: u64,
    /// Maximum size of partly received messages of one connection, in bytes.
    pub(super) reassembly_bytes_max: u64,
    /// Limit of the state of everything stored, in bytes.
    state_bytes_max: u64,
}

impl Memory {
    /// The configured limits, or defaults by the memory of the container or the machine.
    ///
    /// # Errors
    /// An entity of the configuration allows larger messages than the limits.
    pub(super) fn of(config: &Config) -> Result<Self, ServeError> {
        let asked = Asked {
            budget_bytes: config.limits.memory_bytes_max,
            reassembly_bytes: config.amqp.reassembly_bytes_max,
            state_bytes: config.limits.state_memory_bytes_max,
        };
        let memory = Self::fitting(available_bytes(Path::new("/")), asked);
        let Self { budget_bytes, reassembly_bytes_max, state_bytes_max } = memory;
        tracing::info!(
            bytes = budget_bytes,
            reassembly_bytes_max,
            state_bytes_max,
            "memory for messages under way"
        );
        let queues = config.queues.iter().map(|one| ("queue", &one.name, one.options.max_message_size_bytes));
        let topics = config.topics.iter().map(|one| ("topic", &one.name, one.options.max_message_size_bytes));
        let too_large = queues.chain(topics).find(|(.., bytes)| *bytes > reassembly_bytes_max);
        too_large.map_or(Ok(memory), |(kind, name, asked_bytes)| {
            Err(ServeError::Memory {
                kind,
                name: name.to_string(),
                asked_kb: asked_bytes / 1024,
                limit_kb: reassembly_bytes_max / 1024,
                memory_mb: budget_bytes / MIB,
            })
        })
    }

    fn fitting(available_bytes: u64, asked: Asked) -> Self {
        let budget_bytes = asked.budget_bytes.unwrap_or_else(|| {
            let least = asked.reassembly_bytes.map(|bytes| bytes.saturating_mul(LARGEST_PARTS_OF_MEMORY));
            (available_bytes / PART_OF_MACHINE).min(BYTES_MAX).max(least.unwrap_or(BYTES_MIN))
        });
        let reassembly_bytes_max =
            LimitsConfig::reassembly_bytes_max(asked.reassembly_bytes, Some(budget_bytes));
        let state_bytes_max = asked.state_bytes.unwrap_or_else(|| {
            let rest = budget_bytes.saturating_add(available_bytes / REST_PART_OF_MACHINE);
            let beside_rest = available_bytes.saturating_sub(rest).max(available_bytes / 2);
            (available_bytes / STATE_OF_PARTS * STATE_PARTS).min(beside_rest).max(STATE_BYTES_MIN)
        });
        Self { budget_bytes, reassembly_bytes_max, state_bytes_max }
    }

    /// The budget, with room for one message of maximum size in turn, beside the state.
    pub(super) fn budget(self) -> Budget {
        let [bytes, turn_bytes, state_bytes] =
            [self.budget_bytes, self.reassembly_bytes_max, self.state_bytes_max]
                .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        Budget::beside_state(bytes, turn_bytes, state_bytes)
    }
}

/// The configured values, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    budget_bytes: Option<u64>,
    reassembly_bytes: Option<u64>,
    state_bytes: Option<u64>,
}

/// Maximum size in bytes of data that an opening store keeps until all of it is scanned.
pub(super) fn startup_cache_bytes_max() -> usize {
    usize::try_from(available_bytes(Path::new("/")) / STARTUP_CACHE_PART_OF_MACHINE).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_fits_the_machine_and_holds_a_largest_message() {
        let fitting = |available_mib: u64, budget: Option<u64>, reassembly: Option<u64>| {
            let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
            let asked =
                Asked { budget_bytes: bytes(budget), reassembly_bytes: bytes(reassembly), state_bytes: None };
            let memory = Memory::fitting(available_mib * MIB, asked);
            (memory.budget_bytes / MIB, memory.reassembly_bytes_max / MIB)
        };
        assert_eq!(fitting(2048, None, None), (512, 104));
        assert_eq!(fitting(64 * 1024, None, None), (1024, 104));
        assert_eq!(fitting(256, None, None), (128, 32));
        assert_eq!(fitting(2048, None, Some(32)), (512, 32));
        assert_eq!(fitting(2048, None, Some(1024)), (4096, 1024));
        assert_eq!(fitting(2048, Some(64), None), (64, 16));
        assert_eq!(fitting(2048, Some(2048), None), (2048, 104));
    }

    #[test]
    fn the_state_leaves_room_for_the_budget_and_is_never_smaller_than_an_idle_broker() {
        let fitting = |available_mib: u64, budget: Option<u64>, state: Option<u64>| {
            let bytes = |mib: Option<u64>| mib.map(|mib| mib * MIB);
            let asked = Asked { budget_bytes: bytes(budget), state_bytes: bytes(state), ..Asked::default() };
            Memory::fitting(available_mib * MIB, asked).state_bytes_max / MIB
        };
        assert_eq!(fitting(16 * 1024, None, None), 10 * 1024);
        assert_eq!(fitting(800, None, None), 500);
        // The budget has a minimum of 128 MiB.
        assert_eq!(fitting(320, None, None), 172);
        assert_eq!(fitting(64, None, None), 64);
        assert_eq!(fitting(8192, Some(3072), None), 4608);
        assert_eq!(fitting(8192, Some(8192), None), 4096);
        assert_eq!(fitting(8192, None, Some(100)), 100);
    }
}
