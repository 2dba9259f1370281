//! Logs: to standard error, as text or as JSON, filtered.

mod fields;
mod limit;
mod line_writer;
mod ring;

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use peeklock_console::LogRing;
use peeklock_wire::loggable_within;
use tracing::Subscriber;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::audit::{self, AuditControl};
use ring::RingLayer;

pub(crate) use fields::fields;
pub(crate) use limit::LineLimit;
pub(crate) use line_writer::LineWriter;
pub(crate) use ring::keep;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Readable text: one line for each event, coloured on a terminal.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("\"{text}\" is not a log format; write \"text\" or \"json\"")),
        }
    }
}

/// The filter of the log: a level, or levels by module, such as `info,peeklock_amqp=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFilter(String);

impl LogFilter {
    fn to_env_filter(&self) -> EnvFilter {
        EnvFilter::try_new(&self.0).unwrap_or_default()
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A single unknown word would be parsed as a module's name and silence everything else.
        let understood = text
            .split(',')
            .map(|part| part.rsplit_once('=').map_or(part, |(_, level)| level).trim())
            .all(|level| LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)));
        if understood && EnvFilter::try_new(text).is_ok() {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "\"{text}\" is not a log level; write {} or levels by module such as \"info,peeklock_amqp=debug\"",
            LEVELS.join(", ")
        ))
    }
}

/// Longest value of a field in a text line, in characters; peers' texts are cut shorter where they are logged.
const VALUE_CHARACTERS_MAX: usize = 1_024;

/// Longest wait of a line for a slow reader of standard error.
const SPACE_WAIT_MAX: Duration = Duration::from_millis(100);

/// The writer of this process's log.
static OUTPUT: OnceLock<LineWriter> = OnceLock::new();

/// Waits until everything logged so far is written, for a second at most.
pub(crate) fn flush() {
    if let Some(output) = OUTPUT.get() {
        output.flush();
    }
}

/// Changes the log filter at run time; cheap to clone.
#[derive(Clone)]
pub(crate) struct LogControl {
    set_filter: Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    limit: LineLimit,
    ring: LogRing,
}

impl LogControl {
    /// The last lines of the log.
    pub(crate) fn ring(&self) -> LogRing {
        self.ring.clone()
    }

    /// Sets another filter.
    pub(crate) fn set(&self, filter: &LogFilter) {
        if let Err(error) = (self.set_filter)(filter.to_env_filter()) {
            tracing::error!("the log level can't be changed: {error}");
        }
    }

    /// Logs the counts of dropped and lost lines periodically, until the runtime ends.
    pub(crate) fn report_left_out(&self) {
        let limit = self.limit.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(limit::REPORT_EVERY).await;
                let lost = OUTPUT.get().map_or(0, LineWriter::take_lost);
                if lost > 0 {
                    tracing::warn!(
                        lines = lost,
                        "lines lost, because standard error was not read or could not be written"
                    );
                }
                for (words, lines) in limit.take_left_out() {
                    tracing::warn!(lines, "lines omitted, because there were too many like \"{words}\"");
                }
            }
        });
    }
}

/// Starts logging for the rest of the process; administrative changes are only in the audit log.
///
/// # Errors
/// The thread that writes the log can't be started.
pub(crate) fn start(filter: &LogFilter, format: LogFormat, audit: &AuditControl) -> io::Result<LogControl> {
    let output = LineWriter::start("log", io::stderr(), SPACE_WAIT_MAX)?;
    let output = OUTPUT.get_or_init(|| output);
    let (subscriber, handle) = subscriber(filter, format, audit, output.clone());
    subscriber.init();
    let (limit, ring) = (audit.limit().clone(), audit.ring().clone());
    Ok(LogControl { set_filter: Arc::new(move |filter| handle.reload(filter)), limit, ring })
}

/// The subscriber, and the handle that changes the filter.
fn subscriber(
    filter: &LogFilter,
    format: LogFormat,
    audit: &AuditControl,
    output: LineWriter,
) -> (impl Subscriber + Send + Sync + use<>, reload::Handle<EnvFilter, Registry>) {
    let (filter, handle) = reload::Layer::new(filter.to_env_filter());
    let lines = tracing_subscriber::fmt::layer().with_writer(output);
    let lines = match format {
        LogFormat::Text => lines
            .with_ansi(io::stderr().is_terminal())
            .fmt_fields(debug_fn(field as WriteField).delimited(" "))
            .boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let lines = lines.and_then(RingLayer(audit.ring().clone()));
    let in_log = audit.is_in_log();
    let is_change = |metadata: &tracing::Metadata<'_>| metadata.target() == audit::TARGET;
    // One combined filter, not nested ones: only then can tracing disable unused call sites permanently.
    let elsewhere = filter_fn(move |metadata| in_log || !is_change(metadata));
    let subscriber = tracing_subscriber::registry()
        .with(lines.with_filter(filter.and(audit.limit().clone()).and(elsewhere)))
        .with(audit.layer().with_filter(filter_fn(is_change)));
    (subscriber, handle)
}

type WriteField = fn(&mut Writer<'_>, &tracing::field::Field, &dyn fmt::Debug) -> fmt::Result;

/// Writes a field so that it stays on its line, even if its text comes from a peer.
fn field(writer: &mut Writer<'_>, field: &tracing::field::Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    let text = loggable_within(&text, VALUE_CHARACTERS_MAX);
    match field.name() {
        "message" => writer.write_str(&text),
        name => write!(writer, "{name}={text}"),
    }
}

#[cfg(test)]
mod tests {
    use tracing::callsite::{Callsite, Identifier};
    use tracing::field::FieldSet;
    use tracing::metadata::Kind;
    use tracing::subscriber::Interest;
    use tracing::{Level, Metadata};

    use super::*;

    /// Logs frames at the level trace.
    struct Frames;

    static METADATA: Metadata<'static> = Metadata::new(
        "frame",
        "peeklock_amqp::frames",
        Level::TRACE,
        None,
        None,
        None,
        FieldSet::new(&[], Identifier(&Frames)),
        Kind::EVENT,
    );

    impl Callsite for Frames {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            &METADATA
        }
    }

    #[test]
    fn a_place_that_logs_nothing_is_asked_once_and_not_each_time() {
        let interest = |filter: &str| {
            let filter: LogFilter = filter.parse().unwrap();
            let output = LineWriter::start("log", io::sink(), SPACE_WAIT_MAX).unwrap();
            let (subscriber, _handle) =
                subscriber(&filter, LogFormat::Text, &AuditControl::default(), output);
            subscriber.register_callsite(&METADATA)
        };
        assert!(interest("info").is_never());
        assert!(!interest("info,peeklock_amqp=trace").is_never());
    }

    #[test]
    fn takes_levels_and_levels_by_module() {
        for text in ["info", "WARN", "info,peeklock_amqp=debug", "peeklock_storage=trace, error"] {
            assert!(text.parse::<LogFilter>().is_ok(), "{text}");
        }
    }

    #[test]
    fn refuses_words_that_are_no_level() {
        for text in ["", "verbose", "peeklock_amqp", "info,loud", "peeklock_amqp=loud"] {
            let error = text.parse::<LogFilter>().expect_err(text);
            assert!(error.contains("is not a log level"), "{error}");
        }
    }
}
