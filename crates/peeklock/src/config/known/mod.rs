//! What can be known about a configuration without starting, beyond the meaning of each value: values that are refused
//! together, files that it names, how many entities it declares, and where its messages are forwarded.

mod counts;
mod files;
mod forwarding;
mod place;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;

use super::problem::{Collector, Problem};
use super::{Config, FileConfig, ServeArgs, StorageEngine, emulator};
use place::{Document, Step};

/// The findings, each with its position.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Errors that a start would refuse.
    pub(crate) problems: Vec<Problem>,
    /// Settings that a start accepts but are probably not intended, or that are wrong unless an undeclared entity is
    /// stored.
    pub(crate) notes: Vec<Problem>,
}

/// What is checked beside the text of the file.
#[derive(Debug, Clone)]
pub(crate) enum Reach {
    /// Nothing: for a file that is meant for another machine.
    Text,
    /// The files that it names, whether the store has entities, and these variables, as at a start on this machine.
    Machine(Box<ServeArgs>),
}

/// Checks a file that was parsed without errors from `text`.
pub(crate) fn examine(file: &FileConfig, text: &str, reach: &Reach) -> Findings {
    let text = text.strip_prefix(emulator::MARK).unwrap_or(text);
    let args = match reach {
        Reach::Text => ServeArgs::default(),
        Reach::Machine(args) => (**args).clone(),
    };
    let report = Report {
        document: Document::new(text, file.is_emulators),
        problems: Collector::new(text),
        notes: Collector::new(text),
    };
    let config = Config::merge(args.clone(), file.clone(), false);
    if let Err(error) = &config {
        for line in error.to_string().lines() {
            report.problem(keys_of(line), line);
        }
    }
    let mut is_stored = true;
    if let Reach::Machine(_) = reach {
        let data_dir = args.data_dir.as_deref().or(file.data_dir.as_deref());
        let data_dir = data_dir.unwrap_or(Path::new(super::DATA_DIR_DEFAULT));
        files::check(file, data_dir, &report);
        let is_replicated =
            config.as_ref().is_ok_and(|config| config.storage.engine == StorageEngine::Postgres);
        is_stored = is_replicated || files::is_store(data_dir);
    }
    if let Ok(config) = &config {
        counts::check(config, is_stored, &report);
    }
    forwarding::check(file, &args, is_stored, &report);
    Findings { problems: report.problems.into_list(), notes: report.notes.into_list() }
}

/// The positions of values that are refused together, which the message names.
fn keys_of(message: &str) -> &'static [Step<'static>] {
    const KEYS: [(&str, &[Step<'static>]); 6] = [
        ("AMQP listens", &[Step::Key("amqp"), Step::Key("listen")]),
        ("HTTP listens", &[Step::Key("http"), Step::Key("listen")]),
        ("also_listen listens", &[Step::Key("network"), Step::Key("also_listen")]),
        ("storage.url is missing", &[Step::Key("storage"), Step::Key("engine")]),
        ("tls.key is missing", &[Step::Key("tls"), Step::Key("certificate")]),
        ("tls.certificate is missing", &[Step::Key("tls"), Step::Key("key")]),
    ];
    KEYS.iter().find(|(start, _)| message.starts_with(start)).map_or(&[], |(_, keys)| keys)
}

/// Collects findings.
struct Report<'a> {
    document: Document<'a>,
    problems: Collector<'a>,
    notes: Collector<'a>,
}

impl Report<'_> {
    fn problem(&self, steps: &[Step<'_>], message: impl Into<String>) {
        self.problems.report(&self.place(steps), message);
    }

    fn note(&self, steps: &[Step<'_>], message: impl Into<String>) {
        self.notes.report(&self.place(steps), message);
    }

    /// The position of a value; for one set by a variable, the start of the file.
    fn place(&self, steps: &[Step<'_>]) -> Range<usize> {
        self.document.place(steps).unwrap_or(0..0)
    }
}
