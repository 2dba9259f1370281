//! `[[queues]]`: the properties of a queue, by Service Bus's own names and ranges.

use std::ops::{Range, RangeInclusive};

use peeklock_engine::QueueOptions;

use super::duration::{self, Duration};
use super::size;
use super::table::Table;

const MILLISECONDS_PER_SECOND: u64 = 1_000;
const LOCK_DURATION_MS: RangeInclusive<u64> = 5 * MILLISECONDS_PER_SECOND..=300 * MILLISECONDS_PER_SECOND;
const TIME_TO_LIVE_MS_MIN: u64 = MILLISECONDS_PER_SECOND;
/// The longest finite time-to-live: the days of Service Bus's maximum.
const TIME_TO_LIVE_MS_MAX: u64 = 10_675_199 * 86_400 * MILLISECONDS_PER_SECOND;
const MAX_DELIVERY_COUNT: RangeInclusive<u64> = 1..=i32::MAX as u64;
const KILOBYTE: u64 = 1 << 10;
const MEGABYTE: u64 = 1 << 20;
/// Service Bus allows 1024 to 102400.
const MAX_MESSAGE_SIZE_KB: RangeInclusive<u64> = 1..=102_400;
/// Service Bus allows 1024 to 81920; here up to 10 TiB, and little for those who test full queues.
const MAX_SIZE_MB: RangeInclusive<u64> = 1..=10 * MEGABYTE;
const NAME_CHARS_MAX: usize = 260;

/// Properties of Service Bus queues that later releases bring, with the value that asks for nothing.
const UNSUPPORTED: [(&str, &str); 13] = [
    ("auto_delete_on_idle", "\"unlimited\""),
    ("authorization_rules", ""),
    ("duplicate_detection_history_time_window", ""),
    ("enable_batched_operations", "true"),
    ("enable_express", "false"),
    ("enable_partitioning", "false"),
    ("forward_dead_lettered_messages_to", "\"\""),
    ("forward_to", "\"\""),
    ("requires_duplicate_detection", "false"),
    ("requires_session", "false"),
    ("status", "\"Active\""),
    ("tier", ""),
    ("user_metadata", "\"\""),
];

/// A queue that the configuration declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueConfig {
    /// Its name, as written.
    pub(crate) name: String,
    /// Its properties.
    pub(crate) options: QueueOptions,
}

/// A queue read from a file, with the place of its name.
pub(crate) struct Declared {
    pub(crate) queue: QueueConfig,
    pub(crate) name_span: Range<usize>,
}

/// Reads one `[[queues]]` table; `None` when its name is unusable, which has been reported then.
///
/// `reassembly_bytes_max` is what a connection may hold of partly received messages.
pub(crate) fn read(
    mut table: Table<'_, '_>,
    place: &Range<usize>,
    reassembly_bytes_max: u64,
) -> Option<Declared> {
    let name_span = table.value("name").map(|(_, span)| span);
    let name = table.text("name", "\"orders\"", |name| check_name(name).map(|()| name.to_owned()));
    if name_span.is_none() {
        table.report(place, "name", "missing; write name = \"orders\" or the like");
    }
    if let Some(name) = &name {
        table.set_title(format!("queue \"{name}\": "));
    }
    let options = read_options(&mut table);
    check_message_size(&mut table, &options, reassembly_bytes_max);
    for (key, neutral) in UNSUPPORTED {
        table.unsupported(key, neutral);
    }
    table.finish();
    let queue = QueueConfig { name: name?, options };
    Some(Declared { queue, name_span: name_span? })
}

fn read_options(table: &mut Table<'_, '_>) -> QueueOptions {
    let default = QueueOptions::default();
    let max_delivery_count =
        table.integer("max_delivery_count", u64::from(default.max_delivery_count), &MAX_DELIVERY_COUNT);
    let max_size_mb = table.integer("max_size_in_megabytes", default.max_size_bytes / MEGABYTE, &MAX_SIZE_MB);
    let max_message_size_kb = table.integer(
        "max_message_size_in_kilobytes",
        default.max_message_size_bytes / KILOBYTE,
        &MAX_MESSAGE_SIZE_KB,
    );
    QueueOptions {
        lock_duration_ms: table.duration_ms("lock_duration", default.lock_duration_ms, &LOCK_DURATION_MS),
        max_delivery_count: u32::try_from(max_delivery_count).unwrap_or(u32::MAX),
        default_message_time_to_live_ms: time_to_live_ms(table)
            .unwrap_or(default.default_message_time_to_live_ms),
        dead_lettering_on_message_expiration: table
            .boolean("dead_lettering_on_message_expiration", default.dead_lettering_on_message_expiration),
        requires_session: default.requires_session,
        auto_delete_on_idle_ms: default.auto_delete_on_idle_ms,
        max_message_size_bytes: max_message_size_kb * KILOBYTE,
        max_size_bytes: max_size_mb * MEGABYTE,
    }
}

/// A message must fit into the queue, and through a connection.
fn check_message_size(table: &mut Table<'_, '_>, options: &QueueOptions, reassembly_bytes_max: u64) {
    let key = "max_message_size_in_kilobytes";
    let Some((_, span)) = table.value(key) else { return };
    let message_kb = options.max_message_size_bytes / KILOBYTE;
    if options.max_message_size_bytes > options.max_size_bytes {
        let queue_mb = options.max_size_bytes / MEGABYTE;
        let message = format!(
            "a message of {message_kb} KB never fits into a queue of {queue_mb} MB; raise max_size_in_megabytes"
        );
        table.report(&span, key, &message);
    } else if options.max_message_size_bytes > reassembly_bytes_max {
        let reassembly = size::display(reassembly_bytes_max);
        let message = format!(
            "a message of {message_kb} KB never comes through a connection with reassembly_size_max = \"{reassembly}\"; raise that in [amqp]"
        );
        table.report(&span, key, &message);
    }
}

fn time_to_live_ms(table: &mut Table<'_, '_>) -> Option<Option<u64>> {
    table.text("default_message_time_to_live", "\"P14D\"", |text| match duration::parse(text)? {
        Duration::Unlimited => Ok(None),
        Duration::Milliseconds(_) => {
            duration::parse_in(text, &(TIME_TO_LIVE_MS_MIN..=TIME_TO_LIVE_MS_MAX)).map(Some)
        }
    })
}

/// Checks a queue's name: at most 260 characters; `/` separates path segments; not `@ ? # * \`, nor a segment that
/// starts with `$`, which the broker keeps for itself.
///
/// # Errors
/// A message that ends a sentence about the name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fail = |what: &str| Err(format!("\"{name}\" {what}"));
    if name.is_empty() {
        return fail("is empty");
    }
    if name.chars().count() > NAME_CHARS_MAX {
        return fail(&format!("is longer than {NAME_CHARS_MAX} characters"));
    }
    if let Some(bad) = name.chars().find(|char| "@?#*\\".contains(*char) || char.is_control()) {
        return fail(&format!("has the character {bad:?}, which queue names can't have"));
    }
    if name.trim() != name {
        return fail("starts or ends with a space");
    }
    if name.split('/').any(str::is_empty) {
        return fail("has an empty part: no \"/\" at its ends and no \"//\" inside");
    }
    if name.split('/').any(|part| part.starts_with('$')) {
        return fail("has a part that starts with \"$\", which is kept for the broker");
    }
    if name.split('/').any(|part| part.eq_ignore_ascii_case("subscriptions")) {
        return fail("has the part \"subscriptions\", which is kept for topics");
    }
    Ok(())
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
            ("a/Subscriptions/b", "kept for topics"),
            (&"x".repeat(261), "longer than 260"),
        ] {
            let error = check_name(bad).expect_err(bad);
            assert!(error.contains(message), "{error}");
        }
    }
}
