//! Decides whether stored data may grow: not on a full disk or one that can't be written, and not while the broker's state
//! takes up all the memory for it. Commands that shrink it are still carried out, which ends the shortage.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use peeklock_budget::Budget;
use peeklock_storage::{Error, Pressure, Shard};
use tokio::sync::watch;

use super::Clock;
use super::actor::settlement_bytes;
use crate::Refusal;
use crate::command::{Descriptor, Writes};
use crate::partition::Partition;

/// Maximum bytes that a settlement may add to each message (properties, reason and description of a dead letter) during a
/// memory shortage.
const SETTLEMENT_BYTES_MAX: usize = 256;

/// Interval in milliseconds at which tasks that hold back messages for lack of memory check again.
const RELIEF_LOOK_MS: u64 = 1_000;

/// The resource that is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Room in the store.
    Storage,
    /// The system refuses to extend the store.
    Writes,
    /// Memory for the broker's state.
    Memory,
}

impl From<Shortage> for Refusal {
    fn from(shortage: Shortage) -> Self {
        match shortage {
            Shortage::Storage => Self::StorageFull,
            Shortage::Writes => Self::StorageFailing,
            Shortage::Memory => Self::StateFull,
        }
    }
}

/// Reports whether there is a shortage.
#[derive(Debug, Clone)]
pub(super) struct Growth {
    pressure: watch::Receiver<Pressure>,
    budget: Budget,
}

impl Growth {
    /// For a shard, in a process with this budget.
    pub(super) fn of(shard: &dyn Shard, budget: &Budget) -> Self {
        Self { pressure: shard.pressure(), budget: budget.clone() }
    }

    /// The present shortage.
    pub(super) fn shortage(&self) -> Option<Shortage> {
        match *self.pressure.borrow() {
            Pressure::Full => Some(Shortage::Storage),
            Pressure::Failing => Some(Shortage::Writes),
            Pressure::Normal => self.budget.state().is_full().then_some(Shortage::Memory),
        }
    }

    /// Returns when there is no shortage. The store signals the end. Memory is polled, because the budget can't wake tasks
    /// and is itself measured only at intervals.
    async fn relieved(mut self, clock: Arc<dyn Clock>) {
        loop {
            if self.pressure.wait_for(|pressure| *pressure == Pressure::Normal).await.is_err() {
                // The store is gone, which the actor learns elsewhere.
                return std::future::pending().await;
            }
            if !self.budget.state().is_full() {
                return;
            }
            clock.sleep_until(clock.now().plus_ms(RELIEF_LOOK_MS)).await;
        }
    }
}

/// The refusal for those whose batch the store has refused. After an outage it may be repeated, and nothing of it has
/// happened, unlike after a loss of the shard.
pub(super) fn refusal_of_batch(error: &Error) -> Refusal {
    match error {
        Error::Full { .. } | Error::TooLarge { .. } => Refusal::StorageFull,
        error if error.is_outage() => Refusal::StorageFailing,
        _ => Refusal::Unavailable,
    }
}

/// Wakes an actor that holds back messages when the shortage ends.
#[derive(Default)]
pub(super) struct Relief(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Relief {
    /// Starts waiting for the end of the shortage, unless that is under way.
    pub(super) fn await_end(&mut self, growth: &Growth, clock: &Arc<dyn Clock>) {
        self.0.get_or_insert_with(|| Box::pin(growth.clone().relieved(Arc::clone(clock))));
    }

    /// Whether the awaited shortage has ended; another one may have begun.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> bool {
        let has_ended = self.0.as_mut().is_some_and(|relieved| relieved.as_mut().poll(context).is_ready());
        if has_ended {
            self.0 = None;
        }
        has_ended
    }
}

/// Checks whether a command may be carried out during a shortage.
///
/// # Errors
/// The resource that is short.
pub(super) fn check_growth(
    partition: &Partition,
    command: &Descriptor<'_>,
    shortage: Option<Shortage>,
) -> Result<(), Refusal> {
    let is_refused = match shortage {
        None => false,
        Some(Shortage::Storage | Shortage::Writes) => command.grows,
        Some(Shortage::Memory) => match command.writes {
            Writes::Settled { settlement, .. } => settlement_bytes(settlement) > SETTLEMENT_BYTES_MAX,
            writes => command.grows && !is_moved(partition, writes),
        },
    };
    shortage.filter(|_| is_refused).map_or(Ok(()), |shortage| Err(shortage.into()))
}

/// Whether messages are only moved here by a forwarder: they must reach their consumers. Topics are excluded, because they
/// may make several copies of a message.
fn is_moved(partition: &Partition, writes: Writes<'_>) -> bool {
    let Writes::Messages { messages, .. } = writes else { return false };
    partition.copies_max() <= 1 && messages.iter().all(|message| message.origin.is_some())
}
