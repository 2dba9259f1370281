//! Reads one TOML table key by key, with positions, ranges and advice.

use std::borrow::Cow;
use std::fs;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::names::{Names, Place};
use super::problem::Collector;
use super::sql::Wrong;
use super::{duration, size};

/// A table being read. Every key that is read becomes known; [`Self::finish`] reports the others.
pub(crate) struct Table<'a, 'i> {
    /// The table's name in messages: empty for the document, otherwise `[amqp] ` or the like.
    title: Cow<'static, str>,
    table: Option<&'a DeTable<'i>>,
    problems: &'a Collector<'i>,
    known: Vec<&'static str>,
    /// Keys that are refused with advice of their own.
    refused: Vec<&'static str>,
}

impl<'a, 'i> Table<'a, 'i> {
    /// Starts to read a table; a missing one has only defaults.
    pub(crate) fn new(
        title: impl Into<Cow<'static, str>>,
        table: Option<&'a DeTable<'i>>,
        problems: &'a Collector<'i>,
    ) -> Self {
        Self { title: title.into(), table, problems, known: Vec::new(), refused: Vec::new() }
    }

    /// The table's name in messages.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Renames the table in messages, once more is known about it.
    pub(crate) fn set_title(&mut self, title: String) {
        self.title = title.into();
    }

    /// The value of a key, which becomes known, and its position.
    pub(crate) fn value(&mut self, key: &'static str) -> Option<(&'a DeValue<'i>, Range<usize>)> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        self.find(key)
    }

    fn find(&self, key: &str) -> Option<(&'a DeValue<'i>, Range<usize>)> {
        let (_, value) = self.table?.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((value.get_ref(), value.span()))
    }

    /// Reads a key with a function that returns a value, or the rest of a sentence that starts with the key.
    pub(crate) fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&DeValue<'i>) -> Result<T, String>,
    ) -> Option<T> {
        let (value, span) = self.value(key)?;
        parse(value).map_err(|message| self.report(&span, key, &message)).ok()
    }

    /// A string.
    pub(crate) fn text<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read(key, |value| match value {
            DeValue::String(text) => parse(text),
            other => Err(mismatch("a text in quotes", other, key, example)),
        })
    }

    /// A string that messages never contain.
    pub(crate) fn secret<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read(key, |value| match value {
            DeValue::String(text) => parse(text),
            _ => Err(format!("expected a text in quotes; write {key} = \"…\"")),
        })
    }

    /// The value in the file at `path`, which a key names, or `None` with a report. `parse` returns it, or the rest of a
    /// sentence about it; messages never contain it.
    pub(crate) fn contents<T>(
        &mut self,
        key: &'static str,
        path: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (_, span) = self.value(key)?;
        match fs::read_to_string(path) {
            Ok(text) => {
                let wrong = |what| self.report(&span, key, &format!("the value in \"{path}\" {what}"));
                parse(&text).map_err(wrong).ok()
            }
            Err(error) => {
                let message = format!("{}{key}: \"{path}\" can't be read: {error}", self.title);
                self.problems.report_unreadable(&span, message, &error);
                None
            }
        }
    }

    /// A duration in milliseconds within a range.
    pub(crate) fn duration_ms(
        &mut self,
        key: &'static str,
        default_ms: u64,
        range_ms: &RangeInclusive<u64>,
    ) -> u64 {
        self.text(key, &format!("\"{}\"", duration::iso(default_ms)), |text| {
            duration::parse_in(text, range_ms)
        })
        .unwrap_or(default_ms)
    }

    /// A size in bytes within a range.
    pub(crate) fn size_bytes(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64 {
        self.text(key, &format!("\"{}\"", size::display(default)), |text| size::parse_in(text, range))
            .unwrap_or(default)
    }

    /// [`Self::size_bytes`], or `None` for "automatic" and for a missing key.
    pub(crate) fn size_bytes_or_automatic(
        &mut self,
        key: &'static str,
        example: &str,
        range: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let read = self.text(key, &format!("\"{example}\""), |text| match text {
            "automatic" => Ok(None),
            _ => size::parse_in(text, range).map(Some),
        });
        read.flatten()
    }

    /// An integer within a range.
    pub(crate) fn integer(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64 {
        self.read(key, |value| {
            let DeValue::Integer(number) = value else {
                return Err(mismatch("a whole number", value, key, &default.to_string()));
            };
            parse_integer(number).filter(|number| range.contains(number)).ok_or_else(|| {
                format!("{number} is outside the range from {} to {}", range.start(), range.end())
            })
        })
        .unwrap_or(default)
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        self.boolean_or_none(key, default).unwrap_or(default)
    }

    /// [`Self::boolean`], but `None` when the key is missing, so that another source can decide.
    pub(crate) fn boolean_or_none(&mut self, key: &'static str, example: bool) -> Option<bool> {
        self.read(key, |value| match value {
            DeValue::Boolean(flag) => Ok(*flag),
            other => Err(mismatch("true or false", other, key, &example.to_string())),
        })
    }

    /// A key that belongs in another table; `advice` names it.
    pub(crate) fn misplaced(&mut self, key: &'static str, advice: &str) {
        self.refused.push(key);
        if let Some((_, span)) = self.find(key) {
            self.report(&span, key, advice);
        }
    }

    /// Registers a name for a table inside this one; `false` for a duplicate, which is reported.
    pub(super) fn take_name(&self, names: &mut Names, kind: &'static str, name: &str, place: &Place) -> bool {
        names.take(&self.title, kind, name, place, self.problems)
    }

    /// A table inside this one that is written as a value; `None` when it is missing or no table, which is reported.
    pub(crate) fn table(&mut self, key: &'static str, title: String, example: &str) -> Option<Table<'a, 'i>> {
        match self.value(key)? {
            (DeValue::Table(table), _) => Some(Table::new(title, Some(table), self.problems)),
            (other, span) => {
                self.report(&span, key, &mismatch("a table", other, key, example));
                None
            }
        }
    }

    /// A section of the document.
    pub(crate) fn section(&mut self, key: &'static str) -> Table<'a, 'i> {
        let found = self.value(key);
        let table = found.and_then(|(value, span)| match value {
            DeValue::Table(table) => Some(table),
            _ => {
                self.problems
                    .report(&span, format!("`{key}` is a table; write [{key}] on a line of its own"));
                None
            }
        });
        Table::new(format!("[{key}] "), table, self.problems)
    }

    /// An array of tables inside this one, each with its position; `header` is the text in double brackets.
    pub(crate) fn array(&mut self, key: &'static str, header: &str) -> Vec<(Table<'a, 'i>, Range<usize>)> {
        let Some((value, span)) = self.value(key) else { return Vec::new() };
        let advice =
            || format!("`{key}` is a list of tables; write [[{header}]], in double brackets, before each");
        let DeValue::Array(items) = value else {
            self.problems.report(&span, advice());
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(items.len());
        for item in items {
            match item.get_ref() {
                DeValue::Table(table) => {
                    let title = format!("[[{header}]] ");
                    tables.push((Table::new(title, Some(table), self.problems), item.span()));
                }
                _ => self.problems.report(&item.span(), advice()),
            }
        }
        tables
    }

    /// Reports an error at a key's value.
    pub(crate) fn report(&self, span: &Range<usize>, key: &str, message: &str) {
        self.problems.report(span, format!("{}{key}: {message}", self.title));
    }

    /// Reports an error in the SQL of a key's value.
    pub(super) fn report_sql(&self, span: &Range<usize>, key: &str, wrong: &Wrong) {
        wrong.report(self.problems, span, &format!("{}{key}", self.title));
    }

    /// Reports every key that was not read.
    pub(crate) fn finish(self) {
        let names = self.table.into_iter().flatten().map(|(name, _)| name);
        for name in names {
            let text = name.get_ref().as_ref();
            if !self.known.contains(&text) && !self.refused.contains(&text) {
                self.report_unknown(name);
            }
        }
    }

    fn report_unknown(&self, name: &Spanned<Cow<'i, str>>) {
        let advice = match closest(name.get_ref(), self.known.iter().chain(&self.refused)) {
            Some(key) => format!("did you mean `{key}`?"),
            None => format!("known keys are {}", self.known.join(", ")),
        };
        self.problems
            .report(&name.span(), format!("{}unknown key `{}`; {advice}", self.title, name.get_ref()));
    }
}

/// The value of a TOML integer in any radix; `None` when negative or too large.
fn parse_integer(number: &toml::de::DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The known key that was probably meant: the same letters in another case style, or with a typing error.
pub(super) fn closest<'k>(name: &str, known: impl Iterator<Item = &'k &'static str>) -> Option<&'static str> {
    let letters = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let wanted = letters(name);
    let distance = |key: &&'static str| strsim::damerau_levenshtein(&wanted, &letters(key));
    let best = known.copied().min_by_key(distance)?;
    (distance(&best) <= wanted.len() / 3).then_some(best)
}

fn mismatch(expected: &str, found: &DeValue<'_>, key: &str, example: &str) -> String {
    format!("expected {expected}, found {}; write {key} = {example}", show(found))
}

/// A value in TOML's notation, for messages.
pub(super) fn show(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{text}\""),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(instant) => instant.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
