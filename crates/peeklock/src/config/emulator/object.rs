//! Reads one JSON object property by property, with positions, ranges and advice.

use std::ops::{Range, RangeInclusive};

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;

use crate::config::duration;
use crate::config::names::{Names, Place};
use crate::config::problem::Collector;
use crate::config::sql::Wrong;
use crate::config::table::closest;

/// Collects the errors and notes about one file.
pub(super) struct Reports<'i> {
    /// Errors that make the file unusable.
    pub(super) problems: Collector<'i>,
    /// Settings without effect: the emulator ignores unknown ones, too.
    pub(super) notes: Collector<'i>,
}

/// An object being read. Every property that is read becomes known; [`Self::finish`] notes the others. Names are
/// case-insensitive, and `null` counts as missing.
pub(super) struct Object<'a, 'i> {
    /// The object's name in messages; ends with `: ` unless it is empty.
    title: String,
    object: Option<&'a ast::Object<'i>>,
    reports: &'a Reports<'i>,
    known: Vec<&'static str>,
}

impl<'a, 'i> Object<'a, 'i> {
    /// Starts to read an object; a missing one has no properties.
    pub(super) fn new(title: String, object: Option<&'a ast::Object<'i>>, reports: &'a Reports<'i>) -> Self {
        Self { title, object, reports, known: Vec::new() }
    }

    /// An object that the file does not contain, beside this one.
    pub(super) fn missing(&self, title: String) -> Self {
        Self::new(title, None, self.reports)
    }

    /// The object's name in messages.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Renames the object in messages, once more is known about it.
    pub(super) fn set_title(&mut self, title: String) {
        self.title = title;
    }

    /// The position of the object; the file's start if it is missing.
    pub(super) fn place(&self) -> Place {
        self.object.map_or(0..0, place)
    }

    /// The value of a property, which becomes known. A duplicate is reported.
    pub(super) fn value(&mut self, key: &'static str) -> Option<&'a ast::Value<'i>> {
        let is_new = !self.known.contains(&key);
        if is_new {
            self.known.push(key);
        }
        let mut found =
            self.object?.properties.iter().filter(|one| one.name.as_str().eq_ignore_ascii_case(key));
        let first = found.next()?;
        if let (true, Some(second)) = (is_new, found.next()) {
            self.report(&place(&second.name), key, "occurs twice; remove one");
        }
        (!matches!(first.value, ast::Value::NullKeyword(_))).then_some(&first.value)
    }

    /// Reads a property with a function that returns a value, or the rest of a sentence that starts with the property.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'a ast::Value<'i>) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(key)?;
        parse(value).map_err(|message| self.report(&place(value), key, &message)).ok()
    }

    /// A string.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        example: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.read(key, |value| match value {
            ast::Value::StringLit(text) => parse(&text.value),
            other => Err(mismatch("a text in quotes", other, key, &format!("\"{example}\""))),
        })
    }

    /// A duration in milliseconds within a range.
    pub(super) fn duration_ms(
        &mut self,
        key: &'static str,
        default_ms: u64,
        range_ms: &RangeInclusive<u64>,
    ) -> u64 {
        let parse = |text: &str| duration::parse_in(text, range_ms);
        self.text(key, &duration::iso(default_ms), parse).unwrap_or(default_ms)
    }

    /// An integer within a range, also in quotes.
    pub(super) fn integer(&mut self, key: &'static str, default: u64, range: &RangeInclusive<u64>) -> u64 {
        self.read(key, |value| {
            let number =
                number(value).ok_or_else(|| mismatch("a whole number", value, key, &default.to_string()))?;
            number.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                let (least, most) = (range.start(), range.end());
                format!("{number} is not a whole number from {least} to {most}")
            })
        })
        .unwrap_or(default)
    }

    /// `true` or `false`, also in quotes and with capitals.
    pub(super) fn boolean(&mut self, key: &'static str, default: bool) -> bool {
        self.read(key, |value| match value {
            ast::Value::BooleanLit(flag) => Ok(flag.value),
            ast::Value::StringLit(text) if text.value.eq_ignore_ascii_case("true") => Ok(true),
            ast::Value::StringLit(text) if text.value.eq_ignore_ascii_case("false") => Ok(false),
            other => Err(mismatch("true or false", other, key, &default.to_string())),
        })
        .unwrap_or(default)
    }

    /// An object inside this one; `None` when it is missing or something else, which is reported.
    pub(super) fn object(&mut self, key: &'static str, title: String) -> Option<Object<'a, 'i>> {
        let object = self.read(key, |value| match value {
            ast::Value::Object(object) => Ok(object),
            other => Err(mismatch("an object", other, key, "{ ... }")),
        })?;
        Some(Object::new(title, Some(object), self.reports))
    }

    /// The objects of a list inside this one, each called by its `Name` if it has one; `None` when there is no list.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Vec<Object<'a, 'i>>> {
        let list = self.read(key, |value| match value {
            ast::Value::Array(list) => Ok(list),
            other => Err(mismatch("a list", other, key, "[ { ... } ]")),
        })?;
        let mut objects = Vec::with_capacity(list.elements.len());
        for element in &list.elements {
            match element {
                ast::Value::Object(object) => {
                    let title = format!("{}{key}: ", self.title);
                    objects.push(Object::new(title, Some(object), self.reports));
                }
                other => {
                    let message =
                        format!("holds objects, found {}; write [ {{ \"Name\": ... }} ]", show(other));
                    self.report(&place(other), key, &message);
                }
            }
        }
        Some(objects)
    }

    /// The object's `Name` and its position; `None` when it is missing or invalid, which is reported.
    pub(super) fn name(&mut self, check: fn(&str) -> Result<(), String>) -> Option<(String, Place)> {
        let Some(value) = self.value("Name") else {
            self.report(&self.place(), "Name", "missing; write \"Name\": \"orders\" or the like");
            return None;
        };
        let name = self.text("Name", "orders", |name| check(name).map(|()| name.to_owned()))?;
        Some((name, place(value)))
    }

    /// Registers a name for an object inside this one; `false` for a duplicate, which is reported.
    pub(super) fn take_name(&self, names: &mut Names, kind: &'static str, name: &str, place: &Place) -> bool {
        names.take(&self.title, kind, name, place, &self.reports.problems)
    }

    /// Notes that a property has no effect here.
    pub(super) fn ignored(&mut self, key: &'static str, why: &str) {
        if let Some(value) = self.value(key) {
            self.note(&place(value), &format!("{key}: {why}"));
        }
    }

    /// Reports an error at a property's value.
    pub(super) fn report(&self, place: &Range<usize>, key: &str, message: &str) {
        self.reports.problems.report(place, format!("{}{key}: {message}", self.title));
    }

    /// Reports an error in the SQL of a property's value.
    pub(super) fn report_sql(&self, place: &Range<usize>, key: &str, wrong: &Wrong) {
        wrong.report(&self.reports.problems, place, &format!("{}{key}", self.title));
    }

    fn note(&self, place: &Range<usize>, message: &str) {
        self.reports.notes.report(place, format!("{}{message}", self.title));
    }

    /// Notes every property that was not read.
    pub(super) fn finish(self) {
        for property in self.object.into_iter().flat_map(|object| &object.properties) {
            let name = property.name.as_str();
            if self.known.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                continue;
            }
            let advice = closest(name, self.known.iter())
                .map_or_else(String::new, |known| format!("; did you mean {known}?"));
            self.note(&place(&property.name), &format!("{name} is unknown and has no effect{advice}"));
        }
    }
}

/// The digits of a number. The emulator reads its file by .NET's configuration builder, for which every value is text, so
/// quotes make no difference.
fn number<'v>(value: &'v ast::Value<'_>) -> Option<&'v str> {
    match value {
        ast::Value::NumberLit(number) => Some(number.value),
        ast::Value::StringLit(text) => Some(&*text.value).filter(|text| text.parse::<i64>().is_ok()),
        _ => None,
    }
}

/// The position of a value in the file.
pub(super) fn place(value: &impl Ranged) -> Place {
    let range = value.range();
    range.start..range.end
}

/// The message for a value of the wrong type, with an example.
pub(super) fn mismatch(expected: &str, found: &ast::Value<'_>, key: &str, example: &str) -> String {
    format!("expected {expected}, found {}; write \"{key}\": {example}", show(found))
}

/// A value in JSON's notation, for messages.
fn show(value: &ast::Value<'_>) -> String {
    match value {
        ast::Value::StringLit(text) => format!("\"{}\"", text.value),
        ast::Value::NumberLit(number) => number.value.to_owned(),
        ast::Value::BooleanLit(flag) => flag.value.to_string(),
        ast::Value::NullKeyword(_) => "null".to_owned(),
        ast::Value::Array(_) => "a list".to_owned(),
        ast::Value::Object(_) => "an object".to_owned(),
    }
}
