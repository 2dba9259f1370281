//! The properties of a message that only selectors evaluate, in addition to those for SQL rules.

use peeklock_rules::SelectableFields;

/// See the module.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct StoredSelectable {
    #[prost(bool, tag = "1")]
    is_durable: bool,
    #[prost(uint32, optional, tag = "2")]
    priority: Option<u32>,
    #[prost(sint64, optional, tag = "3")]
    creation_time_ms: Option<i64>,
    #[prost(uint32, optional, tag = "4")]
    group_sequence: Option<u32>,
    #[prost(string, optional, tag = "5")]
    user_id: Option<String>,
}

impl StoredSelectable {
    /// `None` for a message without these fields.
    pub(super) fn of(fields: &SelectableFields) -> Option<Self> {
        (*fields != SelectableFields::default()).then(|| Self {
            is_durable: fields.is_durable,
            priority: fields.priority.map(Into::into),
            creation_time_ms: fields.creation_time_ms,
            group_sequence: fields.group_sequence,
            user_id: fields.user_id.as_deref().map(str::to_owned),
        })
    }
}

impl From<StoredSelectable> for SelectableFields {
    fn from(stored: StoredSelectable) -> Self {
        Self {
            is_durable: stored.is_durable,
            priority: stored.priority.and_then(|priority| u8::try_from(priority).ok()),
            creation_time_ms: stored.creation_time_ms,
            group_sequence: stored.group_sequence,
            user_id: stored.user_id.map(Into::into),
        }
    }
}
