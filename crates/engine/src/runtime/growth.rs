//! Whether what is stored may grow: not on a full disk, and not while what the broker has to know of it takes all the memory
//! that there is for that. What makes it smaller goes on, so that there is room again.

use peeklock_budget::Budget;
use peeklock_storage::{Pressure, Shard};
use tokio::sync::watch;

use super::actor::settlement_bytes;
use crate::Refusal;
use crate::command::{Descriptor, Writes};
use crate::partition::Partition;

/// What a settlement may add to each message (properties, reason and description of a dead letter) while memory is short, in
/// bytes.
const SETTLEMENT_BYTES_MAX: usize = 256;

/// What there is too little of for growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Room in the store.
    Storage,
    /// Memory for what the broker knows of everything stored.
    Memory,
}

impl From<Shortage> for Refusal {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Storage => Self::StorageFull,
            Shortage::Memory => Self::StateFull,
        }
    }
}

/// Tells whether there is a shortage.
#[derive(Debug, Clone)]
pub(super) struct Growth {
    pressure: watch::Receiver<Pressure>,
    budget: Budget,
}

impl Growth {
    /// That of a shard, in a process with this budget.
    pub(super) fn of(shard: &dyn Shard, budget: &Budget) -> Self {
        Self { pressure: shard.pressure(), budget: budget.clone() }
    }

    /// At this moment.
    pub(super) fn shortage(&self) -> Option<Shortage> {
        if *self.pressure.borrow() == Pressure::Full {
            Some(Shortage::Storage)
        } else {
            self.budget.state().is_full().then_some(Shortage::Memory)
        }
    }
}

/// Whether a command may be carried out during a shortage.
///
/// # Errors
/// What there is too little of.
pub(super) fn check_growth(
    partition: &Partition,
    command: &Descriptor<'_>,
    shortage: Option<Shortage>,
) -> Result<(), Refusal> {
    let is_refused = match shortage {
        None => false,
        Some(Shortage::Storage) => command.grows,
        Some(Shortage::Memory) => match command.writes {
            Writes::Settled { settlement, .. } => settlement_bytes(settlement) > SETTLEMENT_BYTES_MAX,
            writes => command.grows && !is_moved(partition, writes),
        },
    };
    shortage.filter(|_| is_refused).map_or(Ok(()), |shortage| Err(shortage.into()))
}

/// Whether messages are only moved, from the entity that forwards them: they must get on to whoever consumes them. In a topic
/// they may become more.
fn is_moved(partition: &Partition, writes: Writes<'_>) -> bool {
    let Writes::Messages { messages, .. } = writes else { return false };
    partition.copies_max() <= 1 && messages.iter().all(|message| message.origin.is_some())
}
