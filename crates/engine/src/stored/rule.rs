//! A rule of a subscription. SQL is stored as text and parsed again, so that an error names the position of the fault.

use peeklock_rules::{CorrelationFilter, Filter, PropertyValue, Selector, SqlAction, SqlError, SqlFilter};

use super::frame::required;
use super::property::{StoredProperty, properties, stored_properties};
use crate::{Rule, Timestamp};

/// A rule.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredRule {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(uint64, tag = "2")]
    created_at_ms: u64,
    #[prost(oneof = "StoredFilter", tags = "3, 4, 5, 6, 8")]
    filter: Option<StoredFilter>,
    #[prost(message, optional, tag = "7")]
    action: Option<StoredSql>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum StoredFilter {
    #[prost(bool, tag = "3")]
    True(bool),
    #[prost(bool, tag = "4")]
    False(bool),
    #[prost(message, tag = "5")]
    Correlation(StoredCorrelation),
    #[prost(message, tag = "6")]
    Sql(StoredSql),
    #[prost(string, tag = "8")]
    Selector(String),
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredCorrelation {
    #[prost(string, optional, tag = "1")]
    correlation_id: Option<String>,
    #[prost(string, optional, tag = "2")]
    message_id: Option<String>,
    #[prost(string, optional, tag = "3")]
    to: Option<String>,
    #[prost(string, optional, tag = "4")]
    reply_to: Option<String>,
    #[prost(string, optional, tag = "5")]
    label: Option<String>,
    #[prost(string, optional, tag = "6")]
    session_id: Option<String>,
    #[prost(string, optional, tag = "7")]
    reply_to_session_id: Option<String>,
    #[prost(string, optional, tag = "8")]
    content_type: Option<String>,
    #[prost(message, repeated, tag = "9")]
    user: Vec<StoredProperty>,
}

/// An SQL text with its parameters.
#[derive(Clone, PartialEq, prost::Message)]
struct StoredSql {
    #[prost(string, tag = "1")]
    expression: String,
    #[prost(message, repeated, tag = "2")]
    parameters: Vec<StoredProperty>,
}

impl From<&Rule> for StoredRule {
    fn from(rule: &Rule) -> Self {
        Self {
            name: Some(rule.name.to_string()),
            created_at_ms: rule.created_at.0,
            filter: Some((&rule.filter).into()),
            action: rule.action.as_ref().map(|action| stored_sql(action.expression(), action.parameters())),
        }
    }
}

impl From<&Filter> for StoredFilter {
    fn from(filter: &Filter) -> Self {
        match filter {
            Filter::True => Self::True(true),
            Filter::False => Self::False(true),
            Filter::Correlation(filter) => Self::Correlation((&**filter).into()),
            Filter::Sql(filter) => Self::Sql(stored_sql(filter.expression(), filter.parameters())),
            Filter::Selector(selector) => Self::Selector(selector.text().to_owned()),
        }
    }
}

fn stored_sql(expression: &str, parameters: &[(Box<str>, PropertyValue)]) -> StoredSql {
    StoredSql { expression: expression.to_owned(), parameters: stored_properties(parameters) }
}

impl From<&CorrelationFilter> for StoredCorrelation {
    fn from(filter: &CorrelationFilter) -> Self {
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            correlation_id: text(&filter.correlation_id),
            message_id: text(&filter.message_id),
            to: text(&filter.to),
            reply_to: text(&filter.reply_to),
            label: text(&filter.label),
            session_id: text(&filter.session_id),
            reply_to_session_id: text(&filter.reply_to_session_id),
            content_type: text(&filter.content_type),
            user: stored_properties(&filter.user),
        }
    }
}

impl TryFrom<StoredCorrelation> for CorrelationFilter {
    type Error = String;

    fn try_from(stored: StoredCorrelation) -> Result<Self, String> {
        let text = |text: Option<String>| text.map(Into::into);
        Ok(Self {
            correlation_id: text(stored.correlation_id),
            message_id: text(stored.message_id),
            to: text(stored.to),
            reply_to: text(stored.reply_to),
            label: text(stored.label),
            session_id: text(stored.session_id),
            reply_to_session_id: text(stored.reply_to_session_id),
            content_type: text(stored.content_type),
            user: properties(stored.user)?,
        })
    }
}

impl TryFrom<StoredRule> for Rule {
    type Error = String;

    fn try_from(StoredRule { name, created_at_ms, filter, action }: StoredRule) -> Result<Self, String> {
        let name = required(name, "name of a rule")?;
        let in_rule = |reason| format!("the rule '{name}': {reason}");
        let filter = required(filter, "filter of a kind that this version knows").map_err(in_rule)?;
        let filter = match filter {
            StoredFilter::True(_) => Filter::True,
            StoredFilter::False(_) => Filter::False,
            StoredFilter::Correlation(stored) => {
                Filter::Correlation(Box::new(stored.try_into().map_err(in_rule)?))
            }
            StoredFilter::Sql(StoredSql { expression, parameters }) => {
                sql_filter(&name, &expression, properties(parameters).map_err(in_rule)?)?
            }
            StoredFilter::Selector(text) => {
                let selector = Selector::new(&text);
                let selector = selector.map_err(|error| unreadable("selector", &name, &text, &error))?;
                Filter::Selector(Box::new(selector))
            }
        };
        let action = action.map(|StoredSql { expression, parameters }| {
            sql_action(&name, &expression, properties(parameters).map_err(in_rule)?)
        });
        Ok(Self {
            action: action.transpose()?,
            filter,
            created_at: Timestamp(created_at_ms),
            name: name.into(),
        })
    }
}

/// Parses the filter of a rule.
pub(super) fn sql_filter(
    rule: &str,
    expression: &str,
    parameters: Vec<(Box<str>, PropertyValue)>,
) -> Result<Filter, String> {
    let filter = SqlFilter::new(expression, parameters);
    filter
        .map(|filter| Filter::Sql(Box::new(filter)))
        .map_err(|error| unreadable("filter", rule, expression, &error))
}

/// Parses the action of a rule.
pub(super) fn sql_action(
    rule: &str,
    expression: &str,
    parameters: Vec<(Box<str>, PropertyValue)>,
) -> Result<SqlAction, String> {
    SqlAction::new(expression, parameters).map_err(|error| unreadable("action", rule, expression, &error))
}

fn unreadable(part: &str, rule: &str, expression: &str, error: &SqlError) -> String {
    format!("the {part} of the rule '{rule}' can't be read: {error}: {expression}")
}
