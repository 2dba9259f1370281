//! Names of what lives in a topic, and how all names are compared.

/// Longest name of a subscription or rule, in characters (Service Bus quotas).
const SHORT_NAME_CHARS_MAX: usize = 50;

/// Characters that can't be in such a name (azure-sdk-for-net's `EntityNameFormatter`).
const FORBIDDEN: [char; 5] = ['/', '\\', '@', '?', '#'];

/// The form under which names are compared: they match case-insensitively.
pub(crate) fn name_key(name: &str) -> Box<str> {
    name.to_lowercase().into_boxed_str()
}

/// Whether text reads like the host of a URL, with a port or without. Some clients sign such a text without a scheme for the
/// whole namespace, so the name of an entity must not begin with it. Bare addresses are left to names: devices have queues
/// called `10.0.0.1`.
#[must_use]
pub fn reads_like_a_host(text: &str) -> bool {
    let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
    text.rsplit_once(':').is_some_and(has_port)
        || text.eq_ignore_ascii_case("localhost")
        || text.to_ascii_lowercase().ends_with(".servicebus.windows.net")
}

/// Refuses names that an address can't tell from something else, so that rights on one thing are never taken for rights on
/// another.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_is_canonical(name: &str) -> Result<(), String> {
    check_escapes(name)?;
    match name.split('/').next() {
        Some(first) if reads_like_a_host(first) => {
            Err(format!("it begins with {first:?}, which reads like the host of a broker"))
        }
        _ => check_parts(name),
    }
}

fn check_parts(name: &str) -> Result<(), String> {
    match name.split('/').find(|part| matches!(*part, "" | "." | "..")) {
        Some(part) => Err(format!("it has the part {part:?}, which clients take out of addresses")),
        None => Ok(()),
    }
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
/// What is wrong with it, as the end of a sentence.
pub fn check_subscription_name(name: &str) -> Result<(), String> {
    check_rule_name(name)?;
    if name.starts_with('$') {
        return Err("it starts with '$', which is reserved for the broker".to_owned());
    }
    check_escapes(name)
}

/// Checks the name of a rule.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_rule_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it is empty".to_owned());
    }
    let chars = name.chars().count();
    if chars > SHORT_NAME_CHARS_MAX {
        return Err(format!(
            "it has {chars} characters, where {SHORT_NAME_CHARS_MAX} characters are allowed"
        ));
    }
    match name.chars().find(|c| FORBIDDEN.contains(c) || c.is_control()) {
        Some(bad) => Err(format!("it contains {bad:?}, which is not allowed in a name")),
        None => Ok(()),
    }
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
        assert!(check_subscription_name("$Default").unwrap_err().contains("reserved"));
        assert!(check_subscription_name("a%20b").unwrap_err().contains("%20"));
    }
}
