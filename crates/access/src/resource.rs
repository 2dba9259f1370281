//! Resources for authorization: the namespace, its entities, and their lists, each with one canonical path.

use peeklock_engine::name_key;
use percent_encoding::percent_decode_str;

use crate::ResolvedNode;
use crate::node::{ADDRESS_BYTES_MAX, decoded_path};

/// Longest name of an entity (Service Bus quotas), in bytes of UTF-8.
const NAME_BYTES_MAX: usize = 4 * 260;

/// The separator between the names of a topic and of its subscription.
const SUBSCRIPTIONS: &str = "/subscriptions/";

/// The canonical path of a resource: lower case, decoded, without scheme, host and the names of the queues and nodes
/// inside an entity. Empty for the whole namespace. Two addresses name the same resource if and only if their paths are
/// equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Resource(Box<str>);

impl Resource {
    /// The whole namespace.
    #[must_use]
    pub fn namespace() -> Self {
        Self::default()
    }

    /// The queue or topic of this name, which is not decoded.
    #[must_use]
    pub fn entity(name: &str) -> Self {
        Self(name_key(name))
    }

    /// A subscription, by the names of its topic and itself.
    #[must_use]
    pub fn subscription(topic: &str, name: &str) -> Self {
        Self(name_key(&format!("{topic}{SUBSCRIPTIONS}{name}")))
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

    /// The resource of the node at an address; `None` for an invalid address, or for a node that needs no right: see
    /// [`ResolvedNode`].
    #[must_use]
    pub fn of(address: &str) -> Option<Self> {
        ResolvedNode::of(address).ok()?.resource()
    }

    /// The resource of a shared access signature, from the still encoded field `sr`.
    #[must_use]
    pub(crate) fn of_signed(encoded: &str) -> Option<Self> {
        Self::of(&signed_address(encoded)?)
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this resource or a part of it: every entity is a part of the namespace, a subscription of its
    /// topic. An entity `queue/new` is not a part of the entity `queue`.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.0.is_empty() || self == other || other.topic() == Some(&self.0)
    }

    /// Whether the path of `other` starts with the parts of this one, which is the meaning of a URL in a shared access
    /// signature.
    pub(crate) fn is_prefix_of(&self, other: &Self) -> bool {
        let Some(rest) = other.0.strip_prefix(&*self.0) else { return false };
        self.0.is_empty() || rest.is_empty() || rest.starts_with('/')
    }

    /// The queue or topic with the rules: the topic for a subscription, otherwise the entity itself. `None` for the
    /// namespace.
    pub(crate) fn entity_name(&self) -> Option<&str> {
        let name = self.topic().unwrap_or(&self.0);
        (!name.is_empty() && name.len() <= NAME_BYTES_MAX).then_some(name)
    }

    /// The topic of a subscription.
    fn topic(&self) -> Option<&str> {
        let (topic, subscription) = self.0.rsplit_once(SUBSCRIPTIONS)?;
        (!topic.is_empty() && !subscription.contains('/')).then_some(topic)
    }

    /// The path and its prefixes by whole parts, without the namespace.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        let whole = Some(&*self.0).filter(|path| !path.is_empty());
        std::iter::successors(whole, |path| path.rsplit_once('/').map(|(parent, _)| parent))
    }
}

/// The address in the field `sr` of a shared access signature. Without a scheme, a first part that looks like a host is
/// one: JavaScript signs `localhost:5300`. Entities can't have such names.
fn signed_address(encoded: &str) -> Option<String> {
    if encoded.len() > 3 * ADDRESS_BYTES_MAX {
        return None;
    }
    let spaced = encoded.replace('+', " ");
    let address = percent_decode_str(&spaced).decode_utf8().ok()?;
    if address.contains("://") || address.starts_with('/') {
        return Some(address.into_owned());
    }
    let (first, rest) = address.split_once('/').unwrap_or((&address, ""));
    let first = first.split(['?', '#']).next().unwrap_or(first);
    Some(if peeklock_engine::reads_like_a_host(first) { rest.to_owned() } else { address.into_owned() })
}

/// Whether the field `sr` of a shared access signature has the path of this URL, or the first parts of it.
pub(crate) fn is_signed(encoded: &str, url: &str) -> bool {
    let path = |address: &str| Some(Resource(name_key(&decoded_path(address).ok()?)));
    let signed = signed_address(encoded).and_then(|address| path(&address));
    signed.zip(path(url)).is_some_and(|(signed, url)| signed.is_prefix_of(&url))
}

#[cfg(test)]
mod tests;
