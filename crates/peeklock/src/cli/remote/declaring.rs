//! Options on the command line: `lock_duration=PT1M`, with the names and rules of the configuration file.

use std::fmt::Write;

use peeklock_client::Options;
use peeklock_engine::Tier;
use peeklock_engine::schema::{EntityOption, OPTIONS, OptionKind, OptionSet};

use super::Failure;
use crate::config::{self, FileConfig, quoted};

/// One option as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// Its name in a configuration file.
    pub(super) key: String,
    /// Its value.
    value: String,
}

/// Parses `KEY=VALUE`.
///
/// # Errors
/// A message with the valid form.
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as lock_duration=PT1M")?;
    let key = key.trim().to_owned();
    if key.is_empty() || !key.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
        return Err(format!("\"{key}\" is not the name of an option; names look like lock_duration"));
    }
    // Service Bus's name of the option is accepted as well.
    let known = EntityOption::named(&key).or_else(|| EntityOption::of_service(&key));
    let key = known.map_or(key, |option| option.name.to_owned());
    Ok(Setting { key, value: value.trim().to_owned() })
}

/// The options as lines of TOML.
pub(super) fn lines(settings: &[Setting]) -> String {
    let mut text = String::new();
    for Setting { key, value } in settings {
        let is_bare = EntityOption::named(key).is_some_and(|option| {
            matches!(option.kind, OptionKind::Boolean(_) | OptionKind::Count(..) | OptionKind::Size(..))
        });
        let is_plain = value == "true" || value == "false" || value.parse::<u64>().is_ok();
        let value = if is_bare && is_plain { value.clone() } else { quoted(value) };
        // Writing to a string can't fail.
        let _ = writeln!(text, "{key} = {value}");
    }
    text
}

/// Parses declarations generated from a command line, for a namespace of this tier.
///
/// # Errors
/// Every error, without positions, because there is no file.
pub(super) fn parse(toml: &str, tier: Tier) -> Result<FileConfig, Failure> {
    config::parse_for("the command line", toml, tier).map_err(|problems| {
        let messages: Vec<&str> = problems.list.iter().map(|problem| problem.message.as_str()).collect();
        Failure::usage(messages.join("\n"))
    })
}

/// The current options with the values written on the command line.
pub(super) fn with_settings(current: Options, written: &Options, settings: &[Setting]) -> Options {
    fn merge<O: OptionSet>(mut current: O, written: &O, settings: &[Setting]) -> O {
        let is_set = |option: &&EntityOption| settings.iter().any(|setting| setting.key == option.name);
        for option in OPTIONS.iter().filter(is_set) {
            option.copy(written, &mut current);
        }
        current
    }
    match (current, written) {
        (Options::Queue(current), Options::Queue(written)) => {
            Options::Queue(Box::new(merge(*current, written, settings)))
        }
        (Options::Topic(current), Options::Topic(written)) => {
            Options::Topic(Box::new(merge(*current, written, settings)))
        }
        (Options::Subscription(current), Options::Subscription(written)) => {
            Options::Subscription(Box::new(merge(*current, written, settings)))
        }
        (current, _) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_names_of_the_file_or_of_service_bus() {
        let key = |text: &str| setting(text).map(|setting| setting.key);
        assert_eq!(key("lock_duration=PT1M").as_deref(), Ok("lock_duration"));
        assert_eq!(key("LockDuration=PT1M").as_deref(), Ok("lock_duration"));
        assert!(key("lock_duration").is_err() && key("a b=c").is_err());
        let settings = ["requires_session=true", "max_delivery_count=3", "forward_to=a\"b"];
        let settings: Vec<_> = settings.iter().map(|text| setting(text).unwrap()).collect();
        assert_eq!(
            lines(&settings),
            "requires_session = true\nmax_delivery_count = 3\nforward_to = \"a\\\"b\"\n"
        );
    }

    #[test]
    fn mistakes_are_those_of_the_file() {
        let failure =
            parse("[[queues]]\nname = \"q\"\nlock_duraton = \"PT1M\"\n", Tier::default()).unwrap_err();
        assert!(format!("{failure:?}").contains("did you mean `lock_duration`?"), "{failure:?}");
    }
}
