//! Entities requested by flag or variable: created with default options if they don't exist, otherwise unchanged.

use std::collections::HashSet;
use std::str::FromStr;

use peeklock_engine::{name_key, same_name};

use super::entity::{check_name, check_subscription_name};
use super::queue::QueueConfig;
use super::topic::TopicConfig;

/// The separator between a topic and its subscription in addresses.
const SUBSCRIPTIONS: &str = "/subscriptions/";

/// A topic, optionally with a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskedTopic {
    /// The topic's name.
    pub(crate) topic: String,
    /// The subscription's name.
    pub(crate) subscription: Option<String>,
}

impl FromStr for AskedTopic {
    type Err = String;

    /// Parses `TOPIC`, `TOPIC/SUBSCRIPTION`, and, as in addresses, `TOPIC/Subscriptions/SUBSCRIPTION`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let keyword = text.to_ascii_lowercase().rfind(SUBSCRIPTIONS);
        let parts = match keyword {
            Some(at) => text.get(..at).zip(text.get(at + SUBSCRIPTIONS.len()..)),
            None => text.rsplit_once('/'),
        };
        let (topic, subscription) = match parts {
            Some((topic, subscription)) => (topic, Some(subscription)),
            None => (text, None),
        };
        check_name(topic)?;
        subscription.map_or(Ok(()), check_subscription_name)?;
        Ok(Self { topic: topic.to_owned(), subscription: subscription.map(str::to_owned) })
    }
}

/// Checks the name of a queue.
///
/// # Errors
/// A message for the end of a sentence about the name.
pub(super) fn queue_name(name: &str) -> Result<String, String> {
    check_name(name).map(|()| name.to_owned())
}

/// The requested queues that the file doesn't declare.
///
/// # Errors
/// A name that is also a topic's.
pub(super) fn queues(
    mut asked: Vec<String>,
    queues: &[QueueConfig],
    topics: &[TopicConfig],
) -> Result<Vec<String>, String> {
    if let Some(name) = asked.iter().find(|name| topics.iter().any(|topic| same_name(&topic.name, name))) {
        return Err(format!("--queue {name}: the file declares a topic of this name; choose another"));
    }
    asked.retain(|name| !queues.iter().any(|queue| same_name(&queue.name, name)));
    Ok(asked)
}

/// The requested topics and subscriptions that the file doesn't declare, each once. `asked_queues` are the requested
/// queues.
///
/// # Errors
/// A name that is also a queue's.
pub(super) fn topics(
    mut asked: Vec<AskedTopic>,
    topics: &[TopicConfig],
    queues: &[QueueConfig],
    asked_queues: &[String],
) -> Result<Vec<AskedTopic>, String> {
    for AskedTopic { topic, .. } in &asked {
        if queues.iter().any(|queue| same_name(&queue.name, topic)) {
            return Err(format!("--topic {topic}: the file declares a queue of this name; choose another"));
        }
        if asked_queues.iter().any(|queue| same_name(queue, topic)) {
            return Err(format!("--topic {topic}: --queue declares a queue of this name; choose another"));
        }
    }
    let mut seen = HashSet::new();
    asked.retain(|asked| {
        let key = (name_key(&asked.topic), asked.subscription.as_deref().map(name_key));
        seen.insert(key) && !topics.iter().any(|topic| declares(topic, asked))
    });
    Ok(asked)
}

fn declares(topic: &TopicConfig, asked: &AskedTopic) -> bool {
    same_name(&topic.name, &asked.topic)
        && asked.subscription.as_ref().is_none_or(|name| {
            topic.subscriptions.iter().any(|subscription| same_name(&subscription.name, name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_may_be_followed_by_a_subscription() {
        let asked = |text: &str| {
            let AskedTopic { topic, subscription } = text.parse().unwrap();
            (topic, subscription)
        };
        assert_eq!(asked("news"), ("news".into(), None));
        assert_eq!(asked("news/all"), ("news".into(), Some("all".into())));
        assert_eq!(asked("news/eu/all"), ("news/eu".into(), Some("all".into())));
        assert_eq!(asked("news/eu/SUBSCRIPTIONS/all"), ("news/eu".into(), Some("all".into())));
        assert_eq!(asked("ünï/Subscriptions/subscriptions"), ("ünï".into(), Some("subscriptions".into())));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let long = format!("news/{}", "x".repeat(51));
        for (bad, message) in [
            ("", "empty"),
            ("/all", "empty"),
            ("news/", "empty"),
            ("news/Subscriptions/", "empty"),
            ("ne?ws/all", "'?'"),
            ("news/a@b", "'@'"),
            ("news/$deadletterqueue", "reserved for the broker"),
            (&long, "longer than 50"),
        ] {
            let error = bad.parse::<AskedTopic>().expect_err(bad);
            assert!(error.contains(message), "{bad}: {error}");
        }
    }
}
