//! Forwarding options.

use std::ops::Deref;

/// A target of forwarding: the name of a queue or topic, as which it is used, and the scheme of the URL that named it.
/// Service Bus returns the scheme that it was given (live tests of Go `TestAdminClient_Queue_Forwarding`, of Java
/// `createQueueWithForwarding`; `http` in azure-sdk-for-net's recording ForwardingEntity).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardingTarget {
    name: Box<str>,
    scheme: TargetScheme,
}

/// How URLs of targets begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetScheme {
    /// `sb://`; also for a target given by its name alone.
    #[default]
    Sb,
    /// `https://`
    Https,
    /// `http://`
    Http,
}

impl TargetScheme {
    /// Every scheme.
    const ALL: [Self; 3] = [Self::Sb, Self::Https, Self::Http];

    /// The scheme as it is written; `None` for one that targets don't have.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name().eq_ignore_ascii_case(name))
    }

    /// The scheme as it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sb => "sb",
            Self::Https => "https",
            Self::Http => "http",
        }
    }
}

impl ForwardingTarget {
    /// A target named by a URL with this scheme.
    pub fn new(name: impl Into<Box<str>>, scheme: TargetScheme) -> Self {
        Self { name: name.into(), scheme }
    }

    /// The scheme of the URL that named it.
    #[must_use]
    pub const fn scheme(&self) -> TargetScheme {
        self.scheme
    }

    /// Reads the result of [`Self::stored`].
    pub(crate) fn of_stored(text: &str) -> Self {
        let parts = text.split_once("://");
        let parts = parts.and_then(|(scheme, name)| Some((name, TargetScheme::of(scheme)?)));
        parts.map_or_else(|| text.into(), |(name, scheme)| Self::new(name, scheme))
    }

    /// Its form in the store: the name, behind the scheme if that is not `sb` or if the name could be taken for a URL.
    pub(crate) fn stored(&self) -> String {
        match self.scheme {
            TargetScheme::Sb if !self.name.contains("://") => self.name.to_string(),
            scheme => format!("{}://{}", scheme.name(), self.name),
        }
    }
}

impl Deref for ForwardingTarget {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl From<&str> for ForwardingTarget {
    fn from(name: &str) -> Self {
        Self::new(name, TargetScheme::default())
    }
}

impl From<String> for ForwardingTarget {
    fn from(name: String) -> Self {
        Self::new(name, TargetScheme::default())
    }
}

/// The targets of a queue or subscription: queues or topics of the same namespace, by name (semantics §14.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarding {
    /// The target of every message.
    pub forward_to: Option<ForwardingTarget>,
    /// The target of every dead-lettered message.
    pub forward_dead_lettered_messages_to: Option<ForwardingTarget>,
}

impl Forwarding {
    /// Normalizes the options of a new entity. One that forwards messages or dead letters is created without AutoDeleteOnIdle
    /// (azure-sdk-for-js 14539, azure-sdk-for-net 18517), one that forwards messages also without a default time to live
    /// (azure-cli 8424). An update may set both; [`Self::idle_in_effect_ms`] and [`Self::life_in_effect_ms`] then determine
    /// their effect.
    pub(crate) const fn complete_new(
        &self,
        auto_delete_on_idle_ms: &mut Option<u64>,
        default_message_time_to_live_ms: &mut Option<u64>,
    ) {
        if self.forward_to.is_some() || self.forward_dead_lettered_messages_to.is_some() {
            *auto_delete_on_idle_ms = None;
        }
        if self.forward_to.is_some() {
            *default_message_time_to_live_ms = None;
        }
    }

    /// The effective AutoDeleteOnIdle time: an entity that forwards its messages is never idle (S-33).
    pub(crate) fn idle_in_effect_ms(&self, auto_delete_on_idle_ms: Option<u64>) -> Option<u64> {
        auto_delete_on_idle_ms.filter(|_| self.forward_to.is_none())
    }

    /// The effective default and maximum time to live: none if messages are forwarded.
    pub(crate) fn life_in_effect_ms(&self, default_message_time_to_live_ms: Option<u64>) -> Option<u64> {
        default_message_time_to_live_ms.filter(|_| self.forward_to.is_none())
    }
}
