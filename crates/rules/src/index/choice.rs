//! Equalities without which a filter can't match: each is a choice under which its rule can be posted.

use super::key::{Key, Property, PropertyKey};
use crate::sql::tree::SystemProperty;
use crate::{CorrelationFilter, FactValue, Filter};

/// A property and the values of which it must have one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    pub(super) property: Property<'a>,
    pub(super) values: Values<'a>,
}

/// One of these.
#[derive(Debug, Clone, Copy)]
pub(super) enum Values<'a> {
    Text(&'a str),
    Value(&'a FactValue),
}

impl Choice<'_> {
    /// What to look under.
    pub(super) fn key(&self) -> Key {
        let property = PropertyKey::of(self.property);
        match self.values {
            Values::Text(text) => property.with_text(text),
            Values::Value(value) => property.with_value(value),
        }
    }
}

/// The choices of a filter, those first that tell messages apart best if nothing else is known.
pub(super) fn choices(filter: &Filter) -> impl Iterator<Item = Choice<'_>> {
    let correlation = match filter {
        Filter::Correlation(filter) => Some(&**filter),
        Filter::True | Filter::False | Filter::Sql(_) => None,
    };
    correlation.into_iter().flat_map(equalities)
}

fn equalities(filter: &CorrelationFilter) -> impl Iterator<Item = Choice<'_>> {
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
    let user = filter
        .user
        .iter()
        .map(|(name, value)| Choice { property: Property::User(name), values: Values::Value(value) });
    telling.into_iter().filter_map(text).chain(user).chain(common.into_iter().filter_map(text))
}

fn text((property, wanted): (SystemProperty, &Option<Box<str>>)) -> Option<Choice<'_>> {
    let text = wanted.as_deref()?;
    Some(Choice { property: Property::System(property), values: Values::Text(text) })
}
