//! How a rule looks in the store. SQL is stored as it was written and read anew, so that what can't be read says where.

use serde::{Deserialize, Serialize};

use crate::{CorrelationFilter, Filter, PropertyValue, Rule, SqlAction, SqlError, SqlFilter, Timestamp};

/// A rule.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredRule {
    name: Box<str>,
    filter: StoredFilter,
    action: Option<StoredSql>,
    created_at: Timestamp,
}

/// Before rules had actions; read, no longer written.
#[derive(Deserialize)]
pub(super) struct RuleWithoutAction {
    name: Box<str>,
    filter: StoredFilter,
    created_at: Timestamp,
}

/// See [`Filter`]; the position is stored.
#[derive(Serialize, Deserialize)]
enum StoredFilter {
    True,
    False,
    Correlation(Box<CorrelationFilter>),
    Sql(StoredSql),
}

/// A text with its parameters.
#[derive(Serialize, Deserialize)]
struct StoredSql {
    expression: Box<str>,
    parameters: Vec<(Box<str>, PropertyValue)>,
}

impl From<RuleWithoutAction> for StoredRule {
    fn from(RuleWithoutAction { name, filter, created_at }: RuleWithoutAction) -> Self {
        Self { name, filter, action: None, created_at }
    }
}

impl From<&Rule> for StoredRule {
    fn from(rule: &Rule) -> Self {
        Self {
            name: rule.name.clone(),
            filter: (&rule.filter).into(),
            action: rule.action.as_ref().map(Into::into),
            created_at: rule.created_at,
        }
    }
}

impl From<&Filter> for StoredFilter {
    fn from(filter: &Filter) -> Self {
        match filter {
            Filter::True => Self::True,
            Filter::False => Self::False,
            Filter::Correlation(filter) => Self::Correlation(filter.clone()),
            Filter::Sql(filter) => Self::Sql(StoredSql {
                expression: filter.expression().into(),
                parameters: filter.parameters().to_vec(),
            }),
        }
    }
}

impl From<&SqlAction> for StoredSql {
    fn from(action: &SqlAction) -> Self {
        Self { expression: action.expression().into(), parameters: action.parameters().to_vec() }
    }
}

impl TryFrom<StoredRule> for Rule {
    type Error = String;

    fn try_from(StoredRule { name, filter, action, created_at }: StoredRule) -> Result<Self, String> {
        let filter = match filter {
            StoredFilter::True => Filter::True,
            StoredFilter::False => Filter::False,
            StoredFilter::Correlation(filter) => Filter::Correlation(filter),
            StoredFilter::Sql(stored) => Filter::Sql(Box::new(
                stored.read(SqlFilter::new).map_err(|error| unreadable("filter", &name, error))?,
            )),
        };
        let action = action.map(|stored| stored.read(SqlAction::new));
        let action = action.transpose().map_err(|error| unreadable("action", &name, error))?;
        Ok(Self { name, filter, action, created_at })
    }
}

/// A text that is not what was stored as one, and why.
type Unreadable = (Box<str>, SqlError);

impl StoredSql {
    fn read<T>(
        self,
        new: impl FnOnce(&str, Vec<(Box<str>, PropertyValue)>) -> Result<T, SqlError>,
    ) -> Result<T, Unreadable> {
        new(&self.expression, self.parameters).map_err(|error| (self.expression, error))
    }
}

fn unreadable(part: &str, rule: &str, (expression, error): Unreadable) -> String {
    format!("the {part} of the rule '{rule}' can't be read: {error}: {expression}")
}
