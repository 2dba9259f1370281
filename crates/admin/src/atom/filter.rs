//! The filters of rules, in both directions.

use peeklock_engine::{CorrelationFilter, Filter};

use super::key_values::{self, KeyValue};
use super::sql;
use super::xml::{Document, Element};
use crate::error::Error;

const OWNER: &str = "the rule's filter";

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

/// Reads the filter of a rule; a missing one matches everything.
///
/// # Errors
/// An invalid filter, with the position in its SQL.
pub(super) fn read(rule: &Element) -> Result<Filter, Error> {
    let Some(filter) = rule.child("Filter").filter(|filter| !filter.nil) else { return Ok(Filter::True) };
    match filter.kind.as_deref() {
        Some("TrueFilter") => Ok(Filter::True),
        Some("FalseFilter") => Ok(Filter::False),
        Some("SqlFilter") => {
            let (expression, parameters) = sql::read(filter, OWNER)?;
            Filter::sql(expression, parameters).map_err(|error| sql::unreadable(OWNER, &error))
        }
        Some("CorrelationFilter") => read_correlation(filter),
        _ => Err(Error::bad_request(
            "The 'Filter' of a rule must be of the xsi:type TrueFilter, FalseFilter, SqlFilter or CorrelationFilter.",
        )),
    }
}

/// The fields of a correlation filter that are set, in the order of the service.
pub(crate) fn fields(filter: &CorrelationFilter) -> Vec<(&'static str, String)> {
    // The functions that set fields are used to read them, so a copy is needed.
    let filter = &mut filter.clone();
    let set = FIELDS.iter().filter_map(|(name, field)| Some((*name, field(filter).as_deref()?.to_owned())));
    set.collect()
}

fn read_correlation(element: &Element) -> Result<Filter, Error> {
    let mut filter = CorrelationFilter::default();
    for (name, field) in FIELDS {
        *field(&mut filter) = element.text_of(name).map(Into::into);
    }
    filter.user = key_values::read(element, "Properties", OWNER)?;
    if filter.is_empty() {
        return Err(Error::bad_request("A correlation filter must set at least one field."));
    }
    Ok(Filter::Correlation(Box::new(filter)))
}

/// Writes the filter. True and false filters contain their SQL: JS fails without it.
pub(super) fn write(document: &mut Document, filter: &Filter) {
    match filter {
        Filter::True => write_sql(document, "TrueFilter", "1=1", &[]),
        Filter::False => write_sql(document, "FalseFilter", "1=0", &[]),
        Filter::Sql(filter) => write_sql(document, "SqlFilter", filter.expression(), filter.parameters()),
        // The protocol has no form of its own for selectors.
        Filter::Selector(selector) => write_sql(document, "SqlFilter", selector.text(), &[]),
        Filter::Correlation(filter) => {
            document.element("Filter", &[("i:type", "CorrelationFilter")], |document| {
                write_correlation(document, filter);
            });
        }
    }
}

fn write_sql(document: &mut Document, kind: &str, expression: &str, parameters: &[KeyValue]) {
    document.element("Filter", &[("i:type", kind)], |document| {
        sql::write(document, expression, parameters);
    });
}

fn write_correlation(document: &mut Document, filter: &CorrelationFilter) {
    for (name, text) in fields(filter) {
        document.text(name, &text);
    }
    key_values::write(document, "Properties", &filter.user);
}
