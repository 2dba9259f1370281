//! Parses the path of a request.

use std::borrow::Cow;
use std::fmt::Write;

use peeklock_access::{AddressError, EntityNode, ResolvedNode, Resource};
use peeklock_engine::runtime::EntityKind;
use peeklock_engine::{ForwardingTarget, TargetScheme};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters that are escaped in URLs in answers; JS uses names from them unchanged.
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

/// The target of a request; names as written. [`ResolvedNode`] resolves the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// The namespace itself.
    Root,
    /// An invalid path, and the reason.
    Nothing(String, AddressError),
    /// A sub-queue of a queue, topic or subscription, or its management node, which have no description.
    Inside(EntityNode),
    /// `$namespaceinfo`
    NamespaceInfo,
    /// All queues, or all topics.
    Entities(EntityKind),
    /// A queue or topic: the path does not tell which.
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

/// How a path spells the fixed segments in it, which ignore case. URLs in answers repeat the spelling of the request, as
/// in Service Bus: .NET and JS search for `Subscriptions`, older clients for `subscriptions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spelling {
    subscriptions: String,
    rules: String,
}

impl Default for Spelling {
    fn default() -> Self {
        Self { subscriptions: "Subscriptions".to_owned(), rules: "Rules".to_owned() }
    }
}

impl Spelling {
    /// The spelling of a path; segments that it lacks or escapes have the default.
    pub(crate) fn of(path: &str) -> Self {
        let Self { subscriptions, rules } = Self::default();
        let mut segments = path.split('/').filter(|segment| !segment.is_empty());
        let spelled = |found: Option<&str>, default: String| match found {
            Some(found) if found.eq_ignore_ascii_case(&default) => found.to_owned(),
            _ => default,
        };
        let found = segments.find(|segment| segment.eq_ignore_ascii_case(&subscriptions));
        Self { subscriptions: spelled(found, subscriptions), rules: spelled(segments.nth(1), rules) }
    }
}

impl Target {
    /// Reads the path of a URL; returns the target and the resource for authorization.
    ///
    /// # Errors
    /// An invalid encoding, or a path that is too long.
    pub(crate) fn parse(path: &str) -> Result<(Self, Resource), AddressError> {
        let node = match ResolvedNode::of(path) {
            Err(error @ (AddressError::Name { .. } | AddressError::Empty)) => {
                return Ok((Self::nothing(path, error), Resource::namespace()));
            }
            node => node?,
        };
        let resource = node.resource().unwrap_or_default();
        let target = match node {
            ResolvedNode::Namespace => Self::Root,
            ResolvedNode::NamespaceInfo => Self::NamespaceInfo,
            ResolvedNode::Queues => Self::Entities(EntityKind::Queue),
            ResolvedNode::Topics => Self::Entities(EntityKind::Topic),
            ResolvedNode::Cbs => Self::nothing(path, AddressError::Empty),
            ResolvedNode::Entity(entity) if !entity.is_whole() => Self::Inside(entity),
            ResolvedNode::Entity(EntityNode { name, subscription: None, .. }) => Self::Entity(name),
            ResolvedNode::Entity(EntityNode { name: topic, subscription: Some(name), .. }) => {
                Self::Subscription(topic, name)
            }
            ResolvedNode::Subscriptions { topic } => Self::Subscriptions(topic),
            ResolvedNode::Rules { topic, subscription } => Self::Rules(topic, subscription),
            ResolvedNode::Rule { topic, subscription, rule } => Self::Rule(topic, subscription, rule),
        };
        Ok((target, resource))
    }

    fn nothing(path: &str, error: AddressError) -> Self {
        let path = percent_decode_str(path.trim_matches('/')).decode_utf8_lossy();
        Self::Nothing(path.into_owned(), error)
    }

    /// The queue or topic that the target is or lies in, whether it exists or not.
    pub(crate) fn entity(&self) -> Option<&str> {
        match self {
            Self::Root | Self::NamespaceInfo | Self::Entities(_) => None,
            Self::Nothing(name, _)
            | Self::Inside(EntityNode { name, .. })
            | Self::Entity(name)
            | Self::Subscriptions(name)
            | Self::Subscription(name, _)
            | Self::Rules(name, _)
            | Self::Rule(name, ..) => Some(name),
        }
    }

    /// The path in URLs of answers.
    pub(crate) fn url_path(&self, spelling: &Spelling) -> String {
        let mut path = String::new();
        for part in self.parts(spelling) {
            let _ = write!(path, "/{}", utf8_percent_encode(&part, ESCAPED));
        }
        path
    }

    fn parts<'a>(&'a self, spelling: &'a Spelling) -> Vec<Cow<'a, str>> {
        let Spelling { subscriptions, rules } = spelling;
        let parts: Vec<&str> = match self {
            Self::Inside(node) => return vec![Cow::Owned(node.to_string())],
            Self::Root => Vec::new(),
            Self::Nothing(path, _) => vec![path],
            Self::NamespaceInfo => vec!["$namespaceinfo"],
            Self::Entities(EntityKind::Queue) => vec!["$Resources", "queues"],
            Self::Entities(EntityKind::Topic) => vec!["$Resources", "topics"],
            Self::Entity(name) => vec![name],
            Self::Subscriptions(topic) => vec![topic, subscriptions],
            Self::Subscription(topic, name) => vec![topic, subscriptions, name],
            Self::Rules(topic, subscription) => vec![topic, subscriptions, subscription, rules],
            Self::Rule(topic, subscription, name) => vec![topic, subscriptions, subscription, rules, name],
        };
        parts.into_iter().map(Cow::Borrowed).collect()
    }

    /// Its name in human-readable messages.
    pub(crate) fn display(&self) -> String {
        self.parts(&Spelling::default()).join("/")
    }
}

/// The target of forwarding as a URL with the scheme that it was given with.
pub(crate) fn forward_url(host: &str, target: &ForwardingTarget) -> String {
    format!("{}://{host}/{}", target.scheme().name(), utf8_percent_encode(target, ESCAPED))
}

/// Reads a target of forwarding: a name or a URL; `None` for an empty one.
pub(crate) fn forwarding_target(text: &str) -> Option<ForwardingTarget> {
    let name = peeklock_access::forwarding_target(text)?;
    // Java 7.17.20 prepends a URL to the one that it was given: the last one counts.
    let before = text.rsplit_once("://").map(|(before, _)| before);
    let scheme = before.and_then(|before| TargetScheme::of(before.rsplit('/').next()?.trim_start()));
    Some(ForwardingTarget::new(name, scheme.unwrap_or_default()))
}
