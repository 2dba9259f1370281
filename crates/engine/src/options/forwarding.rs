//! Forwarding options.

/// The targets of a queue or subscription: queues or topics of the same namespace, by name (semantics §14.1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forwarding {
    /// The target of every message.
    pub forward_to: Option<Box<str>>,
    /// The target of every dead-lettered message.
    pub forward_dead_lettered_messages_to: Option<Box<str>>,
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
