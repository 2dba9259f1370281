//! Equalities that a filter requires: a rule can be posted under each of these choices.

use smallvec::{SmallVec, smallvec};

use super::key::{Key, PropertyKey};
use crate::sql::tree::SystemProperty;
use crate::sql::{Equality, Named, Value};
use crate::{CorrelationFilter, Filter};

/// A property, and values of which it must have one.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    /// The system property, if it is one.
    pub(super) system: Option<SystemProperty>,
    /// The keys of the property with each of its values, sorted and distinct.
    pub(super) keys: SmallVec<[Key; 1]>,
}

/// The choices of a filter, in a fixed order, beginning with those that are usually most selective.
pub(super) fn choices(filter: &Filter) -> Vec<Choice> {
    match filter {
        // Names in a selector are case-sensitive, unlike those of keys.
        Filter::True | Filter::False | Filter::Selector(_) => Vec::new(),
        Filter::Correlation(filter) => of_correlation(filter).collect(),
        Filter::Sql(filter) => filter.equalities().iter().map(of_equality).collect(),
    }
}

fn of_correlation(filter: &CorrelationFilter) -> impl Iterator<Item = Choice> {
    let telling = [
        (SystemProperty::MessageId, &filter.message_id),
        (SystemProperty::CorrelationId, &filter.correlation_id),
        (SystemProperty::SessionId, &filter.session_id),
        (SystemProperty::ReplyToSessionId, &filter.reply_to_session_id),
        (SystemProperty::Label, &filter.label),
        (SystemProperty::To, &filter.to),
    ];
    let common =
        [(SystemProperty::ReplyTo, &filter.reply_to), (SystemProperty::ContentType, &filter.content_type)];
    let user = filter.user.iter().map(|(name, value)| Choice {
        system: None,
        keys: smallvec![PropertyKey::user(name).with(&Value::of(value))],
    });
    telling.into_iter().filter_map(of_text).chain(user).chain(common.into_iter().filter_map(of_text))
}

fn of_text((property, wanted): (SystemProperty, &Option<Box<str>>)) -> Option<Choice> {
    let key = PropertyKey::system(property).with(&Value::text(wanted.as_deref()?));
    Some(Choice { system: Some(property), keys: smallvec![key] })
}

fn of_equality(equality: &Equality) -> Choice {
    let (system, property) = match &equality.property {
        Named::User(name) => (None, PropertyKey::user(name.written())),
        Named::System(property) => (Some(*property), PropertyKey::system(*property)),
    };
    let mut keys: SmallVec<[Key; 1]> =
        equality.values.iter().map(|value| property.with(&Value::of(value))).collect();
    keys.sort_unstable();
    keys.dedup();
    Choice { system, keys }
}
