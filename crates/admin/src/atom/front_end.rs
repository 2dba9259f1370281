//! The interface for other front ends: the same parsing and checks of options and rules, without XML.

use axum::http::HeaderMap;
use peeklock_access::EntityNode;
use peeklock_engine::runtime::{ChangeError, EntityKind};
use peeklock_engine::schema::{EntityOption, OPTIONS, OptionKind, OptionSet};
use peeklock_engine::{
    CorrelationFilter, EntityOptions, PropertyValue, QueueOptions, Rule, SubscriptionOptions, Tier,
    TopicOptions,
};

use super::call::Call;
use super::path::Target;
use super::xml::Element;
use super::{Session, entity, filter, properties, rule, subscription, value};
use crate::Admin;
use crate::error::Error;

/// The element that describes a subscription.
const SUBSCRIPTION: &str = "SubscriptionDescription";

/// An option with Service Bus's name and its text as in a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionText {
    /// `LockDuration`.
    pub name: String,
    /// `PT1M`; empty for no value.
    pub text: String,
}

/// A property value as text, with its type as in descriptions; `None` for null.
pub type Typed = Option<(String, String)>;

/// A rule as texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleText {
    /// `TrueFilter`, `FalseFilter`, `SqlFilter` or `CorrelationFilter`.
    pub filter_kind: &'static str,
    /// The condition of a `SqlFilter`.
    pub expression: String,
    /// Values of the parameters in the condition.
    pub parameters: Vec<(String, Typed)>,
    /// Fields of a `CorrelationFilter`, such as `CorrelationId`.
    pub fields: Vec<(String, String)>,
    /// Its application properties.
    pub properties: Vec<(String, Typed)>,
    /// The SQL of the action, if there is one.
    pub action: Option<String>,
    /// Values of the parameters in the action.
    pub action_parameters: Vec<(String, Typed)>,
}

/// The options of an entity in the order of the schema, each with whether it can be changed; those without a value have
/// an empty text. Authorization rules, which contain keys, are omitted.
pub fn options_of<O: OptionSet>(options: &O, tier: Tier) -> Vec<(OptionText, bool)> {
    let shown = OPTIONS.iter().filter(|option| option.is_of::<O>());
    let shown = shown.filter(|option| !matches!(option.kind, OptionKind::AuthorizationRules(_)));
    let text = |option| properties::text(option, options).unwrap_or_default();
    shown
        .map(|option| {
            let named = OptionText { name: option.service_name.to_owned(), text: text(option) };
            (named, !option.is_fixed && option.since <= tier)
        })
        .collect()
}

/// The fields of a correlation filter that are set, with Service Bus's names.
#[must_use]
pub fn correlation_fields(filter: &CorrelationFilter) -> Vec<(&'static str, String)> {
    filter::fields(filter)
}

/// Type and text of a value; `None` for null.
#[must_use]
pub fn typed(value: &PropertyValue) -> Option<(&'static str, String)> {
    value::typed_text(value)
}

/// Parses a value from its type and text.
///
/// # Errors
/// An unknown type or a text that does not match its type, as the end of a sentence.
pub fn untyped(value: Typed) -> Result<PropertyValue, String> {
    value::read(&value_element(value))
}

impl Admin {
    /// Creates a subscription if `node` names one, otherwise a queue or topic of this kind. The right to manage it must
    /// have been checked; the right to forward is checked here, with the token in `headers`.
    ///
    /// # Errors
    /// It exists, or the options are invalid.
    pub async fn create_entity(
        &self,
        node: &EntityNode,
        kind: EntityKind,
        options: &[OptionText],
        headers: &HeaderMap,
    ) -> Result<(), Error> {
        let call = call(node, headers);
        let session = Session { admin: self, call: &call };
        if let Some(name) = &node.subscription {
            let described = description::<SubscriptionOptions>(SUBSCRIPTION, options)?;
            return subscription::create(&session, (&node.name, name), &described).await.map(drop);
        }
        let described = match kind {
            EntityKind::Queue => description::<QueueOptions>(entity::QUEUE, options)?,
            EntityKind::Topic => description::<TopicOptions>(entity::TOPIC, options)?,
        };
        entity::create(&session, &node.name, &described).await.map(drop)
    }

    /// Changes options of a queue, topic or subscription; others are unchanged. Rights as for [`Self::create_entity`].
    ///
    /// # Errors
    /// It does not exist, or the options are invalid.
    pub async fn change_entity(
        &self,
        node: &EntityNode,
        options: &[OptionText],
        headers: &HeaderMap,
    ) -> Result<(), Error> {
        let call = Call { is_patch: true, ..call(node, headers) };
        let session = Session { admin: self, call: &call };
        if let Some(name) = &node.subscription {
            let described = patch::<SubscriptionOptions>(SUBSCRIPTION, options)?;
            return subscription::update(&session, (&node.name, name), &described).await.map(drop);
        }
        let current = self.namespace.options(&node.name);
        let described = match current.ok_or_else(|| Error::entity_not_found(&node.name))?.as_ref() {
            EntityOptions::Queue(_) => patch::<QueueOptions>(entity::QUEUE, options)?,
            EntityOptions::Topic(_) => patch::<TopicOptions>(entity::TOPIC, options)?,
        };
        entity::update(&session, &node.name, &described).await.map(drop)
    }

    /// Deletes a queue, topic or subscription with its contents. The right to manage it must have been checked.
    ///
    /// # Errors
    /// It does not exist, or the store fails.
    pub async fn delete_entity(&self, node: &EntityNode) -> Result<(), Error> {
        let Some(name) = &node.subscription else { return Ok(self.namespace.delete(&node.name).await?) };
        let deleted = self.namespace.delete_subscription(&node.name, name).await;
        if deleted.map_err(ChangeError::from)? { Ok(()) } else { Err(missing(node)) }
    }

    /// Adds a rule to a subscription, or replaces the one of that name; returns whether it is new. The right to manage
    /// the subscription must have been checked.
    ///
    /// # Errors
    /// The subscription does not exist, or the rule is invalid.
    pub async fn set_rule(&self, node: &EntityNode, name: &str, text: &RuleText) -> Result<bool, Error> {
        let subscription = node.subscription.as_deref().ok_or_else(|| no_rules(node))?;
        let found = self.namespace.describe_subscription(&node.name, subscription);
        let found = found.ok_or_else(|| missing(node))?.subscription;
        let rule = self.read_rule(name, text)?;
        let known = found.rules.iter().find(|known| known.name.to_lowercase() == name.to_lowercase());
        match known {
            Some(known) => {
                let rule = Rule { name: known.name.clone(), created_at: known.created_at, ..rule };
                self.namespace.update_rule(&node.name, subscription, rule).await?;
            }
            None => self.namespace.create_rule(&node.name, subscription, rule).await?,
        }
        Ok(known.is_none())
    }

    /// Removes a rule from a subscription. The right to manage the subscription must have been checked.
    ///
    /// # Errors
    /// The subscription or rule does not exist.
    pub async fn delete_rule(&self, node: &EntityNode, name: &str) -> Result<(), Error> {
        let subscription = node.subscription.as_deref().ok_or_else(|| no_rules(node))?;
        Ok(self.namespace.delete_rule(&node.name, subscription, name).await?)
    }

    /// Parses a rule from texts.
    ///
    /// # Errors
    /// The reason, with the position in its SQL.
    pub fn read_rule(&self, name: &str, text: &RuleText) -> Result<Rule, Error> {
        let described = rule_description(text);
        rule::read_at(self.namespace.clock().now(), &described, name)
    }
}

fn missing(node: &EntityNode) -> Error {
    Error::entity_not_found(&node.entity_path())
}

fn no_rules(node: &EntityNode) -> Error {
    Error::bad_request(format!(
        "Only subscriptions have rules; '{}' is not a subscription.",
        node.entity_path()
    ))
}

fn call(node: &EntityNode, headers: &HeaderMap) -> Call {
    let target = match &node.subscription {
        Some(name) => Target::Subscription(node.name.clone(), name.clone()),
        None => Target::Entity(node.name.clone()),
    };
    Call::of_front_end(target, node.resource(), headers)
}

/// A description with these options. Unlike over Atom, unknown options are refused: a misspelt name would have no
/// effect.
fn description<O: OptionSet>(name: &str, options: &[OptionText]) -> Result<Element, Error> {
    let mut described = Element { name: name.to_owned(), ..Element::default() };
    for OptionText { name, text } in options {
        let Some(option) = option_named::<O>(name) else {
            let known = OPTIONS.iter().filter(|option| option.is_of::<O>());
            let names: Vec<&str> = known.map(|option| option.service_name).collect();
            let noun = O::NOUN;
            let text = format!("A {noun} has no option '{name}'; its options are {}.", names.join(", "));
            return Err(Error::bad_request(text));
        };
        if matches!(option.kind, OptionKind::AuthorizationRules(_)) {
            let text = "Authorization rules hold keys and are changed over the Atom API or in the configuration file.";
            return Err(Error::bad_request(text));
        }
        described.children.push(leaf(name, text));
    }
    Ok(described)
}

/// A description that changes these options only. An empty value is valid where it means that there is none.
fn patch<O: OptionSet>(name: &str, options: &[OptionText]) -> Result<Element, Error> {
    let described = description::<O>(name, options)?;
    for OptionText { name, .. } in options.iter().filter(|option| option.text.trim().is_empty()) {
        let may_be_empty = option_named::<O>(name).is_some_and(|option| {
            use OptionKind::{IdleTime, Target, Text, TimeToLive};
            matches!(option.kind, Text(..) | Target(_) | TimeToLive(..) | IdleTime(_))
        });
        if !may_be_empty {
            return Err(Error::bad_request(format!("The property '{name}' needs a value.")));
        }
    }
    Ok(described)
}

/// The option with this name in Service Bus.
fn option_named<O: OptionSet>(name: &str) -> Option<&'static EntityOption> {
    OPTIONS.iter().find(|option| option.is_of::<O>() && option.service_name == name)
}

fn leaf(name: &str, text: &str) -> Element {
    Element { name: name.to_owned(), text: text.to_owned(), ..Element::default() }
}

fn rule_description(text: &RuleText) -> Element {
    let mut filter =
        Element { name: "Filter".to_owned(), kind: Some(text.filter_kind.to_owned()), ..Element::default() };
    filter.children.push(leaf("SqlExpression", &text.expression));
    filter.children.push(key_values("Parameters", &text.parameters));
    filter.children.extend(text.fields.iter().map(|(name, text)| leaf(name, text)));
    filter.children.push(key_values("Properties", &text.properties));
    let mut described =
        Element { name: "RuleDescription".to_owned(), children: vec![filter], ..Element::default() };
    if let Some(expression) = &text.action {
        described.children.push(Element {
            name: "Action".to_owned(),
            kind: Some("SqlRuleAction".to_owned()),
            children: vec![
                leaf("SqlExpression", expression),
                key_values("Parameters", &text.action_parameters),
            ],
            ..Element::default()
        });
    }
    described
}

fn key_values(name: &str, values: &[(String, Typed)]) -> Element {
    let entry = |(key, value): &(String, Typed)| {
        let value = value_element(value.clone());
        Element { children: vec![leaf("Key", key), value], ..leaf("KeyValueOfstringanyType", "") }
    };
    Element { children: values.iter().map(entry).collect(), ..leaf(name, "") }
}

fn value_element(value: Typed) -> Element {
    let (kind, text) = value.unzip();
    let nil = kind.is_none();
    Element { kind, nil, ..leaf("Value", &text.unwrap_or_default()) }
}
