//! The `Config.json` of Microsoft's Service Bus emulator, read with its syntax (JSON with comments), property names and
//! defaults (an hour to live, three deliveries), without its limits. It results in the same entities as a file in TOML.

mod entities;
mod object;
mod options;
mod rules;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};

use super::entity::Bounds;
use super::file::FileConfig;
use super::problem::{Collector, Problem, Problems};
use object::{Object, Reports, place};

/// The path of the file in the emulator's container.
pub(crate) const FILE_DEFAULT: &str = "/ServiceBus_Emulator/ConfigFiles/Config.json";

/// The configuration of a container that replaces the emulator and has no file: as in the emulator's own image, a queue
/// `queue.1` and a topic `topic.1`.
pub(super) const SAMPLE: &str = include_str!("../../../../../config/emulator-sample.json");
pub(super) const SAMPLE_NAME: &str = "config/emulator-sample.json (built in)";

/// The byte order mark.
pub(super) const MARK: &str = "\u{feff}";

/// Comments and trailing commas are accepted, as in the emulator; other extensions of JSON5 are not.
pub(super) const GRAMMAR: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads a file.
///
/// # Errors
/// [`Problems`] with every error; an unreadable file is an error in line 1.
pub(super) fn load(path: &Path, bounds: Bounds) -> Result<FileConfig, Problems> {
    let file = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => parse(&file, &text, bounds),
        Err(error) => Err(Problems::unreadable(file, &error)),
    }
}

/// Parses a file's text; `file` names it in messages.
///
/// # Errors
/// [`Problems`] with every error.
pub(super) fn parse(file: &str, text: &str, bounds: Bounds) -> Result<FileConfig, Problems> {
    // Editors on Windows write it at the start.
    let text = text.strip_prefix(MARK).unwrap_or(text);
    let reports = Reports { problems: Collector::new(text), notes: Collector::new(text) };
    let mut config = FileConfig { is_emulators: true, ..FileConfig::default() };
    match parse_to_ast(text, &CollectOptions::default(), &GRAMMAR) {
        Ok(document) => read(document.value.as_ref(), &reports, bounds, &mut config),
        Err(error) => {
            reports.problems.report(&place(&error.range()), format!("not JSON: {}", error.kind()));
        }
    }
    let Reports { problems, notes } = reports;
    config.notes = notes
        .into_list()
        .iter()
        .map(|Problem { line, column, message }| format!("{file}:{line}:{column}: {message}"))
        .collect();
    problems.into_result(file, config)
}

fn read(document: Option<&ast::Value<'_>>, reports: &Reports<'_>, bounds: Bounds, config: &mut FileConfig) {
    let Some(ast::Value::Object(document)) = document else {
        reports
            .problems
            .report(&(0..0), "expected an object with UserConfig; is this the emulator's Config.json?");
        return;
    };
    let mut root = Object::new(String::new(), Some(document), reports);
    match root.object("UserConfig", "UserConfig: ".to_owned()) {
        Some(user) => read_user(user, bounds, config),
        None if root.value("UserConfig").is_none() => {
            root.report(&root.place(), "UserConfig", "missing; is this the emulator's Config.json?");
        }
        None => {}
    }
    root.finish();
}

fn read_user(mut user: Object<'_, '_>, bounds: Bounds, config: &mut FileConfig) {
    let namespaces = user.list("Namespaces");
    match namespaces {
        None if user.value("Namespaces").is_none() => {
            user.report(
                &user.place(),
                "Namespaces",
                "missing; write \"Namespaces\": [ { \"Name\": \"sbemulatorns\" } ]",
            );
        }
        None => {}
        Some(namespaces) => {
            let mut namespaces = namespaces.into_iter();
            if let Some(first) = namespaces.next() {
                entities::read_namespace(first, bounds, config);
            }
            for other in namespaces {
                user.report(
                    &other.place(),
                    "Namespaces",
                    "only one namespace is supported; remove the others",
                );
            }
        }
    }
    // Both go where the process's log goes: to standard error, which containers collect.
    if let Some(mut logging) = user.object("Logging", "Logging: ".to_owned()) {
        let _ = logging.text("Type", "Console", |_| Ok(()));
        logging.finish();
    }
    user.finish();
}
