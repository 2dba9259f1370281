//! What an address names. Links, tokens, requests over HTTP and targets of forwarding are all read by [`ResolvedNode::of`],
//! so that a right to one thing is never taken for a right to another.

mod address;
#[cfg(test)]
mod tests;

use std::fmt;

use peeklock_engine::{SubQueue, check_addressed_subscription_name, check_entity_name, name_key};

use crate::Resource;

pub(crate) use address::ADDRESS_BYTES_MAX;

/// Stands before the name of a subscription.
const SUBSCRIPTIONS: &str = "Subscriptions";
/// Stands before the name of a rule.
const RULES: &str = "Rules";
const MANAGEMENT: &str = "$management";
const TRANSFER: &str = "$Transfer";
const DEAD_LETTER_QUEUE: &str = "$DeadLetterQueue";

/// What an address names by its form; whether there is such an entity, the namespace knows. Names are decoded, in the letter
/// case of the address; they match case-insensitively.
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
    /// `$cbs`: the node that takes tokens.
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
        /// The rule's name; nothing in it is checked.
        rule: String,
    },
}

/// A queue, topic or subscription as an address names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityNode {
    /// Of the queue or topic; may contain `/`.
    pub name: String,
    /// Of the subscription, if it is one: `TOPIC/Subscriptions/NAME`.
    pub subscription: Option<String>,
    /// Which queue inside the entity.
    pub sub_queue: SubQueue,
    /// Whether `/$management` followed.
    pub management: bool,
}

/// Why text is the address of nothing, as a sentence without its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// See `ADDRESS_BYTES_MAX`.
    #[error("the address is longer than {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
    /// It has `://`, but is no URL.
    #[error("the address has no host after its scheme")]
    NoHost,
    /// Its percent-encoding gives no text.
    #[error("the address is not UTF-8 once it is decoded")]
    NotUtf8,
    /// Only separators or words such as `$management`.
    #[error("the address names no entity")]
    Empty,
    /// A part could be read in two ways, or no entity can have the name.
    #[error("'{name}' can't be the name of {kind}: {reason}")]
    Name {
        /// As it was read.
        name: String,
        /// "an entity" or "a subscription".
        kind: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl ResolvedNode {
    /// Reads an address as clients write it: a path or a URL, percent-encoded or not. Host, query and fragment don't matter:
    /// clients write the name by which they know the broker. Slashes at the ends of the path don't count, an encoded slash
    /// is a slash, and the words of addresses match in any letter case. Names are read from the right, because the names of
    /// queues and topics contain slashes.
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

    /// What rights on it are about: the queues and nodes inside an entity are the entity, the rules of a subscription are the
    /// subscription, the list of a topic's subscriptions is the topic. `None` for [`Self::Cbs`], which takes no right.
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

    /// The queue or topic that it is or is in.
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
    /// Takes off from the right what can follow a name.
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

    /// What rights are about: the queue, topic or subscription.
    #[must_use]
    pub fn resource(&self) -> Resource {
        match &self.subscription {
            Some(subscription) => Resource::subscription(&self.name, subscription),
            None => Resource::entity(&self.name),
        }
    }

    /// The canonical path of the queue that messages are in, without `$management`. Two addresses name the same queue if and
    /// only if their keys are equal.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}{}", self.resource().path(), name_key(self.suffix()))
    }

    /// Whether it is the queue, topic or subscription itself, and nothing inside it.
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

/// The whole path, as Service Bus writes it.
impl fmt::Display for EntityNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let management = if self.management { "/$management" } else { "" };
        write!(formatter, "{}{}{management}", self.entity_path(), self.suffix())
    }
}

/// The queue or topic that a target of forwarding names: a bare name, or a URL whose host does not matter. Java 7.17.20 puts a
/// URL before the one that it was given: the last counts. `None` for an empty target. What names no queue or topic is given
/// back as it is; no entity has such a name.
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

/// A topic and a subscription of it, with names that they can have.
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

/// The name of a queue or topic, if there can be one of this name.
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

/// Whether parts end in `TOPIC/Subscriptions/NAME`.
fn ends_in_subscription(parts: &[&str]) -> bool {
    matches!(parts, [topic @ .., word, _] if is_inside(topic, word))
}

fn is_inside(topic: &[&str], word: &str) -> bool {
    !topic.is_empty() && is(word, SUBSCRIPTIONS)
}

fn is(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}
