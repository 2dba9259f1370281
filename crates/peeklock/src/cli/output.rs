//! Output: results on standard output, messages on standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;

use serde::Serialize;

use crate::exit::Exit;

/// The first error of standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// Prints a line of a result.
pub(crate) fn line(text: impl Display) {
    keep(writeln!(io::stdout(), "{text}"));
}

/// Prints a result that includes its final line break.
pub(crate) fn text(text: impl Display) {
    keep(write!(io::stdout(), "{text}").and_then(|()| io::stdout().flush()));
}

fn keep(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = FAILED.set(error);
    }
}

/// Why a result could not be printed, if that happened: a command that would act on what was printed, or go on printing,
/// ends.
pub(crate) fn failed() -> Option<&'static io::Error> {
    FAILED.get()
}

/// The exit code of a command that ends with `exit`: a result that could not be printed is a failure, unless its reader
/// wanted no more (`| head`).
pub(crate) fn exit_code(exit: Exit) -> Exit {
    match failed() {
        Some(failure) if exit == Exit::Success && failure.kind() != io::ErrorKind::BrokenPipe => {
            error(format!("standard output can't be written: {failure}"));
            Exit::Failure
        }
        _ => exit,
    }
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
