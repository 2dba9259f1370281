//! Filters and actions of rules, read and written here alone.

use peeklock_engine::{CorrelationFilter, FactValue, Filter};

use super::value;
use super::xml::{Document, Element};
use crate::error::Error;

/// Properties in one filter.
const PROPERTIES_MAX: usize = 1000;

/// The fields of a correlation filter in the order of the service.
const FIELDS: [(&str, Field); 8] = [
    ("CorrelationId", |filter| &mut filter.correlation_id),
    ("MessageId", |filter| &mut filter.message_id),
    ("To", |filter| &mut filter.to),
    ("ReplyTo", |filter| &mut filter.reply_to),
    ("Label", |filter| &mut filter.label),
    ("SessionId", |filter| &mut filter.session_id),
    ("ReplyToSessionId", |filter| &mut filter.reply_to_session_id),
    ("ContentType", |filter| &mut filter.content_type),
];

type Field = fn(&mut CorrelationFilter) -> &mut Option<Box<str>>;

/// Reads the filter of a rule; without one it matches everything.
///
/// # Errors
/// What is no filter, and SQL other than `1=1` and `1=0`.
pub(super) fn read(rule: &Element) -> Result<Filter, Error> {
    let Some(filter) = rule.child("Filter").filter(|filter| !filter.nil) else { return Ok(Filter::True) };
    match filter.kind.as_deref() {
        Some("TrueFilter") => Ok(Filter::True),
        Some("FalseFilter") => Ok(Filter::False),
        Some("SqlFilter") => read_sql(filter.text_of("SqlExpression").unwrap_or_default()),
        Some("CorrelationFilter") => read_correlation(filter),
        _ => Err(Error::bad_request(
            "The 'Filter' of a rule must be of the xsi:type TrueFilter, FalseFilter, SqlFilter or CorrelationFilter.",
        )),
    }
}

/// Checks the action of a rule: there is none yet.
///
/// # Errors
/// An action in SQL.
pub(super) fn check_action(rule: &Element) -> Result<(), Error> {
    let Some(action) = rule.child("Action").filter(|action| !action.nil) else { return Ok(()) };
    let sql = action.text_of("SqlExpression").map(str::trim).unwrap_or_default();
    match action.kind.as_deref() {
        None | Some("EmptyRuleAction") => Ok(()),
        Some("SqlRuleAction") if sql.is_empty() => Ok(()),
        Some("SqlRuleAction") => Err(sql_not_supported("action", sql)),
        Some(_) => Err(Error::bad_request(
            "The 'Action' of a rule must be of the xsi:type EmptyRuleAction or SqlRuleAction.",
        )),
    }
}

/// True and false travel as SQL, as over AMQP.
fn read_sql(sql: &str) -> Result<Filter, Error> {
    let bare: String = sql.chars().filter(|character| !character.is_whitespace()).collect();
    match bare.as_str() {
        "1=1" => Ok(Filter::True),
        "1=0" => Ok(Filter::False),
        _ => Err(sql_not_supported("filter", sql)),
    }
}

fn sql_not_supported(what: &str, sql: &str) -> Error {
    let excerpt: String = sql.chars().take(100).collect();
    Error::bad_request(format!(
        "SQL {what}s are not supported yet: '{excerpt}'. This version knows the filters 1=1 and 1=0 and correlation filters."
    ))
}

fn read_correlation(element: &Element) -> Result<Filter, Error> {
    let mut filter = CorrelationFilter::default();
    for (name, field) in FIELDS {
        *field(&mut filter) = element.text_of(name).map(Into::into);
    }
    let entries = element.child("Properties").map(|properties| properties.children.as_slice());
    filter.user = read_properties(entries.unwrap_or_default())?;
    if filter.is_empty() {
        return Err(Error::bad_request("A correlation filter must set at least one field."));
    }
    Ok(Filter::Correlation(Box::new(filter)))
}

fn read_properties(entries: &[Element]) -> Result<Vec<(Box<str>, FactValue)>, Error> {
    if entries.len() > PROPERTIES_MAX {
        return Err(Error::bad_request(format!(
            "A correlation filter names at most {PROPERTIES_MAX} properties."
        )));
    }
    let mut names = std::collections::HashSet::new();
    let mut properties = Vec::with_capacity(entries.len());
    for entry in entries {
        let (Some(name), Some(element)) = (entry.text_of("Key"), entry.child("Value")) else {
            return Err(Error::bad_request("Each of the 'Properties' of a filter needs a Key and a Value."));
        };
        if !names.insert(name.to_ascii_lowercase()) {
            return Err(Error::bad_request("A filter names a property once; case does not matter."));
        }
        let value = value::read(element)
            .map_err(|reason| Error::bad_request(format!("The property '{name}' of the filter {reason}")))?;
        properties.push((name.into(), value));
    }
    Ok(properties)
}

/// Writes filter and action. True and false filters carry their SQL, and there is always an action: JS and Python fail
/// without.
pub(super) fn write(document: &mut Document, filter: &Filter) {
    match filter {
        Filter::True => write_constant(document, "TrueFilter", "1=1"),
        Filter::False => write_constant(document, "FalseFilter", "1=0"),
        Filter::Sql(filter) => write_constant(document, "SqlFilter", filter.expression()),
        Filter::Correlation(filter) => {
            document.element("Filter", &[("i:type", "CorrelationFilter")], |document| {
                write_correlation(document, filter);
            });
        }
    }
    document.element("Action", &[("i:type", "EmptyRuleAction")], |_| {});
}

fn write_constant(document: &mut Document, kind: &str, sql: &str) {
    document.element("Filter", &[("i:type", kind)], |document| {
        document.text("SqlExpression", sql);
        document.text("CompatibilityLevel", "20");
    });
}

fn write_correlation(document: &mut Document, filter: &CorrelationFilter) {
    // Fields are reached through the same doors by which they are set.
    let filter = &mut filter.clone();
    for (name, field) in FIELDS {
        if let Some(text) = field(filter) {
            document.text(name, text);
        }
    }
    if filter.user.is_empty() {
        return;
    }
    document.element("Properties", &[], |document| {
        for (name, value) in &filter.user {
            document.element("KeyValueOfstringanyType", &[], |document| {
                document.text("Key", name);
                value::write(document, value);
            });
        }
    });
}
