//! `[[topics.subscriptions.rules]]`: selects the messages of a topic for a subscription.

use peeklock_engine::{CorrelationFilter, Filter, Rule, RuleLimits, SqlAction};
use toml::de::{DeTable, DeValue};

use super::names::Place;
use super::sql::{self, Parameters, Wrong};
use super::table::Table;
use super::{entity, values};

/// The keys of which a rule must have exactly one.
const KINDS: [&str; 3] = ["filter", "sql", "correlation"];
const CORRELATION_EXAMPLE: &str = "{ label = \"order\", properties = { region = \"eu\" } }";

/// Reads one table, and the position of the rule's name; `None` when it is invalid, which has been reported. `owner`
/// starts messages and names the subscription.
pub(super) fn read(
    mut table: Table<'_, '_>,
    place: &Place,
    owner: &str,
    limits: &RuleLimits,
) -> Option<(Rule, Place)> {
    let name = entity::read_name(&mut table, place, "\"orders\"", entity::check_rule_name);
    if let Some((name, _)) = &name {
        let subscription = owner.trim_end_matches(": ");
        table.set_title(format!("{subscription}, rule \"{name}\": "));
    }
    let parameters = values::read(&mut table, "parameters", "{ region = \"eu\" }");
    check_parameters(&mut table);
    let filter = read_filter(&mut table, place, &parameters, limits);
    let action = read_action(&mut table, parameters, limits);
    table.finish();
    let (name, place) = name?;
    let created_at = peeklock_engine::Timestamp::default();
    Some((Rule { name: name.into(), filter: filter?, action, created_at }, place))
}

/// Checks the parameters, which filter and action share.
fn check_parameters(table: &mut Table<'_, '_>) {
    let Some((_, span)) = table.value("parameters") else { return };
    if table.value("sql").is_none() && table.value("action").is_none() {
        table.report(&span, "parameters", "only sql and action have parameters; remove it");
    }
}

fn read_action(table: &mut Table<'_, '_>, parameters: Parameters, limits: &RuleLimits) -> Option<SqlAction> {
    read_sql(table, "action", "\"SET priority = 'high'\"", |text| sql::action(text, parameters, limits))
}

/// Parses an expression; errors are reported at their positions.
fn read_sql<T>(
    table: &mut Table<'_, '_>,
    key: &'static str,
    example: &str,
    read: impl FnOnce(&str) -> Result<T, Wrong>,
) -> Option<T> {
    let text = table.text(key, example, |text| Ok(text.to_owned()))?;
    let (_, span) = table.value(key)?;
    read(&text).map_err(|wrong| table.report_sql(&span, key, &wrong)).ok()
}

fn read_filter(
    table: &mut Table<'_, '_>,
    place: &Place,
    parameters: &Parameters,
    limits: &RuleLimits,
) -> Option<Filter> {
    let known = table.text("filter", "\"true\"", |text| match text {
        "true" => Ok(Filter::True),
        "false" => Ok(Filter::False),
        _ => Err(format!(
            "\"{text}\" is not a filter; write \"true\" or \"false\", or correlation = {{ ... }} instead"
        )),
    });
    let sql = read_sql(table, "sql", "\"amount > 5\"", |text| sql::filter(text, parameters.clone(), limits));
    let correlation = read_correlation(table);
    let mut places = KINDS.into_iter().filter_map(|key| Some((key, table.value(key)?.1))).collect::<Vec<_>>();
    places.sort_by_key(|(_, span)| span.start);
    match places.as_slice() {
        [] => {
            let advice = format!(
                "missing; write filter = \"true\", sql = \"amount > 5\" or correlation = {CORRELATION_EXAMPLE}"
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
        user: values::read(&mut table, "properties", "{ region = \"eu\" }"),
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

/// Whether there is no field, not even an invalid one, which is reported separately.
fn sets_nothing(correlation: &DeValue<'_>) -> bool {
    let is_empty = |value: &DeValue<'_>| value.as_table().is_some_and(DeTable::is_empty);
    let DeValue::Table(fields) = correlation else { return false };
    fields.iter().all(|(key, value)| key.get_ref() == "properties" && is_empty(value.get_ref()))
}
