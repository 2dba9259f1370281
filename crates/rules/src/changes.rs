//! What actions change: laid over a message, whose content stays as it was sent and shared by all its copies.

use serde::{Deserialize, Serialize};

use crate::{FactValue, Facts};

/// A system property that is a text and that actions may set. New ones go to the end: the position is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TextProperty {
    /// `content-type`.
    ContentType,
    /// `correlation-id`.
    CorrelationId,
    /// `subject`, once called label.
    Label,
    /// `message-id`.
    MessageId,
    /// `x-opt-partition-key`.
    PartitionKey,
    /// `reply-to`.
    ReplyTo,
    /// `reply-to-group-id`.
    ReplyToSessionId,
    /// `group-id`.
    SessionId,
    /// `to`.
    To,
}

/// What became of a message's properties; what is not named here is as it was sent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Changes {
    /// System properties that are texts, each at most once: set, or removed.
    pub texts: Vec<(TextProperty, Option<Box<str>>)>,
    /// The scheduled enqueue time in milliseconds since 1970: set, or removed.
    pub scheduled_enqueue_time_ms: Option<Option<u64>>,
    /// The time-to-live in milliseconds: set, or removed (no limit).
    pub time_to_live_ms: Option<Option<u64>>,
    /// Application properties, each at most once and by its name in the message if it has one: set, or removed.
    pub user: Vec<(Box<str>, Option<FactValue>)>,
}

impl Changes {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What became of a system property that is a text: `None` if nothing.
    #[must_use]
    pub fn text(&self, property: TextProperty) -> Option<Option<&str>> {
        let changed = self.texts.iter().find(|(known, _)| *known == property);
        changed.map(|(_, value)| value.as_deref())
    }

    /// Notes that a system property is set or removed.
    pub fn set_text(&mut self, property: TextProperty, value: Option<Box<str>>) {
        match self.texts.iter_mut().find(|(known, _)| *known == property) {
            Some((_, before)) => *before = value,
            None => self.texts.push((property, value)),
        }
    }

    /// Notes that an application property is set or removed, by the name it has in the message.
    pub fn set_user(&mut self, name: &str, value: Option<FactValue>) {
        match self.user.iter_mut().find(|(known, _)| &**known == name) {
            Some((_, before)) => *before = value,
            None => self.user.push((name.into(), value)),
        }
    }

    /// These changes and then others.
    #[must_use]
    pub fn followed_by(mut self, later: Self) -> Self {
        for (property, value) in later.texts {
            self.set_text(property, value);
        }
        for (name, value) in later.user {
            self.set_user(&name, value);
        }
        self.scheduled_enqueue_time_ms = later.scheduled_enqueue_time_ms.or(self.scheduled_enqueue_time_ms);
        self.time_to_live_ms = later.time_to_live_ms.or(self.time_to_live_ms);
        self
    }

    /// Changes what rules see of a message.
    pub fn apply(&self, facts: &mut Facts) {
        for (property, value) in &self.texts {
            *facts.text_mut(*property) = value.clone();
        }
        for (name, value) in &self.user {
            facts.user.retain(|(known, _)| known != name);
            if let Some(value) = value {
                facts.user.push((name.clone(), value.clone()));
            }
        }
    }
}
