//! `QueueDescription`.

use peeklock_engine::QueueOptions;

use super::entity;
use super::properties::{self, Audience, EntityDetails, Property, Reading, Value};
use super::xml::{Document, Element};
use crate::error::Error;
use Value::{
    AuthorizationRules, Boolean, Constant, Count, CountDetails, Detail, Duration, IdleTime, Kilobytes,
    Megabytes, Status, Target, Text, TimeToLive, Unchanging,
};

/// The element.
pub(super) const NAME: &str = "QueueDescription";

/// Its properties, in the order of the service.
const PROPERTIES: &[Property<QueueOptions>] = &[
    Property::new("LockDuration", Duration(|o| &mut o.lock_duration_ms, properties::LOCK_DURATION_MS)),
    Property::new("MaxSizeInMegabytes", Megabytes(|o| &mut o.max_size_bytes, properties::MAX_SIZE_MB)),
    Property::new("RequiresDuplicateDetection", Unchanging(|o| &mut o.requires_duplicate_detection)),
    Property::new("RequiresSession", Unchanging(|o| &mut o.requires_session)),
    Property::new("DefaultMessageTimeToLive", TimeToLive(|o| &mut o.default_message_time_to_live_ms)),
    Property::new(
        "DeadLetteringOnMessageExpiration",
        Boolean(|o| &mut o.dead_lettering_on_message_expiration),
    ),
    Property::new(
        "DuplicateDetectionHistoryTimeWindow",
        Duration(|o| &mut o.duplicate_detection_history_time_window_ms, properties::HISTORY_WINDOW_MS),
    ),
    Property::new("MaxDeliveryCount", Count(|o| &mut o.max_delivery_count, properties::MAX_DELIVERY_COUNT)),
    Property::new("EnableBatchedOperations", Boolean(|o| &mut o.kept.enable_batched_operations)),
    Property::new("SizeInBytes", Detail(EntityDetails::size_in_bytes)),
    Property::new("MessageCount", Detail(EntityDetails::message_count)),
    Property::new("IsAnonymousAccessible", Constant("false")),
    Property::new("AuthorizationRules", AuthorizationRules(|o| &mut o.authorization_rules)),
    Property::new("Status", Status(|o| &mut o.status)),
    Property::new("ForwardTo", Target(|o| &mut o.forwarding.forward_to)),
    Property::new("UserMetadata", Text(|o| &mut o.kept.user_metadata)),
    Property::new("CreatedAt", Detail(EntityDetails::created)),
    Property::new("UpdatedAt", Detail(EntityDetails::updated)),
    Property::new("AccessedAt", Detail(EntityDetails::accessed)),
    Property::new("SupportOrdering", Boolean(|o| &mut o.kept.support_ordering)),
    Property::new("CountDetails", CountDetails),
    Property::new("AutoDeleteOnIdle", IdleTime(|o| &mut o.auto_delete_on_idle_ms)),
    Property::new("EnablePartitioning", Unchanging(|o| &mut o.kept.enable_partitioning)),
    Property::new(
        "ForwardDeadLetteredMessagesTo",
        Target(|o| &mut o.forwarding.forward_dead_lettered_messages_to),
    ),
    Property::new("EntityAvailabilityStatus", Detail(EntityDetails::availability)),
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
    reading: &Reading<'_, QueueOptions>,
) -> Result<QueueOptions, Error> {
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
    (options, details): (&QueueOptions, &EntityDetails),
    audience: &Audience<'_>,
) {
    entity::description(document, NAME, |document| {
        properties::write(document, PROPERTIES, (options, details), audience);
    });
}
