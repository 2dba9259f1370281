//! Where messages go on to.

use serde::{Deserialize, Serialize};

/// The targets of a queue or subscription: queues or topics of the same namespace, by name (semantics §14.1).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Forwarding {
    /// Gets every message.
    pub forward_to: Option<Box<str>>,
    /// Gets every message that is dead-lettered.
    pub forward_dead_lettered_messages_to: Option<Box<str>>,
}
