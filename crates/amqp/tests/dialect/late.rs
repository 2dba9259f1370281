//! Requests that arrive when locks are over whose timers have not fired yet.
//!
//! Each command fires due timers first, a bounded number of them. So a crowd of sessions ends before those of the clients.

use peeklock_engine::{
    Command, QueuePath, ReceiveMode, ReceiverOptions, SessionLock, SessionRequest, SubQueue,
};

use super::bus::{Path, QueueShape};
use super::step::{Act, Ask};
use super::world::World;

/// More sessions than one command ends.
const CROWD: usize = 1_100;
/// How long their locks last, in milliseconds.
const CROWD_LOCK_MS: u64 = 5_000;

impl World {
    /// Passes time until locks of sessions of the entity are over, and acts before their timers have fired.
    pub(crate) async fn act_late(&mut self, peer: usize, path: Path, (ms, act): (u64, &Act)) {
        let shape = self.bus.shape(path);
        let waits = self.bus.queues.get(path).is_some_and(super::bus::Queue::is_awaited);
        // Without a delivery it would ask for any session; whether a late lock or a late wait ends first is not predicted.
        let is_idle = matches!(act, Act::Settle { .. }) && self.open_deliveries(peer).is_empty();
        // What expires at the same time makes room before or after a commit.
        let is_limited = self.setup.size_max_bytes.is_some() && matches!(act, Act::Discharge { .. });
        // A scheduled message that is delivered has the end of the lock before or after a renewal.
        let renews =
            matches!(act, Act::Request { ask: Ask::RenewSession(_), .. }) && self.bus.schedules(path);
        let is_predicted = !waits && !is_idle && !is_limited && !renews;
        let suits = |shape: &QueueShape| shape.sessions && is_predicted;
        let Some(shape) = shape.filter(suits) else { return self.pass(ms).await };
        if self.bus.check_receives(path).is_ok() {
            self.lock_crowd(path, shape).await;
        }
        let ms = ms.max(CROWD_LOCK_MS);
        self.broker.clock.advance(ms);
        self.bus.pass(ms);
        self.apply_notes();
        self.act_now(peer, act);
        self.peers[peer].speak();
        self.converse().await;
        self.broker.clock.fire();
        self.rest().await;
    }

    /// Holds many sessions that no client knows, for a shorter time than clients hold theirs.
    async fn lock_crowd(&mut self, path: Path, shape: QueueShape) {
        self.update(path, QueueShape { lock_ms: CROWD_LOCK_MS, ..shape }).await;
        let (partition, queue) = self.find(path).expect("an entity");
        let source = QueuePath { queue, sub_queue: SubQueue::Main };
        for number in 0..CROWD {
            let receiver = self.broker.namespace.next_receiver_id(&partition);
            let session = SessionRequest {
                id: Some(format!("crowd {number}").into()),
                wait_until: self.broker.namespace.clock().now(),
                lock: SessionLock::Exclusive,
            };
            let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
            let command = Command::OpenReceiver { receiver, options, session: Some(session) };
            partition.ask(command).await.expect("an answer");
        }
        self.update(path, shape).await;
    }
}
