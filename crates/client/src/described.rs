//! Descriptions of entities returned by a namespace.

use peeklock_admin::description::Element;
use peeklock_engine::{QueueOptions, SubscriptionOptions, TopicOptions};

/// The kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityKind {
    /// A queue.
    Queue,
    /// A topic.
    Topic,
    /// A subscription.
    Subscription,
}

impl EntityKind {
    /// The name of the kind in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Topic => "topic",
            Self::Subscription => "subscription",
        }
    }
}

/// Numbers of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Available, locked or deferred.
    pub active: u64,
    /// In the dead-letter queue.
    pub dead_letter: u64,
    /// Scheduled for later.
    pub scheduled: u64,
    /// In the transfer dead-letter queue.
    pub transfer_dead_letter: u64,
}

/// The options of an entity, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Options {
    /// Options of a queue.
    Queue(Box<QueueOptions>),
    /// Options of a topic.
    Topic(Box<TopicOptions>),
    /// Options of a subscription.
    Subscription(Box<SubscriptionOptions>),
}

/// An entity with its description.
#[derive(Debug, Clone)]
pub struct Found {
    /// `queue`, `topic` or `topic/Subscriptions/name`.
    pub path: String,
    /// Its kind.
    pub kind: EntityKind,
    /// Its description.
    pub described: Described,
}

/// The elements of a description, with Service Bus's names, and message counts.
#[derive(Debug, Clone, Default)]
pub struct Described(Vec<(String, String)>, Counts);

impl Described {
    pub(crate) fn of(description: &Element) -> Self {
        let texts = description.children.iter().filter(|child| child.children.is_empty() && !child.nil);
        let texts = texts.map(|child| (child.name.clone(), child.text.trim().to_owned()));
        let count = |name: &str| {
            let details = description.child("CountDetails");
            details
                .and_then(|details| details.text_of(name))
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0)
        };
        let counts = Counts {
            active: count("ActiveMessageCount"),
            dead_letter: count("DeadLetterMessageCount"),
            scheduled: count("ScheduledMessageCount"),
            transfer_dead_letter: count("TransferDeadLetterMessageCount"),
        };
        Self(texts.collect(), counts)
    }

    /// All text elements, in the order of the service.
    #[must_use]
    pub fn elements(&self) -> &[(String, String)] {
        &self.0
    }

    /// The text of an element.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// Numbers of its messages.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.1
    }
}
