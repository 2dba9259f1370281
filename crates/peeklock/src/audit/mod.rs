//! The audit log: one JSON line for each administrative change, made or refused.
//!
//! The code that makes a change emits a `tracing` event whose target is [`TARGET`], so no crate depends on this module.
//! Its fields become the line's: `protocol`, `principal`, `peer`, `operation`, `entity`, `outcome`, `changed` (names of
//! options, never their values). Writing never blocks the caller: lines are queued, within a limit, for a thread that
//! writes them, and lines dropped because the queue was full are counted in the next line. Attempts of peers without a
//! credential are logged up to a rate; the others are counted there as well.

mod counts;
mod file;
mod line;

use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use peeklock_console::LogRing;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::logging::{self, LineLimit, LineWriter};
pub(crate) use counts::Changes;
use file::{AuditFile, Reopen};

/// The target of events that are administrative changes.
pub(crate) const TARGET: &str = "peeklock::audit";

/// The destination of the audit log: `log.audit`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum AuditTarget {
    /// In the log, as lines of the level info.
    #[default]
    Log,
    /// On standard error, as JSON.
    Stderr,
    /// Appended to a file, which is reopened on SIGHUP so that it can be rotated.
    File(PathBuf),
    /// No audit log.
    Off,
}

impl FromStr for AuditTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => {
                Err("the audit log needs a place; write \"log\", \"stderr\", \"off\" or the path of a file"
                    .to_owned())
            }
            "log" => Ok(Self::Log),
            "stderr" => Ok(Self::Stderr),
            "off" => Ok(Self::Off),
            path => Ok(Self::File(path.into())),
        }
    }
}

/// Reopens and flushes the audit log; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditControl {
    /// The writer, if the audit log has a destination of its own.
    writer: Option<LineWriter>,
    /// Used if that is a file.
    reopen: Reopen,
    /// Whether changes are logged as lines of the log.
    in_log: bool,
    /// Rate limit of lines caused by peers.
    limit: LineLimit,
    /// The last lines.
    ring: LogRing,
    /// The counters of changes.
    changes: Changes,
}

impl AuditControl {
    /// Opens the audit log.
    ///
    /// # Errors
    /// The file can't be opened, or no thread can be created.
    pub(crate) fn open(target: &AuditTarget) -> io::Result<Self> {
        let reopen = Reopen::default();
        let writer = match target {
            AuditTarget::Log | AuditTarget::Off => None,
            AuditTarget::Stderr => Some(start(io::stderr())?),
            AuditTarget::File(path) => Some(start(AuditFile::open(path.clone(), reopen.clone())?)?),
        };
        let in_log = *target == AuditTarget::Log;
        Ok(Self { writer, reopen, in_log, ..Self::default() })
    }

    /// The layer that receives the events.
    pub(crate) fn layer(&self) -> AuditLayer {
        let Self { writer, limit, ring, changes, .. } = self.clone();
        AuditLayer { writer, limit, ring, changes }
    }

    /// The counters of changes.
    pub(crate) fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// The rate limit of lines caused by peers.
    pub(crate) const fn limit(&self) -> &LineLimit {
        &self.limit
    }

    /// The last lines.
    pub(crate) const fn ring(&self) -> &LogRing {
        &self.ring
    }

    /// Whether the log contains changes like other events.
    pub(crate) const fn is_in_log(&self) -> bool {
        self.in_log
    }

    /// Opens the file again before the next line, because it may have been renamed.
    pub(crate) fn reopen(&self) {
        self.reopen.request();
    }

    /// Waits until all lines so far are written, for a second at most.
    pub(crate) fn flush(&self) {
        if let Some(writer) = &self.writer {
            writer.flush();
        }
    }
}

/// Starts the thread that writes the audit log. Lines never wait for space, because an attempt without a valid credential
/// must not delay others.
fn start(target: impl Write + Send + 'static) -> io::Result<LineWriter> {
    LineWriter::start("audit", target, Duration::ZERO)
}

/// Passes events with [`TARGET`] to the writer.
pub(crate) struct AuditLayer {
    writer: Option<LineWriter>,
    limit: LineLimit,
    ring: LogRing,
    changes: Changes,
}

impl<S: Subscriber> Layer<S> for AuditLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.changes.note(event);
        let Some(writer) = &self.writer else { return };
        if self.limit.admits(event) {
            put(writer, &line::of(event));
            logging::keep(&self.ring, event);
        } else {
            writer.add_lost(1);
        }
    }
}

/// Adds a line, after one with the number of lines lost before, if any.
fn put(writer: &LineWriter, line: &str) {
    let lost = writer.take_lost();
    let before = if lost > 0 { format!("{{\"lost\":{lost}}}\n") } else { String::new() };
    if !writer.put((before + line).as_bytes()) {
        writer.add_lost(lost + 1);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn note(control: &AuditControl, operation: &str) {
        let subscriber = tracing_subscriber::registry().with(control.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: TARGET, protocol = "http", operation, entity = "a \"b\"", outcome = 201);
        });
        control.flush();
    }

    #[test]
    fn a_change_is_a_line_and_a_moved_file_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("audit.log"), directory.path().join("audit.log.1"));
        let control = AuditControl::open(&path.to_str().unwrap().parse().unwrap()).unwrap();
        note(&control, "create");
        fs::rename(&path, &moved).unwrap();
        note(&control, "update");
        control.reopen();
        note(&control, "delete");
        let operations = |path| {
            let text = fs::read_to_string(path).unwrap();
            let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
            let lines: Vec<_> = text.lines().map(read).collect();
            assert!(lines.iter().all(|line| line["entity"] == "a \"b\"" && line["outcome"] == 201));
            assert!(lines.iter().all(|line| line["time"].as_str().unwrap().ends_with('Z')));
            lines.iter().map(|line| line["operation"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(operations(&moved), ["create", "update"]);
        assert_eq!(operations(&path), ["delete"]);
    }

    #[test]
    fn a_file_that_can_not_be_opened_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(AuditControl::open(&AuditTarget::File(directory.path().to_owned())).is_err());
        assert!(AuditControl::open(&AuditTarget::Off).unwrap().writer.is_none());
    }
}
