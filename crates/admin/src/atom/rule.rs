//! `RuleDescription`.

use peeklock_engine::{EntityTimes, Rule, Timestamp, check_rule_name};

use super::feed::{self, Entry};
use super::path::Target;
use super::xml::{Document, Element};
use super::{Session, action, entity, filter, instant, subscription};
use crate::error::Error;

/// The element that describes a rule.
pub(super) const NAME: &str = "RuleDescription";

/// Topic, subscription and name of a rule.
pub(super) type Path<'a> = (&'a str, &'a str, &'a str);

/// Returns the description of a rule.
///
/// # Errors
/// The rule does not exist.
pub(super) fn get(session: &Session<'_>, path: Path<'_>) -> Result<Document, Error> {
    let rule = find(session, path)?;
    Ok(single(session, path, &rule))
}

fn find(session: &Session<'_>, (topic, subscription, name): Path<'_>) -> Result<Rule, Error> {
    let found = subscription::find(session, topic, subscription)?.subscription;
    let name = name.to_lowercase();
    let rule = found.rules.iter().find(|rule| rule.name.to_lowercase() == name);
    rule.map(|rule| (**rule).clone()).ok_or_else(|| Error::entity_not_found(&session.call.target.display()))
}

/// Adds a rule.
///
/// # Errors
/// It exists, the subscription does not exist, or the description is invalid.
pub(super) async fn create(
    session: &Session<'_>,
    path: Path<'_>,
    description: &Element,
) -> Result<Document, Error> {
    check_name(description)?;
    let (topic, subscription, name) = path;
    let rule = read(session, description, name)?;
    subscription::find(session, topic, subscription)?;
    session.admin.namespace.create_rule(topic, subscription, rule).await?;
    get(session, path)
}

/// Replaces filter and action of a rule.
///
/// # Errors
/// The rule does not exist, or the description is invalid.
pub(super) async fn update(
    session: &Session<'_>,
    path: Path<'_>,
    description: &Element,
) -> Result<Document, Error> {
    check_name(description)?;
    let (topic, subscription, name) = path;
    let current = find(session, path)?;
    let rule = read(session, description, name)?;
    let rule = Rule { name: current.name, created_at: current.created_at, ..rule };
    session.admin.namespace.update_rule(topic, subscription, rule).await?;
    get(session, path)
}

/// Lists the rules of a subscription.
///
/// # Errors
/// The subscription does not exist.
pub(super) fn list(session: &Session<'_>, (topic, subscription): (&str, &str)) -> Result<Document, Error> {
    let found = subscription::find(session, topic, subscription)?.subscription;
    let page = session.page(|skip, top| found.rules.iter().skip(skip).take(top).cloned().collect());
    Ok(feed::feed(session, "Rules", &page, |document, rule| {
        write_entry(document, session, (topic, subscription, &rule.name), rule);
    }))
}

/// Reads the rule of a description; an empty name stands for the default rule's.
///
/// # Errors
/// The reason.
pub(super) fn read(session: &Session<'_>, description: &Element, name: &str) -> Result<Rule, Error> {
    read_at(session.entity_now(), description, name)
}

/// [`read`] for a rule created at that time.
pub(super) fn read_at(created_at: Timestamp, description: &Element, name: &str) -> Result<Rule, Error> {
    let name = if name.is_empty() { peeklock_engine::DEFAULT_RULE } else { name };
    check_rule_name(name)
        .map_err(|reason| Error::bad_request(format!("'{name}' can't be the name of a rule: {reason}.")))?;
    let (filter, action) = (filter::read(description)?, action::read(description)?);
    Ok(Rule { name: name.into(), filter, action, created_at })
}

fn check_name(description: &Element) -> Result<(), Error> {
    if description.name == NAME {
        return Ok(());
    }
    let name = &description.name;
    Err(Error::bad_request(format!("A rule is described by a {NAME}, not by '{name}'.")))
}

fn single(session: &Session<'_>, path: Path<'_>, rule: &Rule) -> Document {
    let mut document = Document::new();
    write_entry(&mut document, session, path, rule);
    document
}

fn write_entry(document: &mut Document, session: &Session<'_>, path: Path<'_>, rule: &Rule) {
    let (topic, subscription, _) = path;
    let target = Target::Rule(topic.to_owned(), subscription.to_owned(), rule.name.to_string());
    let times = EntityTimes { created_at: rule.created_at, updated_at: rule.created_at };
    let entry = Entry { target: &target, title: &rule.name, times };
    feed::entry(document, session, &entry, |document| {
        entity::description(document, NAME, |document| {
            filter::write(document, &rule.filter);
            action::write(document, rule.action.as_ref());
            document.text("CreatedAt", &instant::text(rule.created_at));
            document.text("Name", &rule.name);
        });
    });
}
