//! What queues, topics and subscriptions have in common: names, readers of the properties they share, and the ranges
//! of these.

use std::ops::{Range, RangeInclusive};

use peeklock_engine::{EntityStatus, Kept};

use super::duration::{self, Duration};
use super::file::FileConfig;
use super::limits::LimitsConfig;
use super::names::Place;
use super::size;
use super::table::Table;

const MILLISECONDS_PER_SECOND: u64 = 1_000;
/// Of a message lock and of a session's.
pub(super) const LOCK_DURATION_MS: RangeInclusive<u64> =
    5 * MILLISECONDS_PER_SECOND..=300 * MILLISECONDS_PER_SECOND;
/// Of any default time to live.
pub(super) const TIME_TO_LIVE_MS_MIN: u64 = MILLISECONDS_PER_SECOND;
/// Failed deliveries before a message is dead-lettered.
pub(super) const MAX_DELIVERY_COUNT: RangeInclusive<u64> = 1..=i32::MAX as u64;
const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;
/// Service Bus allows 1024 to 102400.
pub(super) const MAX_MESSAGE_SIZE_KB: RangeInclusive<u64> = 1..=102_400;
/// Service Bus allows 1024 to 81920; here up to 10 TiB, and little for those who test full queues.
pub(super) const MAX_SIZE_MB: RangeInclusive<u64> = 1..=10 * MEGABYTE;
/// How long ids may be remembered.
pub(super) const DUPLICATE_DETECTION_WINDOW_MS: RangeInclusive<u64> =
    20 * MILLISECONDS_PER_SECOND..=7 * 24 * 3_600 * MILLISECONDS_PER_SECOND;
const USER_METADATA_CHARS_MAX: usize = 1_024;

/// What the rest of the file says that entities must keep to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// `[limits]`
    pub(super) limits: LimitsConfig,
    /// What a connection may hold of partly received messages.
    pub(super) reassembly_bytes_max: u64,
}

impl Bounds {
    /// Those that a file sets.
    pub(super) fn of(file: &FileConfig) -> Self {
        Self { limits: file.limits, reassembly_bytes_max: file.amqp.reassembly_bytes_max }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::of(&FileConfig::default())
    }
}

/// The name of a table's entity and where it stands; `None` when it is missing or unusable, which is reported.
pub(super) fn read_name(
    table: &mut Table<'_, '_>,
    place: &Range<usize>,
    example: &str,
    check: fn(&str) -> Result<(), String>,
) -> Option<(String, Place)> {
    let Some((_, span)) = table.value("name") else {
        table.report(place, "name", &format!("missing; write name = {example} or the like"));
        return None;
    };
    let name = table.text("name", example, |name| check(name).map(|()| name.to_owned()))?;
    Some((name, span))
}

/// `lock_duration`
pub(super) fn lock_duration_ms(table: &mut Table<'_, '_>, default_ms: u64) -> u64 {
    table.duration_ms("lock_duration", default_ms, &LOCK_DURATION_MS)
}

/// `max_delivery_count`
pub(super) fn max_delivery_count(table: &mut Table<'_, '_>, default: u32) -> u32 {
    let count = table.integer("max_delivery_count", u64::from(default), &MAX_DELIVERY_COUNT);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// `default_message_time_to_live`; `None` for no limit, which is the default unless the limits say otherwise (S-15).
pub(super) fn default_message_time_to_live_ms(
    table: &mut Table<'_, '_>,
    limits: LimitsConfig,
) -> Option<u64> {
    let key = "default_message_time_to_live";
    let span = table.value(key).map(|(_, span)| span);
    let (asked_ms, max_ms) = (time_to_live_ms(table, key), limits.message_time_to_live_max_ms);
    if let (Some(max_ms), Some(span)) = (max_ms, span)
        && asked_ms.is_none_or(|asked_ms| asked_ms > max_ms)
    {
        let most = duration::iso(max_ms);
        let message = format!("longer than message_time_to_live_max in [limits]; write at most \"{most}\"");
        table.report(&span, key, &message);
    }
    asked_ms.or(max_ms)
}

/// A time-to-live; `None` for no limit.
pub(super) fn time_to_live_ms(table: &mut Table<'_, '_>, key: &'static str) -> Option<u64> {
    table
        .text(key, "\"P14D\"", |text| match duration::parse(text)? {
            Duration::Milliseconds(length_ms) if length_ms < TIME_TO_LIVE_MS_MIN => {
                Err(too_short(text, TIME_TO_LIVE_MS_MIN))
            }
            length => Ok(finite_ms(length)),
        })
        .flatten()
}

/// `auto_delete_on_idle`; `None` for never, which is the default (S-29).
pub(super) fn auto_delete_on_idle_ms(table: &mut Table<'_, '_>, limits: LimitsConfig) -> Option<u64> {
    let min_ms = limits.auto_delete_on_idle_min_ms;
    table
        .text("auto_delete_on_idle", "\"PT1H\"", |text| match duration::parse(text)? {
            Duration::Milliseconds(length_ms) if length_ms < min_ms => Err(format!(
                "{}; for tests, auto_delete_on_idle_min in [limits] lowers that",
                too_short(text, min_ms)
            )),
            length => Ok(finite_ms(length)),
        })
        .flatten()
}

/// `status`
pub(super) fn status(table: &mut Table<'_, '_>) -> EntityStatus {
    table.text("status", "\"Active\"", parse_status).unwrap_or_default()
}

/// A status by Service Bus's name.
///
/// # Errors
/// A message that ends a sentence about the value.
pub(super) fn parse_status(text: &str) -> Result<EntityStatus, String> {
    match text {
        "Active" => Ok(EntityStatus::Active),
        "Disabled" => Ok(EntityStatus::Disabled),
        "SendDisabled" => Ok(EntityStatus::SendDisabled),
        "ReceiveDisabled" => Ok(EntityStatus::ReceiveDisabled),
        _ => Err(format!(
            "\"{text}\" is no status; write \"Active\", \"Disabled\", \"SendDisabled\" or \"ReceiveDisabled\""
        )),
    }
}

/// `requires_duplicate_detection`, and `duplicate_detection_history_time_window` in milliseconds, which is kept also
/// where duplicates are not looked for.
pub(super) fn duplicate_detection(table: &mut Table<'_, '_>, window_default_ms: u64) -> (bool, u64) {
    let required = table.boolean("requires_duplicate_detection", false);
    let window_ms = table.duration_ms(
        "duplicate_detection_history_time_window",
        window_default_ms,
        &DUPLICATE_DETECTION_WINDOW_MS,
    );
    (required, window_ms)
}

/// What queues and topics keep for their clients.
pub(super) fn kept(table: &mut Table<'_, '_>, requires_duplicate_detection: bool) -> Kept {
    let kept = Kept {
        enable_partitioning: table.boolean("enable_partitioning", false),
        enable_express: table.boolean("enable_express", false),
        ..kept_of_all(table)
    };
    if let (true, true, Some((_, span))) =
        (kept.enable_express, requires_duplicate_detection, table.value("enable_express"))
    {
        table.report(
            &span,
            "enable_express",
            "can't be combined with requires_duplicate_detection; remove one of them",
        );
    }
    kept
}

/// What every entity keeps for its clients.
pub(super) fn kept_of_all(table: &mut Table<'_, '_>) -> Kept {
    let user_metadata = table.text("user_metadata", "\"owned by sales\"", parse_user_metadata);
    Kept {
        user_metadata: user_metadata.flatten(),
        enable_batched_operations: table.boolean("enable_batched_operations", true),
        ..Kept::default()
    }
}

/// The owner's own words; an empty text is none.
///
/// # Errors
/// A message that ends a sentence about the value.
pub(super) fn parse_user_metadata(text: &str) -> Result<Option<Box<str>>, String> {
    match text.chars().count() {
        0..=USER_METADATA_CHARS_MAX => Ok((!text.is_empty()).then(|| text.into())),
        chars => Err(format!("has {chars} characters, at most {USER_METADATA_CHARS_MAX} are allowed")),
    }
}

fn finite_ms(length: Duration) -> Option<u64> {
    match length {
        Duration::Unlimited => None,
        Duration::Milliseconds(length_ms) => Some(length_ms),
    }
}

fn too_short(text: &str, min_ms: u64) -> String {
    let least = duration::iso(min_ms);
    format!("\"{text}\" is too short; write at least \"{least}\", or \"unlimited\"")
}

/// `max_message_size_in_kilobytes` and `max_size_in_megabytes`, in bytes: a message must fit into the entity, and
/// through a connection. `kind` names the entity in messages.
pub(super) fn sizes_bytes(
    table: &mut Table<'_, '_>,
    kind: &str,
    (message_default, total_default): (u64, u64),
    bounds: Bounds,
) -> (u64, u64) {
    let key = "max_message_size_in_kilobytes";
    let total_mb = table.integer("max_size_in_megabytes", total_default / MEGABYTE, &MAX_SIZE_MB);
    let message_kb = table.integer(key, message_default / KILOBYTE, &MAX_MESSAGE_SIZE_KB);
    let (message_bytes, total_bytes) = (message_kb * KILOBYTE, total_mb * MEGABYTE);
    let Some((_, span)) = table.value(key) else { return (message_bytes, total_bytes) };
    if message_bytes > total_bytes {
        let message = format!(
            "a message of {message_kb} KB never fits into a {kind} of {total_mb} MB; raise max_size_in_megabytes"
        );
        table.report(&span, key, &message);
    } else if message_bytes > bounds.reassembly_bytes_max {
        let reassembly = size::display(bounds.reassembly_bytes_max);
        let message = format!(
            "a message of {message_kb} KB never comes through a connection with reassembly_size_max = \"{reassembly}\"; raise that in [amqp]"
        );
        table.report(&span, key, &message);
    }
    (message_bytes, total_bytes)
}

/// The same check with the name before the reason, as messages about a configuration have it.
///
/// # Errors
/// A message that ends a sentence about the name.
fn check_as(check: fn(&str) -> Result<(), String>, name: &str) -> Result<(), String> {
    check(name).map_err(|reason| format!("\"{name}\" can't be used: {reason}"))
}

/// Checks the name of a queue or topic.
///
/// # Errors
/// A message that ends a sentence about the name.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_entity_name, name)
}

/// Checks the name of a subscription.
///
/// # Errors
/// A message that ends a sentence about the name.
pub(super) fn check_subscription_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_subscription_name, name)
}

/// Checks the name of a rule.
///
/// # Errors
/// A message that ends a sentence about the name.
pub(super) fn check_rule_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_rule_name, name)
}

/// Checks the name of a shared access rule.
///
/// # Errors
/// A message that ends a sentence about the name.
pub(super) fn check_authorization_rule_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_authorization_rule_name, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_service_bus() {
        for good in ["queue", "Orders", "a/b/c", "with space", "ünï", "a.b-c_d", &"x".repeat(260)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for (bad, message) in [
            ("", "empty"),
            ("/a", "empty part"),
            ("a/", "empty part"),
            ("a//b", "empty part"),
            ("a@b", "'@'"),
            ("a\\b", "'\\\\'"),
            ("what?", "'?'"),
            ("tab\there", "'\\t'"),
            (" a", "space"),
            ("$cbs", "\"$\""),
            ("a/$DeadLetterQueue", "\"$\""),
            ("a/Subscriptions/b", "names of subscriptions"),
            ("a%2fb", "%2f"),
            ("localhost:5300", "host"),
            ("a/../b", "\"..\""),
            (&"x".repeat(261), "longer than 260"),
        ] {
            let error = check_name(bad).expect_err(bad);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn names_of_subscriptions_and_rules_are_shorter_and_have_no_slash() {
        for good in ["all", "a$", "ünï", "a.b-c_d", "a*b", "Subscriptions", &"x".repeat(50)] {
            assert_eq!((check_subscription_name(good), check_rule_name(good)), (Ok(()), Ok(())), "{good}");
        }
        for (bad, message) in [
            ("", "empty"),
            ("a/b", "'/'"),
            ("a\\b", "'\\\\'"),
            ("a@b", "'@'"),
            ("a?", "'?'"),
            ("#1", "'#'"),
            ("a\u{7f}", "'\\u{7f}'"),
            ("a ", "space"),
            (&"x".repeat(51), "longer than 50"),
        ] {
            let error = check_subscription_name(bad).expect_err(bad);
            assert!(error.contains(message), "{error}");
            assert_eq!(check_rule_name(bad), Err(error));
        }
        assert!(check_subscription_name("$DeadLetterQueue").unwrap_err().contains("kept for the broker"));
        assert_eq!(check_rule_name("$Default"), Ok(()));
    }
}
