//! Creates and updates the declared queues and topics.

use std::collections::HashSet;
use std::time::Duration;

use peeklock_engine::runtime::Namespace;
use peeklock_engine::{EntityOptions, QueueOptions, TopicOptions, name_key, same_name};
use peeklock_storage::Limits;

use super::error::ServeError;
use super::subscriptions;
use crate::config::{Config, QUEUE_DEFAULT};

const KILOBYTE: u64 = 1024;
/// Maximum number of names in the log line about undeclared entities.
const UNDECLARED_NAMED_MAX: usize = 10;

/// How long a start waits for events that fell due while the broker was down, in milliseconds.
const CATCH_UP_MS_MAX: u64 = 10_000;

/// An entity by name, with its options.
type Entity = (String, EntityOptions);

/// Creates and updates the configured entities. Stored entities that the configuration doesn't mention are kept.
/// Entities that were idle for too long while the broker was down are deleted first: otherwise an unchanged declared
/// entity would be deleted soon after.
///
/// # Errors
/// An entity that the store can't serve, a change that an existing one does not allow, or the store's error.
pub(super) async fn declare(
    namespace: &Namespace,
    config: &Config,
    limits: Limits,
) -> Result<(), ServeError> {
    // The rest continues in the background: a full disk, on which nothing can be done, must not prevent a start.
    let _ = tokio::time::timeout(Duration::from_millis(CATCH_UP_MS_MAX), namespace.catch_up()).await;
    let stored = stored(namespace);
    let declared: Vec<Entity> =
        declared(config).into_iter().filter(|one| can_declare(namespace, one)).collect();
    for entity in &declared {
        check_message_size(entity, limits)?;
    }
    // Before the first change: a refusal must not leave a part of the configuration in force.
    subscriptions::check(namespace, config, &stored)?;
    let missing = missing(&stored, config).into_iter().filter(|one| can_declare(namespace, one));
    namespace.declare_all(declared.into_iter().chain(missing)).await?;
    subscriptions::declare(namespace, config).await?;
    if !config.undeclared {
        find_undeclared(&stored, config);
    }
    Ok(())
}

/// Whether an entity can be declared. A damaged entity keeps its stored data, and the others are declared.
fn can_declare(namespace: &Namespace, (name, options): &Entity) -> bool {
    let is_damaged = namespace.is_damaged(name);
    if is_damaged {
        let kind = kind(options);
        tracing::error!("{kind} \"{name}\" is not declared: its stored data is damaged, or may be");
    }
    !is_damaged
}

/// Numbers of queues and topics.
pub(super) fn count(namespace: &Namespace) -> (usize, usize) {
    let stored = stored(namespace);
    let queues = stored.iter().filter(|(_, options)| kind(options) == "queue").count();
    (queues, stored.len() - queues)
}

fn stored(namespace: &Namespace) -> Vec<Entity> {
    let names = namespace.names().into_iter();
    names.filter_map(|name| namespace.options(&name).map(|options| (name, (*options).clone()))).collect()
}

fn declared(config: &Config) -> Vec<Entity> {
    let queues = config.queues.iter().map(|queue| (queue.name.clone(), queue.options.clone().into()));
    let topics = config.topics.iter().map(|topic| (topic.name.clone(), topic.options.clone().into()));
    queues.chain(topics).collect()
}

/// The entities to create with default options: those requested by flag that don't exist, or the default queue if
/// nothing is declared or stored. Includes a name that exists with another kind, which is then refused.
fn missing(stored: &[Entity], config: &Config) -> Vec<Entity> {
    if config.undeclared && stored.is_empty() {
        return vec![(QUEUE_DEFAULT.to_owned(), queue_options(config).into())];
    }
    let queues = config.queues_if_missing.iter().map(|name| (name, queue_options(config).into()));
    let declared = |name: &String| config.topics.iter().any(|topic| same_name(&topic.name, name));
    let topics = config.topics_if_missing.iter().filter(|asked| !declared(&asked.topic));
    let topics = topics.map(|asked| (&asked.topic, topic_options(config).into()));
    let exists = |(name, options): &(&String, EntityOptions)| {
        stored.iter().any(|(stored, has)| same_name(stored, name) && kind(has) == kind(options))
    };
    let missing = queues.chain(topics).filter(|wanted| !exists(wanted));
    missing.map(|(name, options)| (name.clone(), options)).collect()
}

/// Default options of a queue.
fn queue_options(config: &Config) -> QueueOptions {
    let default_message_time_to_live_ms = config.limits.message_time_to_live_max_ms;
    QueueOptions { default_message_time_to_live_ms, ..config.namespace.tier.defaults() }
}

/// Default options of a topic; the cap on its messages' time to live also applies to its subscriptions (S-16).
fn topic_options(config: &Config) -> TopicOptions {
    let default_message_time_to_live_ms = config.limits.message_time_to_live_max_ms;
    TopicOptions { default_message_time_to_live_ms, ..config.namespace.tier.defaults() }
}

fn find_undeclared(stored: &[Entity], config: &Config) {
    let queues = config.queues.iter().map(|queue| &queue.name).chain(&config.queues_if_missing);
    let topics = config.topics.iter().map(|topic| &topic.name);
    let asked = config.topics_if_missing.iter().map(|asked| &asked.topic);
    // A set: with ten thousand entities, comparing all pairs of names takes seconds.
    let declared: HashSet<Box<str>> = queues.chain(topics).chain(asked).map(|name| name_key(name)).collect();
    let others = stored.iter().filter(|(name, _)| !declared.contains(&name_key(name)));
    note_undeclared(others.map(|(name, options)| format!("{} \"{name}\"", kind(options))).collect());
}

/// Logs one line, however many entities clients have created.
pub(super) fn note_undeclared(others: Vec<String>) {
    if others.is_empty() {
        return;
    }
    let first: Vec<&str> = others.iter().map(String::as_str).take(UNDECLARED_NAMED_MAX).collect();
    let and_more = if others.len() > first.len() { ", …" } else { "" };
    tracing::info!(
        count = others.len(),
        first = %format!("{}{and_more}", first.join(", ")),
        "entities are stored that the configuration does not declare; they are kept and served with their stored options"
    );
}

fn check_message_size((name, options): &Entity, limits: Limits) -> Result<(), ServeError> {
    let asked = options.max_message_size_bytes();
    let limit = limits.value_bytes_max.min(limits.batch_bytes_max) as u64;
    if asked <= limit {
        return Ok(());
    }
    let (kind, name) = (kind(options), name.clone());
    Err(ServeError::MessageSize { kind, name, asked_kb: asked / KILOBYTE, limit_kb: limit / KILOBYTE })
}

const fn kind(options: &EntityOptions) -> &'static str {
    match options {
        EntityOptions::Queue(_) => "queue",
        EntityOptions::Topic(_) => "topic",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use peeklock_engine::Timestamp;
    use peeklock_engine::runtime::{ManualClock, NamespaceOptions};
    use peeklock_storage::{MemoryStore, ShardId, Store};

    use super::*;
    use crate::config::ServeArgs;

    const STARTS: usize = 100;

    const TEMPORARY: &str = r#"
        [[queues]]
        name = "replies"
        auto_delete_on_idle = "PT5M"
        [[topics]]
        name = "news"
        auto_delete_on_idle = "PT1H"
        [[topics.subscriptions]]
        name = "reader"
        auto_delete_on_idle = "PT5M"
    "#;

    fn config(text: &str) -> Config {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let args = ServeArgs { config: Some(file.path().to_owned()), ..ServeArgs::default() };
        Config::resolve(args).unwrap()
    }

    const FORWARDING: &str = r#"
        [[queues]]
        name = "first"
        forward_to = "second"
        [[queues]]
        name = "second"
        forward_dead_lettered_messages_to = "sb://localhost/News"
        [[topics]]
        name = "news"
        [[topics.subscriptions]]
        name = "reader"
        forward_to = "last"
        [[queues]]
        name = "last"
    "#;

    #[tokio::test]
    async fn targets_of_forwarding_may_be_declared_after_their_sources() {
        let (store, clock) = (MemoryStore::new(), ManualClock::new(Timestamp(1_700_000_000_000)));
        let shard = store.acquire(ShardId(0)).await.unwrap();
        let limits = shard.limits();
        let options = NamespaceOptions { body_cache_bytes: 0, seed: Some(1), ..NamespaceOptions::default() };
        let namespace = Namespace::start(shard, Arc::new(clock), options).await.unwrap();
        declare(&namespace, &config(FORWARDING), limits).await.unwrap();
        let options = namespace.options("first").unwrap();
        let EntityOptions::Queue(first) = &*options else { panic!("not a queue") };
        assert_eq!(first.forwarding.forward_to.as_deref(), Some("second"));
        let reader = namespace.subscription("news", "reader").unwrap();
        assert_eq!(reader.options.forwarding.forward_to.as_deref(), Some("last"));
        namespace.shutdown().await;
    }

    /// Actors and catalogue run concurrently, so the test is repeated.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn declared_entities_exist_after_any_downtime() {
        let config = config(TEMPORARY);
        let (store, clock) = (MemoryStore::new(), ManualClock::new(Timestamp(1_700_000_000_000)));
        for _ in 0..STARTS {
            let shard = store.acquire(ShardId(0)).await.unwrap();
            let limits = shard.limits();
            let options =
                NamespaceOptions { body_cache_bytes: 0, seed: Some(1), ..NamespaceOptions::default() };
            let namespace = Namespace::start(shard, Arc::new(clock.clone()), options).await.unwrap();
            declare(&namespace, &config, limits).await.unwrap();
            namespace.catch_up().await;
            assert!(namespace.options("replies").is_some());
            assert!(namespace.subscription("news", "reader").is_some());
            namespace.shutdown().await;
            clock.advance(600_000);
        }
    }
}
