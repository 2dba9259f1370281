//! Names that must be unique, regardless of case.

use std::collections::HashMap;
use std::ops::Range;

use peeklock_engine::name_key;

use super::problem::Collector;

/// The position of something in the file, in bytes.
pub(super) type Place = Range<usize>;

/// The names declared so far in one namespace of the file.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<Box<str>, Seen>);

#[derive(Debug)]
struct Seen {
    kind: &'static str,
    name: String,
    /// Position in the file. Lines are counted only for an error message, because that takes time in proportion to the file.
    start: usize,
}

impl Names {
    /// Registers a name; `false` for a duplicate, which is reported. `title` starts the message, `kind` is the kind of
    /// the named thing.
    pub(super) fn take(
        &mut self,
        title: &str,
        kind: &'static str,
        name: &str,
        place: &Place,
        problems: &Collector<'_>,
    ) -> bool {
        if let Some(Seen { kind: first_kind, name: first, start }) = self.0.get(&name_key(name)) {
            let line = problems.line(*start);
            let of_other_kind = if *first_kind == kind { String::new() } else { format!("{first_kind} ") };
            let message = format!(
                "{title}{kind} \"{name}\" is already declared in line {line} as {of_other_kind}\"{first}\"; names match regardless of case"
            );
            problems.report(place, message);
            return false;
        }
        let seen = Seen { kind, name: name.to_owned(), start: place.start };
        self.0.insert(name_key(name), seen);
        true
    }
}
