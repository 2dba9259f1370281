//! Whether what is stored may grow: not on a full disk, and not while what the broker has to know of it takes all the memory
//! that there is for that. What makes it smaller goes on, so that there is room again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use peeklock_budget::Budget;
use peeklock_storage::{Pressure, Shard};
use tokio::sync::watch;

use super::Clock;
use super::actor::settlement_bytes;
use crate::Refusal;
use crate::command::{Descriptor, Writes};
use crate::partition::Partition;

/// What a settlement may add to each message (properties, reason and description of a dead letter) while memory is short, in
/// bytes.
const SETTLEMENT_BYTES_MAX: usize = 256;

/// How soon whoever holds something back for lack of memory looks at it again, in milliseconds.
const RELIEF_LOOK_MS: u64 = 1_000;

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

    /// Returns when there is no shortage. The store says so at once. Memory is looked at: the budget knows no tasks that it could
    /// wake, and is itself measured only from time to time.
    async fn relieved(mut self, clock: Arc<dyn Clock>) {
        loop {
            if self.pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.is_err() {
                // The store is gone, which others notice.
                return std::future::pending().await;
            }
            if !self.budget.state().is_full() {
                return;
            }
            clock.sleep_until(clock.now().plus_ms(RELIEF_LOOK_MS)).await;
        }
    }
}

/// Wakes whoever holds something back as long as there is a shortage.
#[derive(Default)]
pub(super) struct Relief(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Relief {
    /// Sees to it that the end of the shortage is noticed.
    pub(super) fn await_end(&mut self, growth: &Growth, clock: &Arc<dyn Clock>) {
        self.0.get_or_insert_with(|| Box::pin(growth.clone().relieved(Arc::clone(clock))));
    }

    /// Whether the shortage ended that was awaited; another one may have begun.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let has_ended = self.0.as_mut().is_some_and(|relieved| relieved.as_mut().poll(context).is_ready());
        if has_ended {
            self.0 = None;
        }
        has_ended
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
