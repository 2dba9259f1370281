//! What rights are about: the namespace, its entities, and the lists of them, each under one canonical path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Longest address looked at, in bytes: an entity's name has at most 260 characters, the rest is authority and suffixes.
const ADDRESS_BYTES_MAX: usize = 2048;

/// Entities' names are not longer (Service Bus quotas), in bytes of UTF-8.
const NAME_BYTES_MAX: usize = 4 * 260;

/// What stands between the name of a topic and the name of its subscription.
const SUBSCRIPTIONS: &str = "/subscriptions/";

/// The canonical path of what rights are about: lower case, decoded, without scheme, host and the names of the queues and
/// nodes inside an entity. Empty for the whole namespace. Two addresses concern the same thing if and only if their paths
/// are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resource(Box<str>);

impl Resource {
    /// The whole namespace.
    #[must_use]
    pub fn namespace() -> Self {
        Self::default()
    }

    /// The queue or topic of this name, as it is: nothing in it is decoded.
    #[must_use]
    pub fn entity(name: &str) -> Self {
        Self(name.to_lowercase().into_boxed_str())
    }

    /// A subscription, by the names of its topic and its own.
    #[must_use]
    pub fn subscription(topic: &str, name: &str) -> Self {
        Self(format!("{topic}{SUBSCRIPTIONS}{name}").to_lowercase().into_boxed_str())
    }

    /// The list of all queues.
    #[must_use]
    pub fn queues() -> Self {
        Self("$resources/queues".into())
    }

    /// The list of all topics.
    #[must_use]
    pub fn topics() -> Self {
        Self("$resources/topics".into())
    }

    /// The description of the namespace.
    #[must_use]
    pub fn namespace_info() -> Self {
        Self("$namespaceinfo".into())
    }

    /// An address as clients write it: a path or a URL, percent-encoded or not, in any letter case. Host, port and query do
    /// not matter: clients write the name under which they know the broker. The management node and the dead-letter queues
    /// of an entity are the entity; the rules of a subscription are the subscription; the list of a topic's subscriptions
    /// is the topic.
    ///
    /// `None` if the address has no canonical form: it is too long, its authority is none, or it could be read in two ways
    /// (an encoded slash, an empty part, `..`, something encoded twice, an unknown part with `$`).
    #[must_use]
    pub fn of(address: &str) -> Option<Self> {
        if address.len() > ADDRESS_BYTES_MAX {
            return None;
        }
        let path = without_authority(address)?;
        let path = path.split(['?', '#']).next().unwrap_or(path).trim_matches('/');
        if path.is_empty() {
            return Some(Self::namespace());
        }
        let parts: Option<Vec<String>> = path.split('/').map(part).collect();
        let parts = parts?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match *parts.as_slice() {
            ["$namespaceinfo"] => Some(Self::namespace_info()),
            ["$resources", "queues"] => Some(Self::queues()),
            ["$resources", "topics"] => Some(Self::topics()),
            _ => of_entity(&parts),
        }
    }

    /// What a shared access signature is for, as it stands in `sr`, still encoded. Without a scheme, what reads like a host
    /// is one: JavaScript signs `localhost:5300`. Entities can't have such names.
    #[must_use]
    pub(crate) fn of_signed(encoded: &str) -> Option<Self> {
        if encoded.len() > 3 * ADDRESS_BYTES_MAX {
            return None;
        }
        let spaced = encoded.replace('+', " ");
        let address = percent_decode_str(&spaced).decode_utf8().ok()?;
        if address.contains("://") || address.starts_with('/') {
            return Self::of(&address);
        }
        let (first, rest) = address.split_once('/').unwrap_or((&address, ""));
        let first = first.split(['?', '#']).next().unwrap_or(first);
        Self::of(if peeklock_engine::reads_like_a_host(first) { rest } else { &address })
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this or a part of it: every entity is a part of the namespace, a subscription of its topic. An
    /// entity `queue/new` is no part of the entity `queue`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.0.is_empty() || self == other || other.topic() == Some(&self.0)
    }

    /// Whether the path of `other` starts with the parts of this one: what a shared access signature means by a URL.
    pub(crate) fn is_prefix_of(&self, other: &Self) -> bool {
        let Some(rest) = other.0.strip_prefix(&*self.0) else { return false };
        self.0.is_empty() || rest.is_empty() || rest.starts_with('/')
    }

    /// The queue or topic that has the rules: the topic of a subscription, anything else itself. `None` for the namespace.
    pub(crate) fn entity_name(&self) -> Option<&str> {
        let name = self.topic().unwrap_or(&self.0);
        (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
    }

    /// Of a subscription.
    fn topic(&self) -> Option<&str> {
        let (topic, subscription) = self.0.rsplit_once(SUBSCRIPTIONS)?;
        (!topic.is_empty() && !subscription.contains('/')).then_some(topic)
    }

    /// The path and the shorter paths that it starts with; the namespace is not among them.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        let whole = Some(&*self.0).filter(|path| !path.is_empty());
        std::iter::successors(whole, |path| path.rsplit_once('/').map(|(parent, _)| parent))
    }
}

/// The parts of a path that names a queue, topic or subscription, or something in one.
fn of_entity(parts: &[&str]) -> Option<Resource> {
    let parts = match parts {
        [rest @ .., "$transfer", "$deadletterqueue", "$management"]
        | [rest @ .., "$transfer", "$deadletterqueue"]
        | [rest @ .., "$deadletterqueue", "$management"]
        | [rest @ .., "$deadletterqueue" | "$management"] => rest,
        rest => rest,
    };
    let (name, subscription) = match parts {
        // Names of rules may start with '$'.
        [name @ .., "subscriptions", subscription, "rules", _]
        | [name @ .., "subscriptions", subscription, "rules"]
        | [name @ .., "subscriptions", subscription] => (name, Some(*subscription)),
        [name @ .., "subscriptions"] => (name, None),
        name => (name, None),
    };
    let is_reserved = |part: &&str| part.starts_with('$');
    if name.is_empty()
        || name.iter().any(|part| is_reserved(part) || *part == "subscriptions")
        || subscription.as_ref().is_some_and(is_reserved)
    {
        return None;
    }
    let name = name.join("/");
    Some(match subscription {
        Some(subscription) => Resource::subscription(&name, subscription),
        None => Resource(name.into_boxed_str()),
    })
}

/// A part of a path, decoded and in lower case, if there is one way only to read it.
fn part(written: &str) -> Option<String> {
    let decoded = percent_decode_str(written).decode_utf8().ok()?;
    let is_stable = matches!(percent_decode_str(&decoded).decode_utf8(), Ok(Cow::Borrowed(_)));
    let is_plain = !decoded.contains(['/', '\\', '?', '#']) && !decoded.contains(char::is_control);
    let names_something = !matches!(&*decoded, "" | "." | "..");
    (is_stable && is_plain && names_something).then(|| decoded.to_lowercase())
}

/// The path of a URL, or the text if it is none.
fn without_authority(address: &str) -> Option<&str> {
    let Some((scheme, rest)) = address.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return Some(address);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let is_authority = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    let is_url = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !authority.is_empty()
        && authority.bytes().all(is_authority);
    is_url.then_some(path)
}

#[cfg(test)]
mod tests;
