//! The broker's core: entities, messages, locks and timers, without protocol, clock or files.
//!
//! [`partition`] is pure: state, command, now, random → events, effects. [`runtime`] runs partitions as actors
//! over a storage shard and a clock.

mod command;
mod durability;
mod effect;
mod event;
mod forward;
mod ids;
mod key_partition;
mod layout;
mod listing;
mod message;
mod message_key;
mod metrics;
mod names;
mod options;
pub mod partition;
mod refusal;
mod rule;
pub mod runtime;
mod session_id;
mod stored;

pub use command::{
    Assigned, Command, CreditLimit, DELETE_COUNT_MAX, Intent, MessageAction, RECEIVE_DEFERRED_BYTES_MAX,
    ReceiverOptions, SessionLock, SessionRequest, Settlement,
};
pub use durability::Durability;
pub use effect::{AcceptedSession, Effect, End, Reply, SettleFailure, ViewWithLock};
pub use event::{Change, Deletion, Event, Publication, Removal, Subscription, SubscriptionCopy};
pub use forward::{Departing, Forwarded, HOPS_MAX, Origin};
pub use ids::{
    LockToken, QueueId, QueuePath, ReceiveMode, ReceiverId, RequestId, SequenceNumber, SubQueue, Timestamp,
};
pub use key_partition::{KeyPartition, PartitionKey};
pub use listing::{Listed, ListedRow, Listing};
pub use message::{
    BodyRef, DeadLetter, Delivery, Lock, MessageState, MessageView, NewMessage, Properties, Property,
    Received,
};
pub use message_key::MessageKey;
pub use metrics::Totals;
pub use names::{
    check_addressed_subscription_name, check_authorization_rule_name, check_entity_name, check_rule_name,
    check_subscription_name, name_key, reads_like_a_host, same_name,
};
pub use options::{
    AuthorizationRule, CLIENT_ID_CHARS_MAX, ClientAffinity, EntityOptions, EntityStatus, EntityTimes,
    Forwarding, ForwardingTarget, Kept, QueueOptions, RULE_LIMITS, Right, Rights, RuleLimit, RuleLimits,
    Secret, SubscriptionOptions, TargetScheme, Tier, TopicOptions, schema,
};
pub use peeklock_rules::{
    Arrival, CorrelationFilter, Failure, Filter, Given, PropertyChanges, PropertyValue, RuleProperties,
    SelectableFields, Selector, SqlAction, SqlError, SqlFilter, Subject, TextProperty, decimal,
};
pub use refusal::Refusal;
pub use rule::{DEFAULT_RULE, Rule};
pub use session_id::{SessionId, session_key};
#[doc(hidden)]
pub use stored::exercise::stored_record as exercise;
