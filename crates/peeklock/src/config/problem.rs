//! Errors in a configuration, with their positions.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::ops::Range;

use serde::Serialize;

use super::within;
use crate::exit::Exit;

/// One error, with its position and a correction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// Column in the line, in characters, from 1.
    pub(crate) column: usize,
    /// What is wrong, and what to write instead.
    pub(crate) message: String,
}

/// All errors in one file, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problems {
    /// The file name as given by the user.
    pub(crate) file: String,
    /// The errors, at least one.
    pub(crate) list: Vec<Problem>,
    /// The exit code of a command that needs the file.
    pub(crate) exit: Exit,
}

impl Problems {
    /// Mistakes in the text.
    pub(crate) const fn mistakes(file: String, list: Vec<Problem>) -> Self {
        Self { file, list, exit: Exit::Usage }
    }

    /// An unreadable file counts as one error, in line 1.
    pub(crate) fn unreadable(file: String, error: &io::Error) -> Self {
        let message = format!("can't be read: {error}");
        Self {
            exit: Exit::of_file(error),
            ..Self::mistakes(file, vec![Problem { line: 1, column: 1, message }])
        }
    }

    /// All errors, each with file, line and column.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let line =
            |Problem { line, column, message }: &Problem| format!("{}:{line}:{column}: {message}", self.file);
        self.list.iter().map(line)
    }

    /// The number of errors as text: "1 mistake".
    pub(crate) fn count(&self) -> String {
        match self.list.len() {
            1 => "1 mistake".to_owned(),
            count => format!("{count} mistakes"),
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.lines().collect::<Vec<_>>().join("\n"))
    }
}

impl std::error::Error for Problems {}

/// Collects errors while a document is read, so that all of them are reported at once.
#[derive(Debug)]
pub(crate) struct Collector<'a> {
    text: &'a str,
    list: RefCell<Vec<Problem>>,
    /// How many of them may pass by themselves.
    passing: Cell<usize>,
}

impl<'a> Collector<'a> {
    /// A collector for a document's text.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, list: RefCell::default(), passing: Cell::default() }
    }

    /// Records an error at a span of bytes.
    pub(crate) fn report(&self, span: &Range<usize>, message: impl Into<String>) {
        let (line, column) = self.position(span.start);
        self.list.borrow_mut().push(Problem { line, column, message: message.into() });
    }

    /// Records that a file, which the text at a span of bytes names, can't be read.
    pub(crate) fn report_unreadable(
        &self,
        span: &Range<usize>,
        message: impl Into<String>,
        error: &io::Error,
    ) {
        self.report(span, message);
        self.passing.set(self.passing.get() + usize::from(Exit::of_file(error) == Exit::Failure));
    }

    /// The position of a character of a text that is written at a span of bytes; `None` where the notation leaves it
    /// open.
    pub(super) fn within(&self, span: &Range<usize>, character: usize) -> Option<Range<usize>> {
        within::place(self.text, span, character)
    }

    /// The line of a byte offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.position(offset).0
    }

    fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before.get(line_start..).map_or(0, |text| text.chars().count()) + 1;
        (line, column)
    }

    /// The collected errors, or `value` without errors.
    pub(crate) fn into_result<T>(self, file: &str, value: T) -> Result<T, Problems> {
        let passing = self.passing.get();
        let list = self.into_list();
        if list.is_empty() {
            return Ok(value);
        }
        let exit = if passing == list.len() { Exit::Failure } else { Exit::Usage };
        Err(Problems { exit, ..Problems::mistakes(file.to_owned(), list) })
    }

    /// The collected errors, in the order of the lines.
    pub(crate) fn into_list(self) -> Vec<Problem> {
        let mut list = self.list.into_inner();
        list.sort_by_key(|problem| (problem.line, problem.column));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_at_present_is_no_mistake_of_the_configuration() {
        let (enoent, eio, emfile) = (2, 5, 24);
        let exit = |errnos: &[i32], mistakes: usize| {
            let problems = Collector::new("");
            for errno in errnos {
                problems.report_unreadable(&(0..0), "unreadable", &io::Error::from_raw_os_error(*errno));
            }
            (0..mistakes).for_each(|_| problems.report(&(0..0), "a mistake"));
            problems.into_result("file", ()).unwrap_err().exit
        };
        assert_eq!(exit(&[eio, emfile], 0), Exit::Failure);
        assert_eq!(exit(&[eio, enoent], 0), Exit::Usage);
        assert_eq!(exit(&[eio], 1), Exit::Usage);
    }
}
