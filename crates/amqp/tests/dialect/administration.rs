//! What administrators do: they create, change and delete entities.

use peeklock_engine::{
    EntityOptions, EntityStatus, Filter, QueueOptions, Rule, SubscriptionOptions, Timestamp, TopicOptions,
};

use super::bus::{Path, QueueShape, RULES};
use super::step::Change;
use super::world::{END_OF_DEAD_LETTERS, World};

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
            // Dead letters would wait for it, and when they are tried again is not predicted. A session's root stays.
            None if self.is_end_of_dead_letters(path) || self.bus.is_root(path) => return,
            None => self.broker.namespace.delete(path).await.expect("a deletion"),
        }
        self.bus.delete(path);
    }

    pub(crate) async fn create(&mut self, path: Path) {
        let shape = self.first_shape(path);
        if let Some((topic, name)) = path.split_once("/Subscriptions/") {
            if self.bus.exists(topic) {
                self.create_subscription(path, topic, name).await;
            }
            return;
        }
        if [shape.forward_to, shape.forward_dead_to]
            .into_iter()
            .flatten()
            .any(|to| to != path && !self.bus.exists(to))
        {
            return;
        }
        // It can be its own target once it exists.
        let is_own = shape.forward_dead_to == Some(path);
        let first = QueueShape { forward_dead_to: shape.forward_dead_to.filter(|_| !is_own), ..shape };
        let namespace = &self.broker.namespace;
        namespace.create(path, options(path, first)).await.expect("a queue or topic");
        if is_own {
            self.update(path, shape).await;
        }
        if path == "t" { self.bus.add_topic(path, shape) } else { self.bus.add_queue(path, shape) }
    }

    /// Changes an entity's options; messages stay. Those of one that is not active become active again first.
    pub(crate) async fn change(&mut self, path: Path, change: Change) {
        let Some(mut shape) = self.bus.shape(path) else { return };
        match change {
            _ if shape.status != EntityStatus::Active => shape.status = EntityStatus::Active,
            Change::Status(status) => shape.status = status,
            // Locks of a topic's own messages always have the default.
            Change::LockMs(lock_ms) if path != "t" => shape.lock_ms = lock_ms,
            Change::LockMs(_) => {}
            Change::LifeMs(life_ms) => shape.life_ms = life_ms,
            Change::DeliveriesMax(deliveries_max) => shape.deliveries_max = deliveries_max,
            Change::KeepsExpired(keeps_expired) => shape.keeps_expired = keeps_expired,
            Change::SizeMax(size) => shape.size_max_bytes = shape.size_max_bytes.map(|_| size),
        }
        self.update(path, shape).await;
        self.bus.change(path, shape);
    }

    /// Changes the options of an entity of the broker.
    pub(crate) async fn update(&self, path: Path, shape: QueueShape) {
        let namespace = &self.broker.namespace;
        match path.split_once("/Subscriptions/") {
            Some((topic, name)) => {
                let options = subscription_options(shape);
                namespace.update_subscription(topic, name, options).await.expect("a change");
            }
            None => _ = namespace.update(path, options(path, shape)).await.expect("a change"),
        }
    }

    fn is_end_of_dead_letters(&self, path: Path) -> bool {
        let mut shapes = self.bus.queues.iter().map(|(from, queue)| (*from, queue.shape.forward_dead_to));
        shapes.any(|(from, to)| from != path && to == Some(path))
    }

    /// The options with which an entity is created.
    fn first_shape(&self, path: Path) -> QueueShape {
        let ends = ["q", "d", "s", "t"];
        let forward_to = match path {
            "f" => Some("g"),
            "g" => Some(ends[usize::from(self.setup.chain_end) % ends.len()]),
            _ => None,
        };
        // The dead letters of one go to another, or back to itself.
        let dead_end = if self.setup.dead_end == 0 { path } else { END_OF_DEAD_LETTERS };
        let is_end = |dead_end: u8| path == END_OF_DEAD_LETTERS && self.setup.dead_end == dead_end;
        let has_window = path == "d" || (path == "t" && self.setup.topic_window) || is_end(2);
        QueueShape {
            lock_ms: if path == "t" { 60_000 } else { 30_000 },
            deliveries_max: 3,
            status: EntityStatus::Active,
            sessions: path == "s" || path.ends_with("/b") || is_end(1),
            keeps_expired: self.setup.keeps_expired,
            life_ms: self.setup.life_ms.filter(|_| path != "t/Subscriptions/b"),
            window_ms: has_window.then_some(WINDOW_MS),
            // Dead letters would wait for room, and when they are tried again is not predicted.
            size_max_bytes: self.setup.size_max_bytes.filter(|_| ["q", "d", "s", "t", "f"].contains(&path)),
            forward_to,
            forward_dead_to: (path == "e").then_some(dead_end),
        }
    }

    async fn create_subscription(&mut self, path: Path, topic: Path, name: &str) {
        let shape = self.first_shape(path);
        let rule = Rule {
            name: RULES[0].name.into(),
            filter: Filter::True,
            action: None,
            created_at: Timestamp::default(),
        };
        let namespace = &self.broker.namespace;
        let options = subscription_options(shape);
        namespace.create_subscription(topic, name, options, vec![rule]).await.expect("a subscription");
        self.bus.add_queue(path, shape);
        let known = self.bus.topics.get_mut(topic).expect("a topic");
        known.subscriptions.push((path, std::iter::once((0, ())).collect()));
    }
}

/// The options of a queue or topic.
fn options(path: Path, shape: QueueShape) -> EntityOptions {
    if path == "t" {
        return EntityOptions::Topic(TopicOptions {
            default_message_time_to_live_ms: shape.life_ms,
            requires_duplicate_detection: shape.window_ms.is_some(),
            duplicate_detection_history_time_window_ms: WINDOW_MS,
            max_size_bytes: shape.size_max_bytes.unwrap_or(TopicOptions::default().max_size_bytes),
            status: shape.status,
            ..TopicOptions::default()
        });
    }
    let mut options = QueueOptions {
        lock_duration_ms: shape.lock_ms,
        max_delivery_count: shape.deliveries_max,
        default_message_time_to_live_ms: shape.life_ms,
        dead_lettering_on_message_expiration: shape.keeps_expired,
        requires_session: shape.sessions,
        requires_duplicate_detection: shape.window_ms.is_some(),
        duplicate_detection_history_time_window_ms: WINDOW_MS,
        max_size_bytes: shape.size_max_bytes.unwrap_or(QueueOptions::default().max_size_bytes),
        status: shape.status,
        ..QueueOptions::default()
    };
    options.forwarding.forward_to = shape.forward_to.map(Into::into);
    options.forwarding.forward_dead_lettered_messages_to = shape.forward_dead_to.map(Into::into);
    EntityOptions::Queue(options)
}

fn subscription_options(shape: QueueShape) -> SubscriptionOptions {
    SubscriptionOptions {
        lock_duration_ms: shape.lock_ms,
        max_delivery_count: shape.deliveries_max,
        default_message_time_to_live_ms: shape.life_ms,
        dead_lettering_on_message_expiration: shape.keeps_expired,
        requires_session: shape.sessions,
        status: shape.status,
        ..SubscriptionOptions::default()
    }
}
