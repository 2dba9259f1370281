//! Options of queues change while they contain messages: no message is lost, and an answered update is in effect.

use std::collections::BTreeSet;

use peeklock_engine::runtime::ChangeError;
use peeklock_engine::{EntityStatus, Kept, QueueId, QueueOptions, Refusal};
use tokio::task::JoinHandle;

use super::clock::LOCK_MS;
use super::steps::{NewOptions, Place};
use super::storage::is_for_a_while;
use super::topic::is_subscription;
use super::world::{Asked, QUEUES, World};

/// The position of the partitioned queue among the queues.
pub(super) const PARTITIONED: usize = 1;

/// A maximum delivery count that no message reaches.
pub(super) const DELIVERIES_MAX: u32 = 1_000;

/// An update that is not answered yet.
struct Update {
    queue: QueueId,
    status: EntityStatus,
    answer: JoinHandle<Result<(), ChangeError>>,
}

/// What is known about the queues' options.
#[derive(Default)]
pub(super) struct Updates {
    under_way: Option<Update>,
    /// Queues in the order of their updates, each with its status if that is certain; other queues have their first options.
    known: Vec<(QueueId, Option<EntityStatus>)>,
    /// Queues with limits on the life of messages and on their deliveries, also before a restart.
    limited: BTreeSet<QueueId>,
}

impl Updates {
    /// A start resets all queues to their first options.
    pub(super) fn restarted(&mut self) {
        *self = Self { limited: std::mem::take(&mut self.limited), ..Self::default() };
    }

    /// The status of a queue, if it is certain for everything that was submitted and not answered yet.
    fn status(&self, queue: QueueId) -> Option<EntityStatus> {
        let known = self.known.iter().rev().find(|(known, _)| *known == queue);
        known.map_or(Some(EntityStatus::Active), |(_, status)| *status)
    }

    /// Whether the status permits this response to a send.
    pub(super) fn may_answer<T>(&self, queue: QueueId, sent: &Result<T, Refusal>) -> bool {
        match (sent, self.status(queue)) {
            (_, None) => true,
            (Ok(_), Some(status)) => status.allows_send(),
            (Err(Refusal::EntityDisabled), Some(status)) => !status.allows_send(),
            (Err(_), Some(_)) => true,
        }
    }

    /// Whether a receiver may have been closed because of the status.
    pub(super) fn may_close(&self, queue: QueueId) -> bool {
        self.status(queue).is_none_or(|status| !status.allows_receive())
    }
}

/// The options of a queue after each start.
pub(super) fn first_options(index: usize) -> QueueOptions {
    QueueOptions {
        kept: Kept { enable_partitioning: index == PARTITIONED, ..Kept::default() },
        // Expired messages stay visible.
        dead_lettering_on_message_expiration: true,
        max_delivery_count: DELIVERIES_MAX,
        ..QueueOptions::default()
    }
}

impl World {
    /// Whether a deferred message of this queue may have expired when it was requested, or have been dead-lettered by its
    /// deferral.
    pub(super) fn may_end_deferred(&self, queue: QueueId) -> bool {
        self.updates.limited.contains(&queue) || is_subscription(queue)
    }

    /// Updates one queue; the update is finished when it is durable.
    pub(super) fn change_options(&mut self, index: usize, new: NewOptions) {
        let Some(address) = self.find(Place::Queue(index)).filter(|_| self.updates.under_way.is_none())
        else {
            return;
        };
        let NewOptions { lock_ms, max_delivery_count, life_ms, status } = new;
        let options = QueueOptions {
            lock_duration_ms: lock_ms.min(LOCK_MS),
            max_delivery_count,
            default_message_time_to_live_ms: life_ms,
            status,
            ..first_options(index)
        };
        let namespace = self.broker.namespace.clone();
        let update = async move { namespace.update(QUEUES[index], options).await.map(|_| ()) };
        let (queue, answer) = (address.queue, tokio::spawn(update));
        self.updates.known.push((queue, None));
        self.updates.limited.insert(queue);
        self.updates.under_way = Some(Update { queue, status, answer });
    }

    pub(super) async fn observe_updates(&mut self) {
        let Some(Update { queue, status, answer }) =
            self.updates.under_way.take_if(|update| update.answer.is_finished())
        else {
            return;
        };
        let is_about = |asked: &Asked| matches!(asked, Asked::Send { queue: about, .. } if *about == queue);
        // Requests submitted before the update was answered may be answered by the previous status.
        let is_certain = !self.asked.values().any(is_about);
        match answer.await.expect("an update does not panic") {
            Ok(()) if is_certain => self.updates.known.push((queue, Some(status))),
            Ok(()) => {}
            Err(ChangeError::Store(error)) if self.was_full && is_for_a_while(&error) => {}
            Err(_) if self.in_doubt || self.reads_fail => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}
