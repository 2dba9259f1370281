//! Descriptions as a client of the management API writes and reads them: with the same names, values and order as the
//! broker's, by the same code.

use peeklock_engine::schema::{EntityOption, OPTIONS, OptionKind, OptionSet};
use peeklock_engine::{DEFAULT_RULE, Rule, Tier, Timestamp};

use super::properties::{Audience, Reading};
use super::rule::NAME as RULE;
use super::xml::{ATOM, Document};
use super::{action, entity, filter, orders, properties, xml};
use crate::Limits;

pub use super::xml::Element;

/// The protocol version of this client: that of the SDKs, which has every option.
pub const API_VERSION: &str = "2021-05";
/// The element after which the description of a new subscription has its first rule.
const BEFORE_DEFAULT_RULE: &str = "DeadLetteringOnFilterEvaluationExceptions";

/// One entity in an answer.
#[derive(Debug)]
pub struct Entry {
    /// The entity's name; for a subscription without that of its topic.
    pub name: String,
    /// The element that describes it, such as a `QueueDescription`.
    pub description: Element,
}

/// The entities of an answer: a feed, or a single one. A namespace answers a request for a missing entity with a feed
/// without entries.
///
/// # Errors
/// The reason, as the end of a sentence.
pub fn entries(document: &[u8]) -> Result<Vec<Entry>, String> {
    let root = xml::parse(document)?;
    let (name, entries) = match root.name.as_str() {
        "feed" => ("feed", root.children.into_iter().filter(|child| child.name == "entry").collect()),
        "entry" => ("entry", vec![root]),
        other => return Err(format!("it is neither a feed nor an entry but '{other}'")),
    };
    entries.into_iter().map(|entry| read_entry(entry, name)).collect()
}

fn read_entry(mut entry: Element, document: &str) -> Result<Entry, String> {
    let name = entry.text_of("title").unwrap_or_default().trim().to_owned();
    let content = entry.children.iter_mut().find(|child| child.name == "content");
    let description = content.and_then(|content| content.children.pop());
    let description = description.ok_or_else(|| format!("an entry of the {document} has no description"))?;
    Ok(Entry { name, description })
}

/// Reads the options of a description. Missing ones have their defaults.
///
/// # Errors
/// An invalid value.
pub fn read_options<O: OptionSet>(description: &Element) -> Result<O, String> {
    // The namespace has accepted the values, so no limits apply.
    let limits = Limits {
        auto_delete_on_idle_min_ms: 0,
        message_time_to_live_max_ms: None,
        message_size_max_bytes: u64::MAX,
        tier: Tier::Premium,
    };
    let reading =
        Reading { limits: &limits, namespace: "", now: Timestamp::default(), current: None, is_patch: false };
    reading.options(description).map_err(|error| error.text.into_owned())
}

/// The tier in a description of a namespace; `None` if it names none.
#[must_use]
pub fn read_tier(description: &Element) -> Option<Tier> {
    let name = description.text_of("MessagingSKU")?;
    Tier::ALL.into_iter().find(|tier| tier.name() == name.trim())
}

/// Reads the rule of a description.
///
/// # Errors
/// An invalid filter or action.
pub fn read_rule(description: &Element) -> Result<Rule, String> {
    let name = description.text_of("Name").map(str::trim).filter(|name| !name.is_empty());
    let filter = filter::read(description).map_err(|error| error.text.into_owned())?;
    let action = action::read(description).map_err(|error| error.text.into_owned())?;
    let created_at = Timestamp::default();
    Ok(Rule { name: name.unwrap_or(DEFAULT_RULE).into(), filter, action, created_at })
}

/// The entry that requests an entity with these options in a namespace of this tier, which refuses sizes that it does not
/// offer; `host` begins the URLs of forwarding, and `rule` is the first rule of a new subscription.
#[must_use]
pub fn write_options<O: OptionSet>(options: &O, tier: Tier, host: &str, rule: Option<&Rule>) -> Vec<u8> {
    let (name, order) = match O::NOUN {
        "queue" => (entity::QUEUE, orders::QUEUE),
        "topic" => (entity::TOPIC, orders::TOPIC),
        _ => (super::subscription::NAME, orders::SUBSCRIPTION),
    };
    let audience = Audience { host, api_version: API_VERSION };
    let others = OPTIONS.iter().map(|option| option.service_name).filter(|name| !order.contains(name));
    write_entry(name, |document| {
        for name in order.iter().copied().chain(others) {
            let option = EntityOption::of_service(name);
            let is_offered =
                |option: &&EntityOption| !matches!(option.kind, OptionKind::Size(..)) || option.since <= tier;
            if let Some(option) = option.filter(is_offered) {
                properties::write_option(document, option, options, &audience);
            }
            if let Some(rule) = rule.filter(|_| name == BEFORE_DEFAULT_RULE) {
                document.element("DefaultRuleDescription", &[], |document| rule_parts(document, rule));
            }
        }
    })
}

/// The entry that requests a rule.
#[must_use]
pub fn write_rule(rule: &Rule) -> Vec<u8> {
    write_entry(RULE, |document| rule_parts(document, rule))
}

fn rule_parts(document: &mut Document, rule: &Rule) {
    filter::write(document, &rule.filter);
    action::write(document, rule.action.as_ref());
    document.text("Name", &rule.name);
}

fn write_entry(description: &str, inner: impl FnOnce(&mut Document)) -> Vec<u8> {
    let mut document = Document::new();
    document.element("entry", &[("xmlns", ATOM)], |document| {
        document.element("content", &[("type", "application/xml")], |document| {
            entity::description(document, description, inner);
        });
    });
    document.finish()
}

/// The reason for a refusal: the text of an error's body, if there is one.
#[must_use]
pub fn error_text(body: &[u8]) -> Option<String> {
    let root = xml::parse(body).ok()?;
    root.text_of("Detail").map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use peeklock_engine::{Filter, QueueOptions, SubscriptionOptions};

    use super::*;

    #[test]
    fn options_come_back_as_they_were_written() {
        let mut options: QueueOptions = Tier::Premium.defaults();
        options.requires_session = true;
        options.forwarding.forward_to = Some("other".into());
        let written = write_options(&options, Tier::Premium, "localhost:5672", None);
        let [entry] = &*entries(&written).unwrap() else { panic!("one entry") };
        assert_eq!(entry.description.name, "QueueDescription");
        assert_eq!(read_options::<QueueOptions>(&entry.description), Ok(options));
    }

    #[test]
    fn a_new_subscription_names_its_first_rule() {
        let rule = Rule {
            name: "eu".into(),
            filter: Filter::sql("region = 'eu'", Vec::new()).unwrap(),
            action: None,
            created_at: Timestamp::default(),
        };
        let written = write_options(&SubscriptionOptions::default(), Tier::Premium, "localhost", Some(&rule));
        let [entry] = &*entries(&written).unwrap() else { panic!("one entry") };
        let description = entry.description.child("DefaultRuleDescription").unwrap();
        assert_eq!(read_rule(description).unwrap(), rule);
    }

    #[test]
    fn errors_have_a_text() {
        let body = b"<Error><Code>404</Code><Detail>SubCode=40400. Not Found.</Detail></Error>";
        assert_eq!(error_text(body).as_deref(), Some("SubCode=40400. Not Found."));
        assert_eq!(error_text(b"<html>"), None);
        assert!(entries(b"<Error/>").is_err());
    }
}
