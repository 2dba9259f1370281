//! The order of the elements of each description, as in the service. `DefaultRuleDescription` is read when a
//! subscription is created and never written.

/// Elements of a `QueueDescription`.
pub(super) const QUEUE: &[&str] = &[
    "LockDuration",
    "MaxSizeInMegabytes",
    "RequiresDuplicateDetection",
    "RequiresSession",
    "DefaultMessageTimeToLive",
    "DeadLetteringOnMessageExpiration",
    "DuplicateDetectionHistoryTimeWindow",
    "MaxDeliveryCount",
    "EnableBatchedOperations",
    "SizeInBytes",
    "MessageCount",
    "IsAnonymousAccessible",
    "AuthorizationRules",
    "Status",
    "ForwardTo",
    "UserMetadata",
    "CreatedAt",
    "UpdatedAt",
    "AccessedAt",
    "SupportOrdering",
    "CountDetails",
    "AutoDeleteOnIdle",
    "EnablePartitioning",
    "ForwardDeadLetteredMessagesTo",
    "EntityAvailabilityStatus",
    "EnableExpress",
    "MaxMessageSizeInKilobytes",
];

/// Elements of a `TopicDescription`.
pub(super) const TOPIC: &[&str] = &[
    "DefaultMessageTimeToLive",
    "MaxSizeInMegabytes",
    "RequiresDuplicateDetection",
    "DuplicateDetectionHistoryTimeWindow",
    "EnableBatchedOperations",
    "SizeInBytes",
    "FilteringMessagesBeforePublishing",
    "IsAnonymousAccessible",
    "AuthorizationRules",
    "Status",
    "UserMetadata",
    "CreatedAt",
    "UpdatedAt",
    "AccessedAt",
    "SupportOrdering",
    "CountDetails",
    "SubscriptionCount",
    "SqlFilterCount",
    "CorrelationFilterCount",
    "AutoDeleteOnIdle",
    "EnablePartitioning",
    "EntityAvailabilityStatus",
    "EnableSubscriptionPartitioning",
    "EnableExpress",
    "MaxMessageSizeInKilobytes",
];

/// Elements of a `SubscriptionDescription`.
pub(super) const SUBSCRIPTION: &[&str] = &[
    "LockDuration",
    "RequiresSession",
    "DefaultMessageTimeToLive",
    "DeadLetteringOnMessageExpiration",
    "DeadLetteringOnFilterEvaluationExceptions",
    "MessageCount",
    "MaxDeliveryCount",
    "EnableBatchedOperations",
    "Status",
    "ForwardTo",
    "CreatedAt",
    "UpdatedAt",
    "AccessedAt",
    "CountDetails",
    "UserMetadata",
    "ForwardDeadLetteredMessagesTo",
    "AutoDeleteOnIdle",
    "EntityAvailabilityStatus",
];

#[cfg(test)]
mod tests {
    use peeklock_engine::schema::{EntityOption, OptionSet};
    use peeklock_engine::{QueueOptions, SubscriptionOptions, TopicOptions};

    use super::*;
    use crate::atom::details;

    #[test]
    fn every_name_is_that_of_an_option_or_of_a_detail() {
        fn check<O: OptionSet>(order: &[&str]) {
            for name in order {
                let is_option = EntityOption::of_service(name).is_some_and(EntityOption::is_of::<O>);
                assert!(is_option != details::is_known(name), "{name} of a {}", O::NOUN);
            }
        }
        check::<QueueOptions>(QUEUE);
        check::<TopicOptions>(TOPIC);
        check::<SubscriptionOptions>(SUBSCRIPTION);
    }
}
