//! Rules in the protocol: clients write them as maps of names, and read them as described lists.

use peeklock_engine::{CorrelationFilter, Filter, Rule, SqlAction, SqlError};

use crate::servicebus::envelope::{lookup, text};
use crate::servicebus::errors::Fault;
use crate::servicebus::rule_properties;
use crate::wire::Value;

/// Descriptors: J compares the numbers, so symbols do not work. Those of filters have one digit less than those of
/// rules and actions.
const RULE_DESCRIPTION: u64 = 0x0000_0137_0000_0004;
const EMPTY_ACTION: u64 = 0x0000_0137_0000_0005;
const SQL_ACTION: u64 = 0x0000_0137_0000_0006;
const SQL_FILTER: u64 = 0x0000_0013_7000_0006;
const TRUE_FILTER: u64 = 0x0000_0013_7000_0007;
const FALSE_FILTER: u64 = 0x0000_0013_7000_0008;
const CORRELATION_FILTER: u64 = 0x0000_0013_7000_0009;

/// Maximum number of properties in one filter.
const PROPERTIES_MAX: usize = 1000;

type Entries = [(Value, Value)];

/// Reads filter and action of a rule.
///
/// # Errors
/// [`Fault::Argument`] for an invalid filter or action, with the position in the SQL.
pub(super) fn read(description: &Entries) -> Result<(Filter, Option<SqlAction>), Fault> {
    let filter = match (expression(description, "sql-filter")?, map(description, "correlation-filter")?) {
        (Some(sql), None) => Filter::sql(sql, Vec::new()).map_err(|error| unreadable("filter", &error))?,
        (None, Some(filter)) => read_correlation(filter)?,
        _ => {
            return Err(Fault::Argument(
                "A rule description needs a map 'sql-filter' with an 'expression' or a map 'correlation-filter'."
                    .to_owned(),
            ));
        }
    };
    // N and Ja write null when there is no action; an empty one has no effect either.
    let action = expression(description, "sql-rule-action")?.filter(|sql| !sql.trim().is_empty());
    let action = action.map(|sql| SqlAction::new(sql, Vec::new())).transpose();
    Ok((filter, action.map_err(|error| unreadable("action", &error))?))
}

fn unreadable(what: &str, error: &SqlError) -> Fault {
    Fault::Argument(format!("The SQL of the rule's {what} can't be read: {error}."))
}

fn read_correlation(entries: &Entries) -> Result<Filter, Fault> {
    let field = |key| match given(entries, key) {
        None => Ok(None),
        Some(value) => {
            text(value).map(|text| Some(text.into())).ok_or_else(|| wrong(key, "a string or null"))
        }
    };
    let filter = CorrelationFilter {
        correlation_id: field("correlation-id")?,
        message_id: field("message-id")?,
        to: field("to")?,
        reply_to: field("reply-to")?,
        label: field("label")?,
        session_id: field("session-id")?,
        reply_to_session_id: field("reply-to-session-id")?,
        content_type: field("content-type")?,
        user: read_properties(map(entries, "properties")?.unwrap_or_default())?,
    };
    if filter.is_empty() {
        return Err(Fault::Argument("A correlation filter must set at least one field.".to_owned()));
    }
    Ok(Filter::Correlation(Box::new(filter)))
}

fn read_properties(entries: &Entries) -> Result<Vec<(Box<str>, peeklock_engine::PropertyValue)>, Fault> {
    if entries.len() > PROPERTIES_MAX {
        return Err(Fault::Argument(format!("A filter names at most {PROPERTIES_MAX} properties.")));
    }
    let mut names = std::collections::HashSet::new();
    let mut properties = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let name = text(key).ok_or_else(|| wrong("properties", "a map with string keys"))?;
        if !names.insert(name.to_ascii_lowercase()) {
            return Err(Fault::Argument(
                "A filter can name a property only once; names are compared without regard to case."
                    .to_owned(),
            ));
        }
        properties.push((name.into(), rule_properties::given_from_value(value.clone())));
    }
    Ok(properties)
}

/// The `expression` of a map; `None` when the map or the expression is missing or null.
fn expression<'map>(entries: &'map Entries, key: &str) -> Result<Option<&'map str>, Fault> {
    let Some(inner) = map(entries, key)? else { return Ok(None) };
    match given(inner, "expression") {
        None => Ok(None),
        Some(value) => text(value).map(Some).ok_or_else(|| wrong(key, "a map with a string 'expression'")),
    }
}

fn map<'map>(entries: &'map Entries, key: &str) -> Result<Option<&'map Entries>, Fault> {
    match given(entries, key) {
        None => Ok(None),
        Some(Value::Map(inner)) => Ok(Some(inner)),
        Some(_) => Err(wrong(key, "a map or null")),
    }
}

fn given<'map>(entries: &'map Entries, key: &str) -> Option<&'map Value> {
    lookup(entries, key).filter(|value| **value != Value::Null)
}

fn wrong(key: &str, expected: &str) -> Fault {
    Fault::Argument(format!("In a rule description '{key}' is {expected}."))
}

/// Writes a rule. The action is never null, and neither are the properties of a correlation filter (J, N).
pub(super) fn write(rule: &Rule) -> Value {
    let filter = match &rule.filter {
        Filter::True => list(TRUE_FILTER, Vec::new()),
        Filter::False => list(FALSE_FILTER, Vec::new()),
        Filter::Correlation(filter) => list(CORRELATION_FILTER, correlation_fields(filter)),
        Filter::Sql(filter) => list(SQL_FILTER, vec![filter.expression().into()]),
        // The protocol has no form of its own for selectors.
        Filter::Selector(selector) => list(SQL_FILTER, vec![selector.text().into()]),
    };
    let action = match &rule.action {
        Some(action) => list(SQL_ACTION, vec![action.expression().into()]),
        None => list(EMPTY_ACTION, Vec::new()),
    };
    let created_at = Value::Timestamp(i64::try_from(rule.created_at.0).unwrap_or(i64::MAX));
    let name = Value::String(rule.name.clone());
    list(RULE_DESCRIPTION, vec![filter, action, name, created_at])
}

fn correlation_fields(filter: &CorrelationFilter) -> Vec<Value> {
    let system = [
        &filter.correlation_id,
        &filter.message_id,
        &filter.to,
        &filter.reply_to,
        &filter.label,
        &filter.session_id,
        &filter.reply_to_session_id,
        &filter.content_type,
    ];
    let system = system.into_iter().map(|field| field.clone().map_or(Value::Null, Value::String));
    let user = filter
        .user
        .iter()
        .map(|(name, value)| (Value::String(name.clone()), rule_properties::to_value(value)));
    system.chain([Value::Map(user.collect())]).collect()
}

fn list(code: u64, fields: Vec<Value>) -> Value {
    Value::described(Value::ULong(code), Value::List(fields))
}
