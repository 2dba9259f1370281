//! Rules of subscriptions.

use peeklock_rules::Filter;
use serde::Deserialize;

use super::property::{Properties, Seen, properties};
use crate::stored::rule::{sql_action, sql_filter};
use crate::{Rule, Timestamp};

#[derive(Deserialize)]
pub(super) struct RuleWithAction {
    name: Box<str>,
    filter: StoredFilter,
    action: Option<Sql>,
    created_at_ms: u64,
}

/// From before rules had actions.
#[derive(Deserialize)]
pub(super) struct RuleWithoutAction {
    name: Box<str>,
    filter: StoredFilter,
    created_at_ms: u64,
}

impl From<RuleWithoutAction> for RuleWithAction {
    fn from(RuleWithoutAction { name, filter, created_at_ms }: RuleWithoutAction) -> Self {
        Self { name, filter, action: None, created_at_ms }
    }
}

#[derive(Deserialize)]
enum StoredFilter {
    True,
    False,
    Correlation(Seen),
    Sql(Sql),
}

#[derive(Deserialize)]
struct Sql {
    expression: Box<str>,
    parameters: Properties,
}

impl TryFrom<RuleWithAction> for Rule {
    type Error = String;

    fn try_from(
        RuleWithAction { name, filter, action, created_at_ms }: RuleWithAction,
    ) -> Result<Self, String> {
        let filter = match filter {
            StoredFilter::True => Filter::True,
            StoredFilter::False => Filter::False,
            StoredFilter::Correlation(stored) => Filter::Correlation(Box::new(stored.into())),
            StoredFilter::Sql(sql) => sql_filter(&name, &sql.expression, properties(sql.parameters))?,
        };
        let action = action.map(|sql| sql_action(&name, &sql.expression, properties(sql.parameters)));
        Ok(Self { action: action.transpose()?, filter, created_at: Timestamp(created_at_ms), name })
    }
}
