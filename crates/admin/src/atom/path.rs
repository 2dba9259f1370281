//! What a path names.

use std::fmt::Write;

use peeklock_access::Resource;
use peeklock_engine::runtime::EntityKind;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// What is escaped in the paths of URLs that are shown; JS takes names from them as they are.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'|')
    .add(b'^');

/// What a request is about; names as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nothing: the namespace itself.
    Root,
    /// The dead-letter queue of a queue or topic, which has no description.
    DeadLetters(String),
    /// `$namespaceinfo`
    NamespaceInfo,
    /// All queues, or all topics.
    Entities(EntityKind),
    /// A queue or topic: nothing in the path tells which.
    Entity(String),
    /// All subscriptions of a topic.
    Subscriptions(String),
    /// A subscription: its topic and its name.
    Subscription(String, String),
    /// All rules of a subscription.
    Rules(String, String),
    /// A rule: topic, subscription, name.
    Rule(String, String, String),
}

impl Target {
    /// Reads the path of a URL: from the right, because names of queues and topics may have slashes, whether these are
    /// escaped (Python) or not (JS). Literal words match case-insensitively.
    ///
    /// # Errors
    /// What is wrong with it, as a sentence.
    pub(crate) fn parse(path: &str) -> Result<Self, String> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(Self::Root);
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let decode = |part: &str| percent_decode_str(part).decode_utf8().map(|part| part.into_owned());
        let parts: Result<Vec<String>, _> = path.split('/').map(decode).collect();
        let parts = parts.map_err(|_| "The path of the request is not UTF-8.".to_owned())?;
        let is = |part: &String, word: &str| part.eq_ignore_ascii_case(word);
        Ok(match parts.as_slice() {
            [topic @ .., subscriptions, name, rules, rule]
                if !topic.is_empty() && is(subscriptions, "subscriptions") && is(rules, "rules") =>
            {
                Self::Rule(topic.join("/"), name.clone(), rule.clone())
            }
            [topic @ .., subscriptions, name, rules]
                if !topic.is_empty() && is(subscriptions, "subscriptions") && is(rules, "rules") =>
            {
                Self::Rules(topic.join("/"), name.clone())
            }
            [topic @ .., subscriptions, name] if !topic.is_empty() && is(subscriptions, "subscriptions") => {
                Self::Subscription(topic.join("/"), name.clone())
            }
            [topic @ .., subscriptions] if !topic.is_empty() && is(subscriptions, "subscriptions") => {
                Self::Subscriptions(topic.join("/"))
            }
            [resources, queues] if is(resources, "$Resources") && is(queues, "queues") => {
                Self::Entities(EntityKind::Queue)
            }
            [resources, topics] if is(resources, "$Resources") && is(topics, "topics") => {
                Self::Entities(EntityKind::Topic)
            }
            [info] if is(info, "$namespaceinfo") => Self::NamespaceInfo,
            [name @ .., dead_letters] if !name.is_empty() && is(dead_letters, "$DeadLetterQueue") => {
                Self::DeadLetters(name.join("/"))
            }
            name => Self::Entity(name.join("/")),
        })
    }

    /// What whoever asks for this needs the right to manage.
    pub(crate) fn resource(&self) -> Resource {
        match self {
            Self::Root => Resource::namespace(),
            Self::NamespaceInfo => Resource::namespace_info(),
            Self::Entities(EntityKind::Queue) => Resource::queues(),
            Self::Entities(EntityKind::Topic) => Resource::topics(),
            Self::Entity(name) | Self::DeadLetters(name) | Self::Subscriptions(name) => {
                Resource::entity(name)
            }
            Self::Subscription(topic, name) | Self::Rules(topic, name) | Self::Rule(topic, name, _) => {
                Resource::subscription(topic, name)
            }
        }
    }

    /// The queue or topic that it is or is in.
    pub(crate) fn entity(&self) -> Option<&str> {
        match self {
            Self::Root | Self::NamespaceInfo | Self::Entities(_) => None,
            Self::Entity(name)
            | Self::DeadLetters(name)
            | Self::Subscriptions(name)
            | Self::Subscription(name, _)
            | Self::Rules(name, _)
            | Self::Rule(name, ..) => Some(name),
        }
    }

    /// The path as it stands in the URLs of responses: with the capitals that JS looks for.
    pub(crate) fn url_path(&self) -> String {
        let mut path = String::new();
        for part in self.parts() {
            let _ = write!(path, "/{}", utf8_percent_encode(part, ESCAPED));
        }
        path
    }

    fn parts(&self) -> Vec<&str> {
        match self {
            Self::Root => Vec::new(),
            Self::DeadLetters(name) => vec![name, "$DeadLetterQueue"],
            Self::NamespaceInfo => vec!["$namespaceinfo"],
            Self::Entities(EntityKind::Queue) => vec!["$Resources", "queues"],
            Self::Entities(EntityKind::Topic) => vec!["$Resources", "topics"],
            Self::Entity(name) => vec![name],
            Self::Subscriptions(topic) => vec![topic, "Subscriptions"],
            Self::Subscription(topic, name) => vec![topic, "Subscriptions", name],
            Self::Rules(topic, subscription) => vec![topic, "Subscriptions", subscription, "Rules"],
            Self::Rule(topic, subscription, name) => {
                vec![topic, "Subscriptions", subscription, "Rules", name]
            }
        }
    }

    /// As it is called in messages to people.
    pub(crate) fn display(&self) -> String {
        self.parts().join("/")
    }
}

/// A name that is the target of forwarding, from a URL (whatever its host: clients write what they take it for) or a bare
/// name; `None` for none. Java 7.17.20 puts a URL before what it got, even if that is one: the last counts.
pub(crate) fn forward_target(text: &str) -> Option<String> {
    let text = text.trim();
    let path = match text.rsplit_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => text,
    };
    let name = path.trim_matches('/');
    let decoded =
        percent_decode_str(name).decode_utf8().map_or_else(|_| name.to_owned(), |name| name.into_owned());
    (!decoded.is_empty()).then_some(decoded)
}

/// The target of forwarding as the SDKs expect it.
pub(crate) fn forward_url(host: &str, name: &str) -> String {
    format!("sb://{host}/{}", utf8_percent_encode(name, ESCAPED))
}
