//! Common parts of queues, topics and subscriptions: their names, and limits from the rest of the file.

use std::ops::Range;

use peeklock_engine::Tier;

use super::file::FileConfig;
use super::limits::LimitsConfig;
use super::names::Place;
use super::table::Table;

/// Limits for entities from the rest of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// `[limits]`
    pub(super) limits: LimitsConfig,
    /// The tier in `[namespace]`.
    pub(super) tier: Tier,
    /// Maximum size of partly received messages of a connection.
    pub(super) reassembly_bytes_max: u64,
}

impl Bounds {
    /// The limits in a file.
    pub(super) fn of(file: &FileConfig) -> Self {
        Self {
            limits: file.limits,
            tier: file.namespace.tier,
            reassembly_bytes_max: LimitsConfig::reassembly_bytes_max(
                file.amqp.reassembly_bytes_max,
                file.limits.memory_bytes_max,
            ),
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self::of(&FileConfig::default())
    }
}

/// The name of a table's entity and its position; `None` when it is missing or invalid, which is reported.
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

/// Puts the name before the reason, as in all messages about a configuration.
///
/// # Errors
/// A message for the end of a sentence about the name.
fn check_as(check: fn(&str) -> Result<(), String>, name: &str) -> Result<(), String> {
    check(name).map_err(|reason| format!("\"{name}\" can't be used: {reason}"))
}

/// Checks the name of a queue or topic.
///
/// # Errors
/// A message for the end of a sentence about the name.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_entity_name, name)
}

/// Checks the name of a subscription.
///
/// # Errors
/// A message for the end of a sentence about the name.
pub(super) fn check_subscription_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_subscription_name, name)
}

/// Checks the name of a rule.
///
/// # Errors
/// A message for the end of a sentence about the name.
pub(super) fn check_rule_name(name: &str) -> Result<(), String> {
    check_as(peeklock_engine::check_rule_name, name)
}

/// Checks the name of a shared access rule.
///
/// # Errors
/// A message for the end of a sentence about the name.
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
            ("a/Subscriptions/b", "paths of subscriptions"),
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
        assert!(check_subscription_name("$DeadLetterQueue").unwrap_err().contains("reserved for the broker"));
        assert_eq!(check_rule_name("$Default"), Ok(()));
    }
}
