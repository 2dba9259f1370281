//! What administrators do: they create and delete entities, and change their status.

use peeklock_engine::{
    EntityOptions, EntityStatus, Filter, QueueOptions, Rule, SubscriptionOptions, Timestamp, TopicOptions,
};

use super::bus::{Path, QueueShape, RULES};
use super::world::World;

/// How long locks last, in milliseconds.
const LOCK_MS: u64 = 30_000;
/// For how long duplicates are detected, in milliseconds.
const WINDOW_MS: u64 = 60_000;

impl World {
    /// Deletes an entity if it exists, otherwise creates it.
    pub(crate) async fn toggle(&mut self, path: Path) {
        if !self.bus.exists(path) {
            return self.create(path).await;
        }
        match path.split_once("/Subscriptions/") {
            Some((topic, name)) => {
                assert!(self.broker.namespace.delete_subscription(topic, name).await.expect("a deletion"));
                if let Some(topic) = self.bus.topics.get_mut(topic) {
                    topic.subscriptions.retain(|(one, _)| *one != path);
                }
            }
            None => self.broker.namespace.delete(path).await.expect("a deletion"),
        }
        self.bus.delete(path);
    }

    pub(crate) async fn create(&mut self, path: Path) {
        if let Some((topic, name)) = path.split_once("/Subscriptions/") {
            if self.bus.exists(topic) {
                self.create_subscription(path, topic, name).await;
            }
            return;
        }
        if path == "t" {
            let window_ms = self.setup.topic_window.then_some(WINDOW_MS);
            self.broker
                .namespace
                .create(path, self.options(path, EntityStatus::Active))
                .await
                .expect("a topic");
            self.bus.add_topic(path, self.setup.life_ms, window_ms);
            return;
        }
        let shape = self.shape(path);
        if shape.forward_to.is_some_and(|target| !self.bus.exists(target)) {
            return;
        }
        self.broker.namespace.create(path, self.options(path, EntityStatus::Active)).await.expect("a queue");
        self.bus.add_queue(path, shape);
    }

    /// The options of a queue or topic.
    fn options(&self, path: Path, status: EntityStatus) -> EntityOptions {
        let shape = self.shape(path);
        if path == "t" {
            return EntityOptions::Topic(TopicOptions {
                default_message_time_to_live_ms: self.setup.life_ms,
                requires_duplicate_detection: self.setup.topic_window,
                duplicate_detection_history_time_window_ms: WINDOW_MS,
                status,
                ..TopicOptions::default()
            });
        }
        let mut options = QueueOptions {
            lock_duration_ms: LOCK_MS,
            max_delivery_count: 3,
            default_message_time_to_live_ms: shape.life_ms,
            dead_lettering_on_message_expiration: shape.keeps_expired,
            requires_session: shape.sessions,
            requires_duplicate_detection: shape.window_ms.is_some(),
            duplicate_detection_history_time_window_ms: WINDOW_MS,
            status,
            ..QueueOptions::default()
        };
        options.forwarding.forward_to = shape.forward_to.map(Into::into);
        EntityOptions::Queue(options)
    }

    /// Gives a queue or topic that does not forward another status for a moment: links are ended, and messages stay.
    pub(crate) async fn suspend(&mut self, path: Path, sends: bool, receives: bool) {
        let path = path.split('/').next().map_or(path, |root| if root == "t" { "t" } else { path });
        if !self.bus.exists(path) || self.shape(path).forward_to.is_some() {
            return;
        }
        let status = match (sends, receives) {
            (false, false) => EntityStatus::Disabled,
            (false, true) => EntityStatus::SendDisabled,
            _ => EntityStatus::ReceiveDisabled,
        };
        let receives = status == EntityStatus::SendDisabled;
        let sends = status == EntityStatus::ReceiveDisabled;
        self.broker.namespace.update(path, self.options(path, status)).await.expect("a change");
        self.bus.suspend(path, sends, receives);
        // Nobody can look at the messages meanwhile.
        self.exchange().await;
        self.broker.namespace.update(path, self.options(path, EntityStatus::Active)).await.expect("a change");
    }

    fn shape(&self, path: Path) -> QueueShape {
        let ends = ["q", "d", "s", "t"];
        let forward_to = match path {
            "f" => Some("g"),
            "g" => Some(ends[usize::from(self.setup.chain_end) % ends.len()]),
            _ => None,
        };
        QueueShape {
            sessions: path == "s" || path.ends_with("/b"),
            keeps_expired: self.setup.keeps_expired,
            life_ms: self.setup.life_ms.filter(|_| path != "t/Subscriptions/b"),
            window_ms: (path == "d").then_some(WINDOW_MS),
            forward_to,
        }
    }

    async fn create_subscription(&mut self, path: Path, topic: Path, name: &str) {
        let shape = self.shape(path);
        let options = SubscriptionOptions {
            lock_duration_ms: LOCK_MS,
            max_delivery_count: 3,
            default_message_time_to_live_ms: shape.life_ms,
            dead_lettering_on_message_expiration: shape.keeps_expired,
            requires_session: shape.sessions,
            ..SubscriptionOptions::default()
        };
        let rule = Rule {
            name: RULES[0].0.into(),
            filter: Filter::True,
            action: None,
            created_at: Timestamp::default(),
        };
        let namespace = &self.broker.namespace;
        namespace.create_subscription(topic, name, options, vec![rule]).await.expect("a subscription");
        self.bus.add_queue(path, shape);
        let known = self.bus.topics.get_mut(topic).expect("a topic");
        known.subscriptions.push((path, std::iter::once((0, ())).collect()));
    }
}
