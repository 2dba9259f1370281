//! The page as data, for export in another format. Parsed from the text, so that both always agree.

use std::collections::BTreeMap;

use crate::{Kind, Unit, Value};

/// A family at one point in time.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadFamily {
    /// The OpenMetrics name: with the unit, for a counter without `_total`.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
    /// The unit of its values.
    pub unit: Unit,
    /// One sentence of help text.
    pub help: String,
    /// Its series, in the order of the page.
    pub series: Vec<Series>,
}

/// One series of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Names and values of its labels.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub reading: Reading,
}

/// The value of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A number.
    Number(Value),
    /// A distribution.
    Distribution(Distribution),
}

/// A distribution.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Distribution {
    /// Upper bounds of all buckets but the last, in order.
    pub bounds: Vec<f64>,
    /// Number of events in each bucket (not cumulative); one more than bounds.
    pub counts: Vec<u64>,
    /// Sum of all values.
    pub sum: f64,
}

/// Parses a page written by [`crate::Metrics::text`]. Lines in other formats are ignored.
pub(crate) fn read(text: &str) -> Vec<ReadFamily> {
    let mut families = Vec::new();
    let mut open: Option<OpenFamily> = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            families.extend(open.take().map(OpenFamily::close));
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            open = Some(OpenFamily::new(name, help));
        } else if let Some(open) = &mut open {
            open.line(line);
        }
    }
    families.extend(open.map(OpenFamily::close));
    families
}

/// A family being parsed.
struct OpenFamily {
    family: ReadFamily,
    /// Indices of a histogram's series, by their labels.
    positions: BTreeMap<Vec<(String, String)>, usize>,
}

impl OpenFamily {
    fn new(name: &str, help: &str) -> Self {
        let family = ReadFamily {
            name: name.to_owned(),
            kind: Kind::Gauge,
            unit: Unit::None,
            help: help.to_owned(),
            series: Vec::new(),
        };
        Self { family, positions: BTreeMap::new() }
    }

    fn line(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            self.family.kind = match rest.rsplit_once(' ').map(|(_, kind)| kind) {
                Some("counter") => Kind::Counter,
                Some("histogram") => Kind::Histogram,
                _ => Kind::Gauge,
            };
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            self.family.unit = match rest.rsplit_once(' ').map(|(_, unit)| unit) {
                Some("bytes") => Unit::Bytes,
                Some("seconds") => Unit::Seconds,
                _ => Unit::None,
            };
        } else if let Some((name, labels, value)) = sample(line) {
            self.sample(name, labels, value);
        }
    }

    fn sample(&mut self, name: &str, mut labels: Vec<(String, String)>, value: Value) {
        if self.family.kind != Kind::Histogram {
            return self.family.series.push(Series { labels, reading: Reading::Number(value) });
        }
        let part = name.strip_prefix(&self.family.name).unwrap_or_default();
        let bound = labels.pop_if(|(label, _)| part == "_bucket" && label == "le");
        let Some(distribution) = self.distribution(labels) else { return };
        match (part, bound, value) {
            ("_bucket", Some((_, bound)), Value::Integer(below)) => {
                let before: u64 = distribution.counts.iter().sum();
                distribution.counts.push(below.saturating_sub(before));
                distribution.bounds.extend(bound.parse().ok().filter(|bound: &f64| bound.is_finite()));
            }
            ("_sum", _, value) => distribution.sum = value.as_f64(),
            _ => {}
        }
    }

    fn distribution(&mut self, labels: Vec<(String, String)>) -> Option<&mut Distribution> {
        let series = &mut self.family.series;
        let position = *self.positions.entry(labels.clone()).or_insert_with(|| {
            series.push(Series { labels, reading: Reading::Distribution(Distribution::default()) });
            series.len() - 1
        });
        match series.get_mut(position).map(|series| &mut series.reading) {
            Some(Reading::Distribution(distribution)) => Some(distribution),
            _ => None,
        }
    }

    fn close(self) -> ReadFamily {
        self.family
    }
}

type Labels = Vec<(String, String)>;

/// Name, labels and value of a line.
fn sample(line: &str) -> Option<(&str, Labels, Value)> {
    if line.starts_with('#') {
        return None;
    }
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.trim();
    let value = match value.parse() {
        Ok(value) => Value::Integer(value),
        Err(_) => Value::Float(value.parse().ok()?),
    };
    Some((name, labels, value))
}

/// Labels up to the closing brace, and the rest of the line after it.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, value) = rest.strip_prefix(',').unwrap_or(rest).split_once("=\"")?;
        let mut text = String::new();
        let mut characters = value.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => match characters.next()? {
                    'n' => text.push('\n'),
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        labels.push((name.to_owned(), text));
        rest = characters.as_str();
    }
}
