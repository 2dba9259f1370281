//! Logs: to standard error, as text or as JSON, filtered.

mod connection;
mod fields;
mod levels;
mod limit;
mod line_writer;
mod ring;

use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use peeklock_console::LogRing;
use peeklock_wire::loggable_within;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::audit::{self, AuditControl};
use connection::WithConnection;
use levels::Levels;
use ring::RingLayer;

pub(crate) use fields::fields;
pub(crate) use levels::LogFilter;
pub(crate) use limit::LineLimit;
pub(crate) use line_writer::LineWriter;
pub(crate) use ring::keep;

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
    levels: Levels,
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
        self.levels.set(filter);
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
    let levels = Levels::new(filter);
    subscriber(levels.clone(), format, audit, output.clone()).init();
    let (limit, ring) = (audit.limit().clone(), audit.ring().clone());
    Ok(LogControl { levels, limit, ring })
}

fn subscriber(
    levels: Levels,
    format: LogFormat,
    audit: &AuditControl,
    output: LineWriter,
) -> impl Subscriber + Send + Sync + use<> {
    let lines = tracing_subscriber::fmt::layer().with_writer(output);
    let lines = match format {
        LogFormat::Text => lines
            .with_ansi(io::stderr().is_terminal())
            .fmt_fields(debug_fn(field as WriteField).delimited(" "))
            .map_event_format(WithConnection)
            .boxed(),
        LogFormat::Json => lines.json().flatten_event(true).map_event_format(WithConnection).boxed(),
    };
    let lines = lines.and_then(RingLayer(audit.ring().clone()));
    let in_log = audit.is_in_log();
    let is_change = |metadata: &tracing::Metadata<'_>| metadata.target() == audit::TARGET;
    // One combined filter, not nested ones: only then can tracing disable unused call sites permanently.
    let elsewhere = filter_fn(move |metadata| in_log || !is_change(metadata));
    tracing_subscriber::registry()
        .with(lines.with_filter(levels.and(audit.limit().clone()).and(elsewhere)))
        .with(audit.layer().with_filter(filter_fn(is_change)))
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
        let levels = Levels::new(&LogFilter::default());
        let output = LineWriter::start("log", io::sink(), SPACE_WAIT_MAX).unwrap();
        let subscriber = subscriber(levels.clone(), LogFormat::Text, &AuditControl::default(), output);
        let interest = || subscriber.register_callsite(&METADATA);
        assert!(interest().is_never());
        levels.set(&"info,peeklock_amqp=trace".parse().unwrap());
        assert!(!interest().is_never());
    }
}
