//! Which names an entity may have.

use crate::names::check_is_canonical;
pub(super) use crate::names::name_key;

/// Longest name of a queue or topic, in characters (Service Bus quotas).
const NAME_CHARS_MAX: usize = 260;

/// Characters that can't be in a path (azure-sdk-for-net's `EntityNameFormatter` and the service's own check).
const FORBIDDEN: [char; 5] = ['@', '?', '#', '*', '\\'];

/// Checks the name of a queue or topic.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub(super) fn check_entity_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("it is empty".to_owned());
    }
    let chars = name.chars().count();
    if chars > NAME_CHARS_MAX {
        return Err(format!("it has {chars} characters, at most {NAME_CHARS_MAX} are allowed"));
    }
    if name.starts_with('/') || name.ends_with('/') {
        return Err("it starts or ends with '/', which only separates path segments".to_owned());
    }
    if let Some(bad) = name.chars().find(|c| FORBIDDEN.contains(c) || c.is_control()) {
        return Err(format!("it contains {bad:?}, which is not allowed in a name"));
    }
    if let Some(segment) = name.split('/').find(|segment| segment.starts_with('$')) {
        return Err(format!("its segment {segment:?} starts with '$', which is reserved for the broker"));
    }
    check_is_canonical(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn bad_names_are_refused_with_the_cause() {
        let too_long = "x".repeat(261);
        for (name, cause) in [
            ("", "empty"),
            (too_long.as_str(), "261 characters"),
            ("/a", "'/'"),
            ("a/", "'/'"),
            ("a@b", "'@'"),
            ("a?b", "'?'"),
            ("a#b", "'#'"),
            ("a*b", "'*'"),
            ("a\\b", "'\\\\'"),
            ("a\nb", "'\\n'"),
            ("$cbs", "reserved"),
            ("orders/$DeadLetterQueue", "reserved"),
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
