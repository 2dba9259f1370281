//! The entities of these tests, and the joint steps that were requested.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use peeklock_engine::runtime::{
    ClientSubscription, EntityRef, Mailbox, PartitionHandle, SubscriptionRef, Temporary,
};
use peeklock_engine::{
    Command, EntityOptions, NewMessage, QueueId, QueueOptions, ReceiverId, Timestamp, TopicOptions,
};
use smallvec::SmallVec;

use super::harness::NOW;
use crate::servicebus::{Entities, Hold, JointStep, Place};

/// Id of the queues `q` and `my queue`.
pub(super) const QUEUE: QueueId = QueueId(1);

/// Id of the queue with sessions.
pub(super) const SESSIONS: QueueId = QueueId(2);

/// Id of the topic.
pub(super) const TOPIC: QueueId = QueueId(3);

/// Id of its subscription.
pub(super) const SUBSCRIPTION: QueueId = QueueId(4);

/// Id of the queue `other`.
pub(super) const OTHER: QueueId = QueueId(5);

/// A namespace with the queues `q`, `my queue`, `other` and `sessions`, and the topic `t` with the subscription `s`. The
/// queue `replaced` is another one whenever it is looked for.
pub(super) struct SomeEntities {
    partition: PartitionHandle,
    receivers: AtomicU64,
    commits: Commits,
}

impl SomeEntities {
    pub(super) fn new(partition: PartitionHandle, commits: Commits) -> Self {
        Self { partition, receivers: AtomicU64::new(1), commits }
    }

    fn topic() -> TopicOptions {
        TopicOptions { max_message_size_bytes: 20_000, ..TopicOptions::default() }
    }
}

impl Entities for SomeEntities {
    fn entity(&self, name: &str) -> Option<EntityRef> {
        let plain = QueueOptions { max_message_size_bytes: 10_000, ..QueueOptions::default() };
        let sessions = QueueOptions { requires_session: true, ..plain.clone() };
        let (queue, options): (_, EntityOptions) = match name.to_lowercase().as_str() {
            "q" | "my queue" => (QUEUE, plain.into()),
            "other" => (OTHER, plain.into()),
            "sessions" => (SESSIONS, sessions.into()),
            "replaced" => (QueueId(100 + self.receivers.fetch_add(1, Ordering::Relaxed)), plain.into()),
            "t" => (TOPIC, Self::topic().into()),
            _ => return None,
        };
        Some(EntityRef { partition: self.partition.clone(), queue, options: Arc::new(options) })
    }

    fn subscription(&self, topic: &str, name: &str) -> Option<SubscriptionRef> {
        let found = topic.eq_ignore_ascii_case("t") && name.eq_ignore_ascii_case("s");
        found.then(|| SubscriptionRef {
            partition: self.partition.clone(),
            queue: SUBSCRIPTION,
            options: Arc::default(),
            topic: Arc::new(Self::topic().into()),
        })
    }

    fn next_receiver_id(&self, partition: &PartitionHandle) -> ReceiverId {
        partition.receiver_id(self.receivers.fetch_add(1, Ordering::Relaxed))
    }

    fn now(&self) -> Timestamp {
        NOW
    }

    fn begin_transaction(&self) -> Box<dyn JointStep> {
        Box::new(Step { commits: Arc::clone(&self.commits), works: Vec::new() })
    }

    fn create_temporary(&self, _wanted: Temporary, _mailbox: Mailbox, _tag: u64) -> Hold {
        Box::new(())
    }

    fn subscribe(&self, _wanted: ClientSubscription, _mailbox: Mailbox, _tag: u64) -> Hold {
        Box::new(())
    }

    fn unsubscribe(&self, _name: &str, _mailbox: Mailbox, _tag: u64) {}

    /// Durable subscriptions named `mine` are of the topic `t`.
    fn topic_of_client_subscription(&self, name: &str) -> Option<String> {
        name.starts_with("mine$").then(|| "t".to_owned())
    }
}

/// A part of a joint step.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    Command(Command),
    Transfer { via: QueueId, target: QueueId, messages: SmallVec<[NewMessage; 1]> },
}

/// Joint steps that were committed, with the tags of their answers.
pub(super) type Commits = Arc<Mutex<Vec<(u64, Vec<Work>)>>>;

struct Step {
    commits: Commits,
    works: Vec<Work>,
}

impl JointStep for Step {
    fn add(&mut self, _entity: &PartitionHandle, command: Command) {
        self.works.push(Work::Command(command));
    }

    fn add_transfer(&mut self, via: &Place, target: &Place, messages: SmallVec<[NewMessage; 1]>) {
        self.works.push(Work::Transfer { via: via.queue, target: target.queue, messages });
    }

    fn commit(self: Box<Self>, _mailbox: Mailbox, tag: u64) {
        self.commits.lock().unwrap().push((tag, self.works));
    }
}
