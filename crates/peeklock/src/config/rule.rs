//! `[[topics.subscriptions.rules]]`: which messages of a topic a subscription gets.

use std::borrow::Cow;

use jiff::Timestamp;
use peeklock_engine::{CorrelationFilter, FactValue, Filter, Rule};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use super::entity;
use super::names::Place;
use super::table::{Table, show};

/// The keys of which a rule has exactly one.
const KINDS: [&str; 3] = ["filter", "sql", "correlation"];
const CORRELATION_EXAMPLE: &str = "{ label = \"order\", properties = { region = \"eu\" } }";

/// Reads one table, and the place of the rule's name; `None` when it gives no rule, which has been reported then.
/// `owner` starts messages and names the subscription.
pub(super) fn read(mut table: Table<'_, '_>, place: &Place, owner: &str) -> Option<(Rule, Place)> {
    let name = entity::read_name(&mut table, place, "\"orders\"", entity::check_rule_name);
    if let Some((name, _)) = &name {
        let subscription = owner.trim_end_matches(": ");
        table.set_title(format!("{subscription}, rule \"{name}\": "));
    }
    let filter = read_filter(&mut table, place);
    table.unsupported("action", "");
    table.finish();
    let (name, place) = name?;
    let created_at = peeklock_engine::Timestamp::default();
    Some((Rule { name: name.into(), filter: filter?, action: None, created_at }, place))
}

fn read_filter(table: &mut Table<'_, '_>, place: &Place) -> Option<Filter> {
    let known = table.text("filter", "\"true\"", |text| match text {
        "true" => Ok(Filter::True),
        "false" => Ok(Filter::False),
        _ => Err(format!(
            "\"{text}\" is no filter; write \"true\" or \"false\", or correlation = {{ ... }} instead"
        )),
    });
    let sql = table.text("sql", "\"1=1\"", read_sql);
    let correlation = read_correlation(table);
    let mut places = KINDS.into_iter().filter_map(|key| Some((key, table.value(key)?.1))).collect::<Vec<_>>();
    places.sort_by_key(|(_, span)| span.start);
    match places.as_slice() {
        [] => {
            let advice = format!(
                "missing; write filter = \"true\", sql = \"1=1\" or correlation = {CORRELATION_EXAMPLE}"
            );
            table.report(place, "filter", &advice);
        }
        [_] => {}
        [(first, _), (second, span), ..] => {
            let advice =
                format!("a rule has exactly one of filter, sql and correlation; remove this or {first}");
            table.report(span, second, &advice);
            return None;
        }
    }
    known.or(sql).or(correlation)
}

/// A filter in SQL.
///
/// # Errors
/// A message that ends a sentence about the expression.
pub(super) fn read_sql(text: &str) -> Result<Filter, String> {
    let expression: String = text.chars().filter(|char| !char.is_whitespace()).collect();
    match expression.as_str() {
        "1=1" => Ok(Filter::True),
        "1=0" => Ok(Filter::False),
        _ => Err("SQL filters are not supported yet; write a correlation filter".to_owned()),
    }
}

fn read_correlation(rule: &mut Table<'_, '_>) -> Option<Filter> {
    let (value, span) = rule.value("correlation")?;
    let title = format!("{}correlation: ", rule.title());
    let mut table = rule.table("correlation", title, CORRELATION_EXAMPLE)?;
    let label = text(&mut table, "label");
    let subject = text(&mut table, "subject");
    if let (Some(_), Some(_), Some((_, span))) = (&label, &subject, table.value("subject")) {
        table.report(&span, "subject", "another word for label; remove one of the two");
    }
    let filter = CorrelationFilter {
        correlation_id: text(&mut table, "correlation_id"),
        message_id: text(&mut table, "message_id"),
        to: text(&mut table, "to"),
        reply_to: text(&mut table, "reply_to"),
        label: label.or(subject),
        session_id: text(&mut table, "session_id"),
        reply_to_session_id: text(&mut table, "reply_to_session_id"),
        content_type: text(&mut table, "content_type"),
        user: read_properties(&mut table),
    };
    table.finish();
    if sets_nothing(value) {
        let advice = format!(
            "sets nothing to compare; write correlation = {CORRELATION_EXAMPLE}, or filter = \"true\" for every message"
        );
        rule.report(&span, "correlation", &advice);
        return None;
    }
    Some(Filter::Correlation(Box::new(filter)))
}

fn text(table: &mut Table<'_, '_>, key: &'static str) -> Option<Box<str>> {
    table.text(key, "\"order\"", |text| Ok(text.into()))
}

/// Whether there is no field, not even a wrong one, which is reported on its own.
fn sets_nothing(correlation: &DeValue<'_>) -> bool {
    let is_empty = |value: &DeValue<'_>| value.as_table().is_some_and(DeTable::is_empty);
    let DeValue::Table(fields) = correlation else { return false };
    fields.iter().all(|(key, value)| key.get_ref() == "properties" && is_empty(value.get_ref()))
}

/// Application properties by name; names match regardless of case.
fn read_properties(table: &mut Table<'_, '_>) -> Vec<(Box<str>, FactValue)> {
    let Some((_, span)) = table.value("properties") else { return Vec::new() };
    let Some(fields) = table.read("properties", |value| match value {
        DeValue::Table(fields) => Ok(fields.iter().map(read_property).collect::<Vec<_>>()),
        other => {
            Err(format!("expected a table, found {}; write properties = {{ region = \"eu\" }}", show(other)))
        }
    }) else {
        return Vec::new();
    };
    let mut properties: Vec<(Box<str>, FactValue)> = Vec::with_capacity(fields.len());
    for (name, place, value) in fields {
        let same = properties.iter().find(|(earlier, _)| earlier.eq_ignore_ascii_case(&name));
        match (value, same) {
            _ if name.is_empty() => table.report(&span, "properties", "a property has an empty name"),
            (Ok(_), Some((same, _))) => {
                let message = format!("\"{same}\" and \"{name}\" are the same property; remove one");
                table.report(&place, "properties", &message);
            }
            (Ok(value), None) => properties.push((name, value)),
            (Err(message), _) => table.report(&place, &format!("properties.{name}"), &message),
        }
    }
    properties
}

type Field = (Box<str>, Place, Result<FactValue, String>);

fn read_property((name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)) -> Field {
    (name.get_ref().as_ref().into(), value.span(), read_value(value.get_ref()))
}

fn read_value(value: &DeValue<'_>) -> Result<FactValue, String> {
    match value {
        DeValue::String(text) => Ok(FactValue::Text(text.as_ref().into())),
        DeValue::Boolean(flag) => Ok(FactValue::Boolean(*flag)),
        DeValue::Integer(number) => read_integer(number),
        DeValue::Float(number) => read_float(number),
        // An AMQP timestamp counts milliseconds.
        DeValue::Datetime(instant) => match instant.to_string().parse::<Timestamp>() {
            Ok(instant) => Ok(FactValue::Timestamp(instant.as_millisecond())),
            Err(_) => Err(format!(
                "{instant} is no instant; write date, time and offset, such as 2026-01-31T12:00:00Z"
            )),
        },
        DeValue::Array(_) | DeValue::Table(_) => {
            Err(format!("expected a text, number, boolean or date-time, found {}", show(value)))
        }
    }
}

fn read_integer(number: &DeInteger<'_>) -> Result<FactValue, String> {
    let (digits, radix) = (number.as_str(), number.radix());
    i64::from_str_radix(digits, radix)
        .map(FactValue::Integer)
        .or_else(|_| u64::from_str_radix(digits, radix).map(FactValue::Unsigned))
        .map_err(|_| format!("{number} does not fit into 64 bits"))
}

fn read_float(number: &DeFloat<'_>) -> Result<FactValue, String> {
    match number.as_str().parse::<f64>() {
        Ok(value) if !value.is_nan() => Ok(FactValue::Double(value)),
        _ => Err(format!("{number} equals no value; write a number")),
    }
}
