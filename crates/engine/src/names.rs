//! Names of what lives in a topic, and how all names are compared.

/// Longest name of a subscription or rule, in characters (Service Bus quotas).
const SHORT_NAME_CHARS_MAX: usize = 50;

/// Characters that can't be in such a name (azure-sdk-for-net's `EntityNameFormatter`).
const FORBIDDEN: [char; 5] = ['/', '\\', '@', '?', '#'];

/// The form under which names are compared: they match case-insensitively.
pub(crate) fn name_key(name: &str) -> Box<str> {
    name.to_lowercase().into_boxed_str()
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
    Ok(())
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
    }
}
