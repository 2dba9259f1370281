//! Rules of a subscription.

use jsonc_parser::ast;
use peeklock_engine::{CorrelationFilter, Filter, PropertyValue, Rule, RuleLimits, SqlAction, Timestamp};

use super::object::{Object, mismatch, place};
use crate::config::entity::check_rule_name;
use crate::config::names::{Names, Place};
use crate::config::sql::{self, Wrong};

/// The fields that a correlation filter compares.
const FIELDS: [&str; 11] = [
    "ContentType",
    "CorrelationId",
    "Label",
    "MessageId",
    "Properties",
    "ReplyTo",
    "ReplyToSessionId",
    "SendTo",
    "SessionId",
    "Subject",
    "To",
];

/// The rules of a subscription; by default the one that matches every message. An empty list means the default too:
/// .NET Aspire writes one for each subscription without rules.
pub(super) fn read(subscription: &mut Object<'_, '_>, limits: &RuleLimits) -> Vec<Rule> {
    let list = subscription.list("Rules").unwrap_or_default();
    if list.is_empty() {
        return vec![Rule::default_rule()];
    }
    let mut names = Names::default();
    let mut rules = Vec::new();
    for object in list {
        let owner = subscription.title().trim_end_matches(": ").to_owned();
        let Some((rule, place)) = read_rule(object, &owner, limits) else { continue };
        if subscription.take_name(&mut names, "rule", &rule.name, &place) {
            rules.push(rule);
        }
    }
    rules
}

fn read_rule(mut rule: Object<'_, '_>, owner: &str, limits: &RuleLimits) -> Option<(Rule, Place)> {
    let name = rule.name(check_rule_name);
    if let Some((name, _)) = &name {
        rule.set_title(format!("{owner}, rule \"{name}\": "));
    }
    let title = rule.title().to_owned();
    let Some(mut properties) = rule.object("Properties", title) else {
        if rule.value("Properties").is_none() {
            rule.report(
                &rule.place(),
                "Properties",
                "missing; write \"Properties\": { \"FilterType\": ... }",
            );
        }
        return None;
    };
    let filter = read_filter(&mut properties, limits);
    let action = read_action(&mut properties, limits);
    properties.finish();
    rule.finish();
    let (name, place) = name?;
    Some((Rule { name: name.into(), filter: filter?, action, created_at: Timestamp::default() }, place))
}

/// Whether `FilterType` selects the correlation filter: by its name, or by the number that the emulator's log shows.
fn selects_correlation(value: &ast::Value<'_>) -> Result<bool, String> {
    let kind = match value {
        ast::Value::StringLit(text) => &*text.value,
        ast::Value::NumberLit(number) => number.value,
        other => return Err(mismatch("a text in quotes", other, "FilterType", "\"Correlation\"")),
    };
    match kind.to_ascii_lowercase().as_str() {
        "correlation" | "correlationfilter" | "0" => Ok(true),
        "sql" | "sqlfilter" | "1" => Ok(false),
        _ => Err(format!("\"{kind}\" is not a filter; write \"Correlation\" or \"Sql\"")),
    }
}

/// The filter of a rule, selected by `FilterType`, otherwise by the properties present.
fn read_filter(properties: &mut Object<'_, '_>, limits: &RuleLimits) -> Option<Filter> {
    let kind = properties.read("FilterType", selects_correlation);
    let has_wrong_kind = kind.is_none() && properties.value("FilterType").is_some();
    let (correlation, sql) = (read_correlation(properties), read_sql_filter(properties, limits));
    let (has_correlation, has_sql) =
        (properties.value("CorrelationFilter").is_some(), properties.value("SqlFilter").is_some());
    let (key, is_there, filter) = match kind {
        _ if has_wrong_kind => return None,
        Some(true) => ("CorrelationFilter", has_correlation, correlation),
        Some(false) => ("SqlFilter", has_sql, sql),
        None if has_sql && !has_correlation => ("SqlFilter", true, sql),
        None => ("CorrelationFilter", has_correlation, correlation),
    };
    if !is_there {
        let message = "missing; write \"CorrelationFilter\": { \"Label\": \"order\" } or \
                       \"SqlFilter\": { \"SqlExpression\": \"amount > 5\" }, and \"FilterType\" to match";
        properties.report(&properties.place(), key, message);
    }
    filter
}

fn read_sql_filter(properties: &mut Object<'_, '_>, limits: &RuleLimits) -> Option<Filter> {
    let title = format!("{}SqlFilter: ", properties.title());
    let mut object = properties.object("SqlFilter", title)?;
    let filter = read_sql(&mut object, "amount > 5", |text| sql::filter(text, Vec::new(), limits));
    if object.value("SqlExpression").is_none() {
        object.report(&object.place(), "SqlExpression", "missing; write \"SqlExpression\": \"amount > 5\"");
    }
    without_effect(&mut object);
    object.finish();
    filter
}

/// Reads the action; an empty one means none.
fn read_action(properties: &mut Object<'_, '_>, limits: &RuleLimits) -> Option<SqlAction> {
    let title = format!("{}Action: ", properties.title());
    let mut object = properties.object("Action", title)?;
    let action = read_sql(&mut object, "SET priority = 'high'", |text| match text.trim() {
        "" => Ok(None),
        _ => sql::action(text, Vec::new(), limits).map(Some),
    });
    without_effect(&mut object);
    object.finish();
    action.flatten()
}

/// Parses an expression; errors are reported at their positions.
fn read_sql<T>(
    object: &mut Object<'_, '_>,
    example: &str,
    read: impl FnOnce(&str) -> Result<T, Wrong>,
) -> Option<T> {
    let text = object.text("SqlExpression", example, |text| Ok(text.to_owned()))?;
    let value = object.value("SqlExpression")?;
    read(&text).map_err(|wrong| object.report_sql(&place(value), "SqlExpression", &wrong)).ok()
}

fn without_effect(object: &mut Object<'_, '_>) {
    for key in ["CompatibilityLevel", "RequiresPreprocessing"] {
        object.ignored(key, "has no effect");
    }
}

fn read_correlation(properties: &mut Object<'_, '_>) -> Option<Filter> {
    let title = format!("{}CorrelationFilter: ", properties.title());
    let mut object = properties.object("CorrelationFilter", title)?;
    let filter = CorrelationFilter {
        correlation_id: text(&mut object, "CorrelationId", None),
        message_id: text(&mut object, "MessageId", None),
        to: text(&mut object, "To", Some("SendTo")),
        reply_to: text(&mut object, "ReplyTo", None),
        label: text(&mut object, "Label", Some("Subject")),
        session_id: text(&mut object, "SessionId", None),
        reply_to_session_id: text(&mut object, "ReplyToSessionId", None),
        content_type: text(&mut object, "ContentType", None),
        user: read_user(&mut object),
    };
    object.ignored("RequiresPreprocessing", "has no effect");
    if FIELDS.iter().all(|key| object.value(key).is_none_or(is_empty)) {
        let message = "sets nothing to compare; write \"Label\": \"order\" or the like";
        properties.report(&object.place(), "CorrelationFilter", message);
    }
    object.finish();
    (!filter.is_empty()).then(|| Filter::Correlation(Box::new(filter)))
}

/// Whether a value is an object without properties.
fn is_empty(value: &ast::Value<'_>) -> bool {
    value.as_object().is_some_and(|object| object.properties.is_empty())
}

/// A field under its name, or under the other name that newer tools use.
fn text(object: &mut Object<'_, '_>, key: &'static str, other: Option<&'static str>) -> Option<Box<str>> {
    let one = object.text(key, "order", |text| Ok(text.into()));
    let other = other.and_then(|other| object.text(other, "order", |text| Ok(text.into())));
    one.or(other)
}

/// Application properties by name; names are case-insensitive.
fn read_user(correlation: &mut Object<'_, '_>) -> Vec<(Box<str>, PropertyValue)> {
    let Some(value) = correlation.value("Properties") else { return Vec::new() };
    let ast::Value::Object(fields) = value else {
        let message = mismatch("an object", value, "Properties", "{ \"region\": \"eu\" }");
        correlation.report(&place(value), "Properties", &message);
        return Vec::new();
    };
    let mut user: Vec<(Box<str>, PropertyValue)> = Vec::with_capacity(fields.properties.len());
    for field in &fields.properties {
        let (name, at) = (field.name.as_str(), place(&field.value));
        match read_value(&field.value) {
            _ if name.is_empty() => correlation.report(&at, "Properties", "a property has an empty name"),
            Ok(_) if user.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) => {
                let message = format!("\"{name}\" occurs twice, names match regardless of case; remove one");
                correlation.report(&at, "Properties", &message);
            }
            Ok(value) => user.push((name.into(), value)),
            Err(message) => correlation.report(&at, &format!("Properties.{name}"), &message),
        }
    }
    user
}

fn read_value(value: &ast::Value<'_>) -> Result<PropertyValue, String> {
    match value {
        ast::Value::StringLit(text) => Ok(PropertyValue::Text(text.value.as_ref().into())),
        ast::Value::BooleanLit(flag) => Ok(PropertyValue::Boolean(flag.value)),
        ast::Value::NumberLit(number) => {
            let number = number.value;
            let integer = number.parse().map(PropertyValue::Integer);
            let integer = integer.or_else(|_| number.parse().map(PropertyValue::Unsigned)).ok();
            let double =
                || number.parse::<f64>().ok().filter(|value| value.is_finite()).map(PropertyValue::Double);
            integer.or_else(double).ok_or_else(|| format!("{number} does not fit into 64 bits"))
        }
        other => Err(mismatch("a text, number or boolean", other, "region", "\"eu\"")),
    }
}
