//! The levels that are logged, by module.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter};

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The filter of the log: a level, or levels by module, such as `info,peeklock_amqp=debug`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogFilter {
    text: String,
    targets: Targets,
}

impl Default for LogFilter {
    fn default() -> Self {
        Self { text: "info".to_owned(), targets: Targets::new().with_default(LevelFilter::INFO) }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(formatter)
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Vec<_> = text.split(',').map(str::trim).collect();
        // A single unknown word would be parsed as a module's name and silence everything else; so would a span.
        let understood = parts.iter().all(|part| {
            let (module, level) = part.rsplit_once('=').unwrap_or(("", part));
            !module.contains(['[', '{']) && LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level))
        });
        match parts.join(",").parse() {
            Ok(targets) if understood => Ok(Self { text: text.to_owned(), targets }),
            _ => Err(format!(
                "\"{text}\" is not a log level; write {} or levels by module such as \"info,peeklock_amqp=debug\"",
                LEVELS.join(", ")
            )),
        }
    }
}

/// The filter in force; cheap to clone. Does nothing when a span is entered or left, which happens whenever a connection
/// is polled, in all threads: `EnvFilter` and `reload::Layer` would take two shared locks each time.
#[derive(Debug, Clone)]
pub(super) struct Levels(Arc<RwLock<Targets>>);

impl Levels {
    pub(super) fn new(filter: &LogFilter) -> Self {
        Self(Arc::new(RwLock::new(filter.targets.clone())))
    }

    /// Replaces the filter.
    pub(super) fn set(&self, filter: &LogFilter) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = filter.targets.clone();
        // The answers of `callsite_enabled` are kept until then.
        tracing::callsite::rebuild_interest_cache();
    }

    fn targets(&self) -> RwLockReadGuard<'_, Targets> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self, metadata: &Metadata<'_>) -> bool {
        self.targets().would_enable(metadata.target(), metadata.level())
    }
}

impl<S> Filter<S> for Levels {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.logs(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.logs(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Filter::<S>::max_level_hint(&*self.targets())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_levels_and_levels_by_module() {
        for text in ["info", "WARN", "info,peeklock_amqp=debug", "peeklock_storage=trace, error"] {
            assert!(text.parse::<LogFilter>().is_ok(), "{text}");
        }
    }

    #[test]
    fn a_module_has_its_own_level_and_others_the_general_one() {
        let targets = "warn, peeklock_amqp=debug".parse::<LogFilter>().unwrap().targets;
        let logs = |target: &str, level| targets.would_enable(target, &level);
        assert!(logs("peeklock_amqp::server", tracing::Level::DEBUG));
        assert!(!logs("peeklock_amqp::server", tracing::Level::TRACE));
        assert!(logs("peeklock_net", tracing::Level::WARN) && !logs("peeklock_net", tracing::Level::INFO));
        let info = LogFilter::default();
        assert_eq!("info".parse::<LogFilter>().unwrap(), info);
    }

    #[test]
    fn refuses_words_that_are_no_level() {
        for text in ["", "verbose", "peeklock_amqp", "info,loud", "peeklock_amqp=loud", "[connection]=debug"]
        {
            let error = text.parse::<LogFilter>().expect_err(text);
            assert!(error.contains("is not a log level"), "{error}");
        }
    }
}
