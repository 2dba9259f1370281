//! `TopicDescription`.

use peeklock_engine::TopicOptions;

use super::entity;
use super::properties::{self, Audience, EntityDetails, Property, Reading, Value};
use super::xml::{Document, Element};
use crate::error::Error;
use Value::{
    AuthorizationRules, Boolean, Constant, CountDetails, Detail, DetailSince, Duration, IdleTime, Kilobytes,
    Megabytes, Status, Text, TimeToLive, Unchanging,
};

/// The element.
pub(super) const NAME: &str = "TopicDescription";

/// The first version with counts of filters.
const FILTER_COUNTS_SINCE: &str = "2024-05";

/// Its properties, in the order of the service.
const PROPERTIES: &[Property<TopicOptions>] = &[
    Property::new("DefaultMessageTimeToLive", TimeToLive(|o| &mut o.default_message_time_to_live_ms)),
    Property::new("MaxSizeInMegabytes", Megabytes(|o| &mut o.max_size_bytes, properties::MAX_SIZE_MB)),
    Property::new("RequiresDuplicateDetection", Unchanging(|o| &mut o.requires_duplicate_detection)),
    Property::new(
        "DuplicateDetectionHistoryTimeWindow",
        Duration(|o| &mut o.duplicate_detection_history_time_window_ms, properties::HISTORY_WINDOW_MS),
    ),
    Property::new("EnableBatchedOperations", Boolean(|o| &mut o.kept.enable_batched_operations)),
    Property::new("SizeInBytes", Detail(EntityDetails::size_in_bytes)),
    Property::new(
        "FilteringMessagesBeforePublishing",
        Boolean(|o| &mut o.kept.filtering_messages_before_publishing),
    ),
    Property::new("IsAnonymousAccessible", Constant("false")),
    Property::new("AuthorizationRules", AuthorizationRules(|o| &mut o.authorization_rules)),
    Property::new("Status", Status(|o| &mut o.status)),
    Property::new("UserMetadata", Text(|o| &mut o.kept.user_metadata)),
    Property::new("CreatedAt", Detail(EntityDetails::created)),
    Property::new("UpdatedAt", Detail(EntityDetails::updated)),
    Property::new("AccessedAt", Detail(EntityDetails::accessed)),
    Property::new("SupportOrdering", Boolean(|o| &mut o.kept.support_ordering)),
    Property::new("CountDetails", CountDetails),
    Property::new("SubscriptionCount", Detail(EntityDetails::subscription_count)),
    Property::new("SqlFilterCount", DetailSince(FILTER_COUNTS_SINCE, EntityDetails::sql_filter_count)),
    Property::new(
        "CorrelationFilterCount",
        DetailSince(FILTER_COUNTS_SINCE, EntityDetails::correlation_filter_count),
    ),
    Property::new("AutoDeleteOnIdle", IdleTime(|o| &mut o.auto_delete_on_idle_ms)),
    Property::new("EnablePartitioning", Unchanging(|o| &mut o.kept.enable_partitioning)),
    Property::new("EntityAvailabilityStatus", Detail(EntityDetails::availability)),
    Property::new(
        "EnableSubscriptionPartitioning",
        Boolean(|o| &mut o.kept.enable_subscription_partitioning),
    ),
    Property::new("EnableExpress", Boolean(|o| &mut o.kept.enable_express)),
    Property::new(
        "MaxMessageSizeInKilobytes",
        Kilobytes(|o| &mut o.max_message_size_bytes, properties::MAX_MESSAGE_SIZE_KB),
    ),
];

/// The options that a description asks for.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(
    description: &Element,
    reading: &Reading<'_, TopicOptions>,
) -> Result<TopicOptions, Error> {
    let options = reading.options(PROPERTIES, description)?;
    let sizes = (options.max_message_size_bytes, options.max_size_bytes);
    let current = reading.current.map(|current| (current.max_message_size_bytes, current.max_size_bytes));
    entity::check_sizes(sizes, current, reading.limits)?;
    entity::check_express(options.kept.enable_express, options.requires_duplicate_detection)?;
    Ok(options)
}

/// Writes the description.
pub(super) fn write(
    document: &mut Document,
    (options, details): (&TopicOptions, &EntityDetails),
    audience: &Audience<'_>,
) {
    entity::description(document, NAME, |document| {
        properties::write(document, PROPERTIES, (options, details), audience);
    });
}
