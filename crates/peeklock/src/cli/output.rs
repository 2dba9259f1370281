//! Output: results on standard output, messages on standard error.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

/// Prints a line of a result.
pub(crate) fn line(text: impl Display) {
    // A reader that ended (`| head`) is no failure of the command.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints a result that includes its final line break.
pub(crate) fn text(text: impl Display) {
    let _ = write!(io::stdout(), "{text}");
}

/// Prints a result as one JSON document.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(text),
        Err(failure) => error(failure),
    }
}

/// Prints why the command failed.
pub(crate) fn error(message: impl Display) {
    let _ = writeln!(io::stderr(), "error: {message}");
}

/// Prints a note that does not affect the exit code.
pub(crate) fn note(message: impl Display) {
    let _ = writeln!(io::stderr(), "note: {message}");
}

/// Prints a result as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(text),
        Err(failure) => error(failure),
    }
}
