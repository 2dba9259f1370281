//! Finds the position of a value in a file by its path.

use std::borrow::Cow;
use std::ops::Range;

use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ast, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::emulator;

/// One step down from the root.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    /// To the value of a key in a table or object; case-insensitive in the emulator's file.
    Key(&'a str),
    /// To an element of a list, from 0.
    Index(usize),
}

/// A file's text that was parsed without errors before.
pub(super) struct Document<'a> {
    text: &'a str,
    is_json: bool,
}

impl<'a> Document<'a> {
    /// A document in TOML, or in the emulator's JSON.
    pub(super) const fn new(text: &'a str, is_json: bool) -> Self {
        Self { text, is_json }
    }

    /// The position of the value in bytes; `None` where the file has none.
    pub(super) fn place(&self, steps: &[Step<'_>]) -> Option<Range<usize>> {
        if self.is_json { in_json(self.text, steps) } else { in_toml(self.text, steps) }
    }
}

fn in_toml(text: &str, steps: &[Step<'_>]) -> Option<Range<usize>> {
    fn find<'t, 'i>(table: &'t DeTable<'i>, key: &str) -> Option<&'t Spanned<DeValue<'i>>> {
        let is_key = |name: &Spanned<Cow<'i, str>>| name.get_ref() == key;
        table.iter().find_map(|(name, value)| is_key(name).then_some(value))
    }
    let (document, _) = DeTable::parse_recoverable(text);
    let mut found: Option<&Spanned<DeValue<'_>>> = None;
    for step in steps {
        found = Some(match (step, found.map(Spanned::get_ref)) {
            (Step::Key(key), None) => find(document.get_ref(), key)?,
            (Step::Key(key), Some(DeValue::Table(table))) => find(table, key)?,
            (Step::Index(index), Some(DeValue::Array(list))) => list.get(*index)?,
            _ => return None,
        });
    }
    found.map(Spanned::span)
}

fn in_json(text: &str, steps: &[Step<'_>]) -> Option<Range<usize>> {
    let document = parse_to_ast(text, &CollectOptions::default(), &emulator::GRAMMAR).ok()?;
    let mut found = document.value.as_ref()?;
    for step in steps {
        found = match (step, found) {
            (Step::Key(key), ast::Value::Object(object)) => {
                let mut properties = object.properties.iter();
                &properties.find(|one| one.name.as_str().eq_ignore_ascii_case(key))?.value
            }
            (Step::Index(index), ast::Value::Array(list)) => list.elements.get(*index)?,
            _ => return None,
        };
    }
    let range = found.range();
    Some(range.start..range.end)
}
