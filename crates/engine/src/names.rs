//! Names of queues, topics, subscriptions and rules: validity and comparison. Used by the configuration, administration and
//! the engine, so that every declared entity can be addressed.

use crate::options::CLIENT_ID_CHARS_MAX;

/// Longest name of a queue or topic, in characters (Service Bus quotas).
const ENTITY_NAME_CHARS_MAX: usize = 260;

/// Longest name of a subscription or rule, in characters (Service Bus quotas).
const SHORT_NAME_CHARS_MAX: usize = 50;

/// Longest name of a shared access rule, in characters (Service Bus quotas).
const AUTHORIZATION_RULE_NAME_CHARS_MAX: usize = 256;

/// Longest name of a subscription created by a client for JMS, in characters: its own name, the client id, `$` twice, `ND`.
const CLIENT_SUBSCRIPTION_NAME_CHARS_MAX: usize = SHORT_NAME_CHARS_MAX + CLIENT_ID_CHARS_MAX + 4;

/// Characters that can't be in the name of a queue or topic (azure-sdk-for-net's `EntityNameFormatter` and Service Bus's own
/// check).
const FORBIDDEN_IN_PATHS: &str = "@?#*\\";

/// Characters that can't be in other names (the same source).
const FORBIDDEN: &str = "/\\@?#";

/// The normalized form of a name for comparisons: names are case-insensitive.
#[must_use]
pub fn name_key(name: &str) -> Box<str> {
    name.to_lowercase().into_boxed_str()
}

/// Whether two names are equal.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    name_key(one) == name_key(other)
}

/// Whether text looks like the host of a URL, with or without a port. Some clients sign such a text without a scheme for the
/// whole namespace, so the name of an entity must not start with it. Bare IP addresses are allowed in names: there are queues
/// of devices called `10.0.0.1`.
#[must_use]
pub fn reads_like_a_host(text: &str) -> bool {
    let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    text.rsplit_once(':').is_some_and(has_port)
        || text.eq_ignore_ascii_case("localhost")
        || text.to_ascii_lowercase().ends_with(".servicebus.windows.net")
}

/// Checks the name of a queue or topic. Parts are separated by `/`.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_entity_name(name: &str) -> Result<(), String> {
    check_text(name, ENTITY_NAME_CHARS_MAX, FORBIDDEN_IN_PATHS)?;
    for part in name.split('/') {
        check_part(part)?;
    }
    match name.split('/').next() {
        Some(first) if reads_like_a_host(first) => {
            Err(format!("it begins with {first:?}, which looks like the host name of a broker"))
        }
        _ => check_escapes(name),
    }
}

/// Refuses name parts that would change the meaning of an address, so that a right to one entity can't be taken for a right to
/// another.
fn check_part(part: &str) -> Result<(), String> {
    if part.is_empty() {
        return Err("it has an empty part: no \"/\" at its ends and no \"//\" inside".to_owned());
    }
    if part.starts_with('$') {
        return Err(format!("its part {part:?} starts with \"$\", which is reserved for the broker"));
    }
    if part.eq_ignore_ascii_case("subscriptions") {
        return Err(format!("it has the part {part:?}, which is reserved for the paths of subscriptions"));
    }
    if matches!(part, "." | "..") {
        return Err(format!("it has the part {part:?}, which clients remove from addresses"));
    }
    Ok(())
}

fn check_escapes(name: &str) -> Result<(), String> {
    match name.split('%').skip(1).find_map(|rest| rest.get(..2).filter(|digits| is_hex(digits))) {
        Some(digits) => {
            Err(format!("it contains \"%{digits}\", which stands for another character in addresses"))
        }
        None => Ok(()),
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks the name of a subscription.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_subscription_name(name: &str) -> Result<(), String> {
    check_rule_name(name)?;
    if name.starts_with('$') {
        return Err("it starts with \"$\", which is reserved for the broker".to_owned());
    }
    check_escapes(name)
}

/// Checks the name of a subscription created by a client for JMS: it contains the client id, so it may be longer than others.
///
/// # Errors
/// The reason, as the end of a sentence.
pub(crate) fn check_client_subscription_name(name: &str) -> Result<(), String> {
    check_text(name, CLIENT_SUBSCRIPTION_NAME_CHARS_MAX, FORBIDDEN)?;
    check_escapes(name)
}

/// Checks the name of a subscription in an address; one created by a client for JMS may be longer.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_addressed_subscription_name(name: &str) -> Result<(), String> {
    let is_of_client = name.ends_with("$D") || name.ends_with("$ND");
    if is_of_client && !name.starts_with('$') {
        check_client_subscription_name(name)
    } else {
        check_subscription_name(name)
    }
}

/// Checks a client id, which becomes a part of such a name; it may be empty.
///
/// # Errors
/// The reason, as the end of a sentence.
pub(crate) fn check_client_id(client_id: &str) -> Result<(), String> {
    if client_id.is_empty() {
        return Ok(());
    }
    check_text(client_id, CLIENT_ID_CHARS_MAX, FORBIDDEN)?;
    check_escapes(client_id)
}

/// Checks the name of a rule.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_rule_name(name: &str) -> Result<(), String> {
    check_text(name, SHORT_NAME_CHARS_MAX, FORBIDDEN)
}

/// Checks the name of a shared access rule.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn check_authorization_rule_name(name: &str) -> Result<(), String> {
    check_text(name, AUTHORIZATION_RULE_NAME_CHARS_MAX, FORBIDDEN)
}

fn check_text(name: &str, chars_max: usize, forbidden: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it is empty".to_owned());
    }
    let chars = name.chars().count();
    if chars > chars_max {
        return Err(format!("it has {chars} characters, which is longer than {chars_max}"));
    }
    if let Some(bad) = name.chars().find(|c| forbidden.contains(*c) || c.is_control()) {
        return Err(format!("it contains {bad:?}, which is not allowed in a name"));
    }
    if name.trim() != name {
        return Err("it starts or ends with a space".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_pass() {
        let longest = "ü".repeat(50);
        for name in ["eu", "EU-orders_2.1", "a b", "*", longest.as_str()] {
            assert_eq!(check_subscription_name(name), Ok(()), "{name}");
            assert_eq!(check_rule_name(name), Ok(()), "{name}");
        }
        assert_eq!(check_rule_name("$Default"), Ok(()));
    }

    #[test]
    fn bad_names_are_refused_with_the_cause() {
        let too_long = "x".repeat(51);
        for (name, cause) in [
            ("", "empty"),
            (too_long.as_str(), "51 characters"),
            ("a/b", "'/'"),
            ("a\\b", "'\\\\'"),
            ("a@b", "'@'"),
            ("a?b", "'?'"),
            ("a#b", "'#'"),
            ("a\nb", "'\\n'"),
        ] {
            assert!(check_subscription_name(name).unwrap_err().contains(cause), "{name:?}");
            assert!(check_rule_name(name).unwrap_err().contains(cause), "{name:?}");
        }
        assert!(check_subscription_name("$Default").unwrap_err().contains("reserved for the broker"));
        assert!(check_subscription_name("a%20b").unwrap_err().contains("%20"));
    }

    #[test]
    fn addresses_name_subscriptions_of_clients_with_their_client_ids() {
        let of_client =
            |name: usize, client: usize| format!("{}${}$ND", "s".repeat(name), "c".repeat(client));
        assert_eq!(check_addressed_subscription_name(&of_client(50, CLIENT_ID_CHARS_MAX)), Ok(()));
        assert_eq!(check_addressed_subscription_name("s$$D"), Ok(()));
        for bad in [&*of_client(200, 1), "$c$D", "$Default", &"s".repeat(51), "a/b$$D"] {
            assert!(check_addressed_subscription_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ordinary_names_and_paths_pass() {
        let longest = "x".repeat(260);
        for name in
            ["orders", "Sales/EU/orders", "a", "köln-1_2.3~4", "100%", "10.0.0.1/log", longest.as_str()]
        {
            assert_eq!(check_entity_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn bad_names_of_queues_and_topics_are_refused_with_the_cause() {
        let too_long = "x".repeat(261);
        for (name, cause) in [
            ("", "empty"),
            (too_long.as_str(), "261 characters"),
            ("/a", "empty part"),
            ("a/", "empty part"),
            ("a//b", "empty part"),
            ("a/../b", "\"..\""),
            (" a", "space"),
            ("x/subscriptions/y", "paths of subscriptions"),
            ("Subscriptions/y", "paths of subscriptions"),
            ("a@b", "'@'"),
            ("a?b", "'?'"),
            ("a#b", "'#'"),
            ("a*b", "'*'"),
            ("a\\b", "'\\\\'"),
            ("a\nb", "'\\n'"),
            ("$cbs", "reserved for the broker"),
            ("orders/$DeadLetterQueue", "reserved for the broker"),
            ("a%2fb", "%2f"),
            ("50%ä/%20", "%20"),
            ("localhost", "host"),
            ("localhost:5300/q", "host"),
            ("shop.servicebus.windows.net", "host"),
        ] {
            let error = check_entity_name(name).unwrap_err();
            assert!(error.contains(cause), "{name:?}: {error}");
        }
    }
}
