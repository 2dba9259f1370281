//! Parsing of addresses. Links, tokens, HTTP requests and forwarding targets all use [`ResolvedNode::of`], so that a
//! right to one resource is never taken for a right to another.

mod address;
#[cfg(test)]
mod tests;

use std::fmt;

use peeklock_engine::{SubQueue, check_addressed_subscription_name, check_entity_name, name_key};

use crate::Resource;

pub(crate) use address::{ADDRESS_BYTES_MAX, decoded_path};

/// Precedes the name of a subscription.
const SUBSCRIPTIONS: &str = "Subscriptions";
/// Precedes the name of a rule.
const RULES: &str = "Rules";
const MANAGEMENT: &str = "$management";
const TRANSFER: &str = "$Transfer";
const DEAD_LETTER_QUEUE: &str = "$DeadLetterQueue";

/// The node that an address names by its form; the entity may not exist. Names are decoded, in the letter case of the
/// address, and compared case-insensitively.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedNode {
    /// The namespace: an address without a path.
    Namespace,
    /// `$namespaceinfo`: the description of the namespace.
    NamespaceInfo,
    /// `$Resources/queues`: the list of all queues.
    Queues,
    /// `$Resources/topics`: the list of all topics.
    Topics,
    /// `$cbs`: the node that receives tokens.
    Cbs,
    /// A queue, topic or subscription, a queue inside it, or the management node of either.
    Entity(EntityNode),
    /// The list of a topic's subscriptions.
    Subscriptions {
        /// The topic.
        topic: String,
    },
    /// The list of a subscription's rules.
    Rules {
        /// The topic.
        topic: String,
        /// The subscription.
        subscription: String,
    },
    /// A rule of a subscription.
    Rule {
        /// The topic.
        topic: String,
        /// The subscription.
        subscription: String,
        /// The rule's name, unchecked.
        rule: String,
    },
}

/// A queue, topic or subscription named by an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityNode {
    /// Name of the queue or topic; may contain `/`.
    pub name: String,
    /// Name of the subscription, for `TOPIC/Subscriptions/NAME`.
    pub subscription: Option<String>,
    /// The queue inside the entity.
    pub sub_queue: SubQueue,
    /// Whether `/$management` followed.
    pub management: bool,
}

/// The reason why an address names nothing, as a sentence without its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Longer than `ADDRESS_BYTES_MAX`.
    #[error("the address is longer than {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
    /// Contains `://`, but is not a URL.
    #[error("the address has no host after its scheme")]
    NoHost,
    /// The percent-decoded bytes are not UTF-8.
    #[error("the address is not UTF-8 once it is decoded")]
    NotUtf8,
    /// Only separators or words such as `$management`.
    #[error("the address names no entity")]
    Empty,
    /// A part is ambiguous, or is not valid as a name of an entity.
    #[error("'{name}' can't be the name of {kind}: {reason}")]
    Name {
        /// The part.
        name: String,
        /// "an entity" or "a subscription".
        kind: &'static str,
        /// The reason.
        reason: String,
    },
}

impl ResolvedNode {
    /// Parses an address: a path or a URL, percent-encoded or not. Host, query and fragment are ignored, because
    /// clients write the name by which they know the broker. Leading and trailing slashes of the path are ignored, an
    /// encoded slash is a slash, and keywords are case-insensitive. Names are parsed from the right, because the names
    /// of queues and topics contain slashes.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn of(address: &str) -> Result<Self, AddressError> {
        let path = address::decoded_path(address)?;
        if path.is_empty() {
            return Ok(Self::Namespace);
        }
        let parts: Vec<&str> = path.split('/').collect();
        match *parts.as_slice() {
            [word] if is(word, "$cbs") => Ok(Self::Cbs),
            [word] if is(word, "$namespaceinfo") => Ok(Self::NamespaceInfo),
            [word, queues] if is(word, "$Resources") && is(queues, "queues") => Ok(Self::Queues),
            [word, topics] if is(word, "$Resources") && is(topics, "topics") => Ok(Self::Topics),
            [ref topic @ .., word, subscription, rules, rule]
                if is_inside(topic, word) && is(rules, RULES) =>
            {
                let (topic, subscription) = of_topic(topic, subscription)?;
                Ok(Self::Rule { topic, subscription, rule: rule.to_owned() })
            }
            [ref topic @ .., word, subscription, rules] if is_inside(topic, word) && is(rules, RULES) => {
                let (topic, subscription) = of_topic(topic, subscription)?;
                Ok(Self::Rules { topic, subscription })
            }
            [ref topic @ .., word] if is_inside(topic, word) && !ends_in_subscription(&parts) => {
                Ok(Self::Subscriptions { topic: entity_name(topic)? })
            }
            _ => EntityNode::of(&parts).map(Self::Entity),
        }
    }

    /// The resource for authorization: the queues and nodes inside an entity belong to the entity, the rules of a
    /// subscription to the subscription, the list of a topic's subscriptions to the topic. `None` for [`Self::Cbs`],
    /// which needs no right.
    #[must_use]
    pub fn resource(&self) -> Option<Resource> {
        Some(match self {
            Self::Namespace => Resource::namespace(),
            Self::NamespaceInfo => Resource::namespace_info(),
            Self::Queues => Resource::queues(),
            Self::Topics => Resource::topics(),
            Self::Cbs => return None,
            Self::Entity(entity) => entity.resource(),
            Self::Subscriptions { topic } => Resource::entity(topic),
            Self::Rules { topic, subscription } | Self::Rule { topic, subscription, .. } => {
                Resource::subscription(topic, subscription)
            }
        })
    }

    /// The queue or topic that the node is or belongs to.
    #[must_use]
    pub fn entity_name(&self) -> Option<&str> {
        match self {
            Self::Namespace | Self::NamespaceInfo | Self::Queues | Self::Topics | Self::Cbs => None,
            Self::Entity(EntityNode { name, .. })
            | Self::Subscriptions { topic: name }
            | Self::Rules { topic: name, .. }
            | Self::Rule { topic: name, .. } => Some(name),
        }
    }
}

impl EntityNode {
    /// Strips optional suffixes, from the right.
    fn of(parts: &[&str]) -> Result<Self, AddressError> {
        let (management, parts) = match parts {
            [rest @ .., word] if is(word, MANAGEMENT) => (true, rest),
            rest => (false, rest),
        };
        let (sub_queue, parts) = match parts {
            [rest @ .., transfer, dead] if is(transfer, TRANSFER) && is(dead, DEAD_LETTER_QUEUE) => {
                (SubQueue::TransferDeadLetter, rest)
            }
            [rest @ .., dead] if is(dead, DEAD_LETTER_QUEUE) => (SubQueue::DeadLetter, rest),
            rest => (SubQueue::Main, rest),
        };
        let (name, subscription) = match parts {
            [topic @ .., word, subscription] if is_inside(topic, word) => {
                let (topic, subscription) = of_topic(topic, subscription)?;
                (topic, Some(subscription))
            }
            name => (entity_name(name)?, None),
        };
        Ok(Self { name, subscription, sub_queue, management })
    }

    /// The resource for authorization: the queue, topic or subscription.
    #[must_use]
    pub fn resource(&self) -> Resource {
        match &self.subscription {
            Some(subscription) => Resource::subscription(&self.name, subscription),
            None => Resource::entity(&self.name),
        }
    }

    /// The canonical path of the queue with the messages, without `$management`. Two addresses name the same queue if
    /// and only if their keys are equal.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}{}", self.resource().path(), name_key(self.suffix()))
    }

    /// Whether it is the queue, topic or subscription itself, not a node inside it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.sub_queue == SubQueue::Main && !self.management
    }

    /// The path of the queue, topic or subscription, for people.
    #[must_use]
    pub fn entity_path(&self) -> String {
        match &self.subscription {
            Some(subscription) => format!("{}/{SUBSCRIPTIONS}/{subscription}", self.name),
            None => self.name.clone(),
        }
    }

    fn suffix(&self) -> &'static str {
        match self.sub_queue {
            SubQueue::Main => "",
            SubQueue::DeadLetter => "/$DeadLetterQueue",
            SubQueue::TransferDeadLetter => "/$Transfer/$DeadLetterQueue",
        }
    }
}

/// The whole path in the notation of Service Bus.
impl fmt::Display for EntityNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let management = if self.management { "/$management" } else { "" };
        write!(formatter, "{}{}{management}", self.entity_path(), self.suffix())
    }
}

/// The queue or topic named by a forwarding target: a bare name, or a URL with any host. Java 7.17.20 prepends a URL to
/// the one that it was given: the last one counts. `None` for an empty target. A target that names no queue or topic is
/// returned unchanged; no entity has such a name.
#[must_use]
pub fn forwarding_target(text: &str) -> Option<String> {
    let text = text.trim();
    let last = text.rsplit_once("://").map(|(_, rest)| format!("sb://{rest}"));
    match ResolvedNode::of(last.as_deref().unwrap_or(text)) {
        Ok(ResolvedNode::Namespace) => None,
        Ok(ResolvedNode::Entity(entity)) if entity.is_whole() && entity.subscription.is_none() => {
            Some(entity.name)
        }
        _ => Some(text.to_owned()),
    }
}

/// Validates the names of a topic and of a subscription.
fn of_topic(topic: &[&str], subscription: &str) -> Result<(String, String), AddressError> {
    let topic = entity_name(topic)?;
    let kind = "a subscription";
    check_addressed_subscription_name(subscription).map_err(|reason| AddressError::Name {
        name: subscription.to_owned(),
        kind,
        reason,
    })?;
    Ok((topic, subscription.to_owned()))
}

/// Validates the name of a queue or topic.
fn entity_name(parts: &[&str]) -> Result<String, AddressError> {
    let name = parts.join("/");
    if name.is_empty() {
        return Err(AddressError::Empty);
    }
    match check_entity_name(&name) {
        Ok(()) => Ok(name),
        Err(reason) => Err(AddressError::Name { name, kind: "an entity", reason }),
    }
}

/// Whether the parts end in `TOPIC/Subscriptions/NAME`.
fn ends_in_subscription(parts: &[&str]) -> bool {
    matches!(parts, [topic @ .., word, _] if is_inside(topic, word))
}

fn is_inside(topic: &[&str], word: &str) -> bool {
    !topic.is_empty() && is(word, SUBSCRIPTIONS)
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}
