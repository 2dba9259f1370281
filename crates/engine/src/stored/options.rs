//! The options of queues, topics and subscriptions, as parts of their records.
//!
//! **A new option is one line here**: the next free tag, its type, and its path, if it is not a field of the options
//! themselves. Every field is optional: a missing one leaves the option's default, or `None`.

use super::frame::{numbered, required};
use crate::{
    AuthorizationRule, ClientAffinity, EntityStatus, ForwardingTarget, QueueOptions, Rights, Secret,
    SubscriptionOptions, Timestamp, TopicOptions,
};

/// Declares the stored form of options, and the conversions. `=>` gives the path of a value that is not in a field of the same
/// name.
macro_rules! stored_options {
    ($(#[$doc:meta])* $stored:ident of $options:ty {
        $(#[$tag:meta] $field:ident: $kind:ty $(=> $($part:ident).+)?,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct $stored {
            $(#[$tag] $field: $kind,)+
        }

        impl From<&$options> for $stored {
            fn from(options: &$options) -> Self {
                Self { $($field: StoredField::of(&value_of!(options, $field $(=> $($part).+)?)),)+ }
            }
        }

        impl TryFrom<$stored> for $options {
            type Error = String;

            fn try_from(stored: $stored) -> Result<Self, String> {
                let mut options = Self::default();
                $(stored.$field.read_into(&mut value_of!(options, $field $(=> $($part).+)?))
                    .map_err(|reason| format!(concat!(stringify!($field), ": {}"), reason))?;)+
                Ok(options)
            }
        }
    };
}

/// The path of a value in the options.
macro_rules! value_of {
    ($options:ident, $field:ident) => { $options.$field };
    ($options:ident, $field:ident => $($part:ident).+) => { $options.$($part).+ };
}

stored_options! {
    /// The options of a queue.
    StoredQueue of QueueOptions {
        #[prost(uint64, optional, tag = "1")] lock_duration_ms: Option<u64>,
        #[prost(uint32, optional, tag = "2")] max_delivery_count: Option<u32>,
        #[prost(uint64, optional, tag = "3")] default_message_time_to_live_ms: Option<u64>,
        #[prost(bool, optional, tag = "4")] dead_lettering_on_message_expiration: Option<bool>,
        #[prost(bool, optional, tag = "5")] requires_session: Option<bool>,
        #[prost(uint64, optional, tag = "6")] auto_delete_on_idle_ms: Option<u64>,
        #[prost(uint64, optional, tag = "7")] max_message_size_bytes: Option<u64>,
        #[prost(uint64, optional, tag = "8")] max_size_bytes: Option<u64>,
        #[prost(bool, optional, tag = "9")] requires_duplicate_detection: Option<bool>,
        #[prost(uint64, optional, tag = "10")] duplicate_detection_history_time_window_ms: Option<u64>,
        #[prost(uint32, optional, tag = "11")] status: Option<u32>,
        #[prost(string, optional, tag = "12")] forward_to: Option<String> => forwarding.forward_to,
        #[prost(string, optional, tag = "13")] forward_dead_lettered_messages_to: Option<String>
            => forwarding.forward_dead_lettered_messages_to,
        #[prost(message, repeated, tag = "14")] authorization_rules: Vec<StoredAuthorizationRule>,
        #[prost(string, optional, tag = "15")] user_metadata: Option<String> => kept.user_metadata,
        #[prost(bool, optional, tag = "16")] enable_batched_operations: Option<bool>
            => kept.enable_batched_operations,
        #[prost(bool, optional, tag = "17")] enable_partitioning: Option<bool> => kept.enable_partitioning,
        #[prost(bool, optional, tag = "18")] enable_express: Option<bool> => kept.enable_express,
        #[prost(bool, optional, tag = "19")] support_ordering: Option<bool> => kept.support_ordering,
        #[prost(bool, optional, tag = "20")] filtering_messages_before_publishing: Option<bool>
            => kept.filtering_messages_before_publishing,
        #[prost(bool, optional, tag = "21")] enable_subscription_partitioning: Option<bool>
            => kept.enable_subscription_partitioning,
        #[prost(bool, tag = "40")] is_temporary: bool,
    }
}

stored_options! {
    /// The options of a topic.
    StoredTopic of TopicOptions {
        #[prost(uint64, optional, tag = "1")] default_message_time_to_live_ms: Option<u64>,
        #[prost(uint64, optional, tag = "2")] auto_delete_on_idle_ms: Option<u64>,
        #[prost(uint64, optional, tag = "3")] max_message_size_bytes: Option<u64>,
        #[prost(uint64, optional, tag = "4")] max_size_bytes: Option<u64>,
        #[prost(bool, optional, tag = "5")] requires_duplicate_detection: Option<bool>,
        #[prost(uint64, optional, tag = "6")] duplicate_detection_history_time_window_ms: Option<u64>,
        #[prost(uint32, optional, tag = "7")] status: Option<u32>,
        #[prost(message, repeated, tag = "8")] authorization_rules: Vec<StoredAuthorizationRule>,
        #[prost(string, optional, tag = "9")] user_metadata: Option<String> => kept.user_metadata,
        #[prost(bool, optional, tag = "10")] enable_batched_operations: Option<bool>
            => kept.enable_batched_operations,
        #[prost(bool, optional, tag = "11")] enable_partitioning: Option<bool> => kept.enable_partitioning,
        #[prost(bool, optional, tag = "12")] enable_express: Option<bool> => kept.enable_express,
        #[prost(bool, optional, tag = "13")] support_ordering: Option<bool> => kept.support_ordering,
        #[prost(bool, optional, tag = "14")] filtering_messages_before_publishing: Option<bool>
            => kept.filtering_messages_before_publishing,
        #[prost(bool, optional, tag = "15")] enable_subscription_partitioning: Option<bool>
            => kept.enable_subscription_partitioning,
        #[prost(bool, tag = "40")] is_temporary: bool,
    }
}

stored_options! {
    /// The options of a subscription.
    StoredSubscriptionOptions of SubscriptionOptions {
        #[prost(uint64, optional, tag = "1")] lock_duration_ms: Option<u64>,
        #[prost(uint32, optional, tag = "2")] max_delivery_count: Option<u32>,
        #[prost(uint64, optional, tag = "3")] default_message_time_to_live_ms: Option<u64>,
        #[prost(bool, optional, tag = "4")] dead_lettering_on_message_expiration: Option<bool>,
        #[prost(bool, optional, tag = "5")] dead_lettering_on_filter_evaluation_exceptions: Option<bool>,
        #[prost(bool, optional, tag = "6")] requires_session: Option<bool>,
        #[prost(uint64, optional, tag = "7")] auto_delete_on_idle_ms: Option<u64>,
        #[prost(uint32, optional, tag = "8")] status: Option<u32>,
        #[prost(string, optional, tag = "9")] forward_to: Option<String> => forwarding.forward_to,
        #[prost(string, optional, tag = "10")] forward_dead_lettered_messages_to: Option<String>
            => forwarding.forward_dead_lettered_messages_to,
        #[prost(string, optional, tag = "11")] user_metadata: Option<String> => kept.user_metadata,
        #[prost(bool, optional, tag = "12")] enable_batched_operations: Option<bool>
            => kept.enable_batched_operations,
        #[prost(bool, optional, tag = "13")] enable_partitioning: Option<bool> => kept.enable_partitioning,
        #[prost(bool, optional, tag = "14")] enable_express: Option<bool> => kept.enable_express,
        #[prost(bool, optional, tag = "15")] support_ordering: Option<bool> => kept.support_ordering,
        #[prost(bool, optional, tag = "16")] filtering_messages_before_publishing: Option<bool>
            => kept.filtering_messages_before_publishing,
        #[prost(bool, optional, tag = "17")] enable_subscription_partitioning: Option<bool>
            => kept.enable_subscription_partitioning,
        #[prost(message, optional, tag = "40")] client: Option<StoredClientAffinity>,
    }
}

/// Converts an option's value to a stored field and back.
trait StoredField<T> {
    /// The field for a value.
    fn of(value: &T) -> Self;

    /// Sets the value from the field; a missing field leaves it unchanged.
    fn read_into(self, value: &mut T) -> Result<(), String>;
}

impl<T: Copy> StoredField<T> for Option<T> {
    fn of(value: &T) -> Self {
        Some(*value)
    }

    fn read_into(self, value: &mut T) -> Result<(), String> {
        *value = self.unwrap_or(*value);
        Ok(())
    }
}

/// Options without a limit: a missing field means `None`.
impl<T: Copy> StoredField<Self> for Option<T> {
    fn of(value: &Self) -> Self {
        *value
    }

    fn read_into(self, value: &mut Self) -> Result<(), String> {
        *value = self;
        Ok(())
    }
}

impl StoredField<Option<Box<str>>> for Option<String> {
    fn of(value: &Option<Box<str>>) -> Self {
        value.as_deref().map(str::to_owned)
    }

    fn read_into(self, value: &mut Option<Box<str>>) -> Result<(), String> {
        *value = self.map(Into::into);
        Ok(())
    }
}

impl StoredField<Option<ForwardingTarget>> for Option<String> {
    fn of(value: &Option<ForwardingTarget>) -> Self {
        value.as_ref().map(ForwardingTarget::stored)
    }

    fn read_into(self, value: &mut Option<ForwardingTarget>) -> Result<(), String> {
        *value = self.as_deref().map(ForwardingTarget::of_stored);
        Ok(())
    }
}

numbered!(EntityStatus, status_number, status_from_number, "status":
    0 Active, 1 Disabled, 2 SendDisabled, 3 ReceiveDisabled);

impl StoredField<EntityStatus> for Option<u32> {
    fn of(value: &EntityStatus) -> Self {
        Some(status_number(*value))
    }

    fn read_into(self, value: &mut EntityStatus) -> Result<(), String> {
        if let Some(number) = self {
            *value = status_from_number(number)?;
        }
        Ok(())
    }
}

impl StoredField<Vec<AuthorizationRule>> for Vec<StoredAuthorizationRule> {
    fn of(value: &Vec<AuthorizationRule>) -> Self {
        value.iter().map(Into::into).collect()
    }

    fn read_into(self, value: &mut Vec<AuthorizationRule>) -> Result<(), String> {
        *value = self.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        Ok(())
    }
}

/// A missing field means false.
impl StoredField<Self> for bool {
    fn of(value: &Self) -> Self {
        *value
    }

    fn read_into(self, value: &mut Self) -> Result<(), String> {
        *value = self;
        Ok(())
    }
}

/// The client of a subscription.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredClientAffinity {
    #[prost(string, tag = "1")]
    client_id: String,
    #[prost(bool, tag = "2")]
    is_durable: bool,
    #[prost(bool, tag = "3")]
    is_shared: bool,
    #[prost(string, optional, tag = "4")]
    selector: Option<String>,
}

impl StoredField<Option<Box<ClientAffinity>>> for Option<StoredClientAffinity> {
    fn of(value: &Option<Box<ClientAffinity>>) -> Self {
        value.as_deref().map(|client| StoredClientAffinity {
            client_id: client.client_id.to_string(),
            is_durable: client.is_durable,
            is_shared: client.is_shared,
            selector: client.selector.as_deref().map(str::to_owned),
        })
    }

    fn read_into(self, value: &mut Option<Box<ClientAffinity>>) -> Result<(), String> {
        *value = self.map(|StoredClientAffinity { client_id, is_durable, is_shared, selector }| {
            let (client_id, selector) = (client_id.into(), selector.map(Into::into));
            Box::new(ClientAffinity { client_id, is_durable, is_shared, selector })
        });
        Ok(())
    }
}

/// A shared access rule.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct StoredAuthorizationRule {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(bool, tag = "2")]
    listen: bool,
    #[prost(bool, tag = "3")]
    send: bool,
    #[prost(bool, tag = "4")]
    manage: bool,
    #[prost(string, optional, tag = "5")]
    primary_key: Option<String>,
    #[prost(string, optional, tag = "6")]
    secondary_key: Option<String>,
    #[prost(uint64, tag = "7")]
    created_at_ms: u64,
    #[prost(uint64, tag = "8")]
    modified_at_ms: u64,
}

/// Without the keys, which never appear in logs.
impl std::fmt::Debug for StoredAuthorizationRule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoredAuthorizationRule").field("name", &self.name).finish_non_exhaustive()
    }
}

impl From<&AuthorizationRule> for StoredAuthorizationRule {
    fn from(rule: &AuthorizationRule) -> Self {
        let Rights { listen, send, manage } = rule.rights;
        Self {
            name: Some(rule.name.to_string()),
            listen,
            send,
            manage,
            primary_key: Some(rule.primary_key.expose().to_owned()),
            secondary_key: Some(rule.secondary_key.expose().to_owned()),
            created_at_ms: rule.created_at.0,
            modified_at_ms: rule.modified_at.0,
        }
    }
}

impl TryFrom<StoredAuthorizationRule> for AuthorizationRule {
    type Error = String;

    fn try_from(stored: StoredAuthorizationRule) -> Result<Self, String> {
        let StoredAuthorizationRule { listen, send, manage, .. } = stored;
        Ok(Self {
            name: required(stored.name, "name")?.into(),
            rights: Rights { listen, send, manage },
            primary_key: Secret::new(required(stored.primary_key, "primary key")?),
            secondary_key: Secret::new(required(stored.secondary_key, "secondary key")?),
            created_at: Timestamp(stored.created_at_ms),
            modified_at: Timestamp(stored.modified_at_ms),
        })
    }
}
