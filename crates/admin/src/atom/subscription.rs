//! `SubscriptionDescription`.

use peeklock_engine::runtime::SubscriptionDescription;
use peeklock_engine::{ClientAffinity, Rule, SubscriptionOptions, check_subscription_name};

use super::details::EntityDetails;
use super::feed::{self, Entry};
use super::path::Target;
use super::properties;
use super::xml::{Document, Element};
use super::{Session, entity, orders, rule};
use crate::error::Error;

/// The element that describes a subscription.
pub(super) const NAME: &str = "SubscriptionDescription";
/// The element that tells whether the subscription belongs to a client for JMS.
const CLIENT_AFFINE: &str = "IsClientAffine";

/// Returns the description of a subscription.
///
/// # Errors
/// The subscription does not exist.
pub(super) fn get(session: &Session<'_>, topic: &str, name: &str) -> Result<Document, Error> {
    let found = find(session, topic, name)?;
    Ok(single(session, topic, &found))
}

/// Looks a subscription up.
///
/// # Errors
/// The subscription does not exist.
pub(super) fn find(session: &Session<'_>, topic: &str, name: &str) -> Result<SubscriptionDescription, Error> {
    let found = session.admin.namespace.describe_subscription(topic, name);
    found.ok_or_else(|| Error::entity_not_found(&session.call.target.display()))
}

/// Creates a subscription with the rule in its description, otherwise with the one that matches everything.
///
/// # Errors
/// It exists, the topic does not exist, or the description is invalid.
pub(super) async fn create(
    session: &Session<'_>,
    (topic, name): (&str, &str),
    description: &Element,
) -> Result<Document, Error> {
    check_subscription_name(name).map_err(|reason| {
        Error::bad_request(format!("'{name}' can't be the name of a subscription: {reason}."))
    })?;
    let options = read(session, description, None)?;
    let default_rule = match description.child("DefaultRuleDescription").filter(|rule| !rule.nil) {
        None => Rule { created_at: session.entity_now(), ..Rule::default_rule() },
        Some(rule) => rule::read(session, rule, rule.text_of("Name").map(str::trim).unwrap_or_default())?,
    };
    let namespace = &session.admin.namespace;
    entity::check_forwarding(session, Some(&options.forwarding), None)?;
    let created = namespace.create_subscription(topic, name, options, vec![default_rule]).await?;
    Ok(single(session, topic, &created))
}

/// Replaces the options of a subscription; its rules are unchanged.
///
/// # Errors
/// The subscription does not exist, or the description is invalid.
pub(super) async fn update(
    session: &Session<'_>,
    (topic, name): (&str, &str),
    description: &Element,
) -> Result<Document, Error> {
    let _alone = session.admin.updates.lock().await;
    let current = find(session, topic, name)?.subscription;
    let options = read(session, description, Some(&current.options))?;
    entity::check_forwarding(session, Some(&options.forwarding), Some(&current.options.forwarding))?;
    let updated = session.admin.namespace.update_subscription(topic, name, options).await?;
    Ok(single(session, topic, &updated))
}

/// Lists the subscriptions of a topic.
///
/// # Errors
/// The topic does not exist.
pub(super) fn list(session: &Session<'_>, topic: &str) -> Result<Document, Error> {
    let missing = || Error::entity_not_found(topic);
    let namespace = &session.admin.namespace;
    namespace.describe_subscriptions(topic, 0, 0).ok_or_else(missing)?;
    let page =
        session.page(|skip, top| namespace.describe_subscriptions(topic, skip, top).unwrap_or_default());
    let write = |document: &mut Document, found: &_| write_entry(document, session, topic, found);
    Ok(feed::feed(session, "Subscriptions", &page, write))
}

fn read(
    session: &Session<'_>,
    description: &Element,
    current: Option<&SubscriptionOptions>,
) -> Result<SubscriptionOptions, Error> {
    if description.name != NAME {
        let name = &description.name;
        return Err(Error::bad_request(format!("A subscription is described by a {NAME}, not by '{name}'.")));
    }
    session.reading(current).options(description)
}

fn single(session: &Session<'_>, topic: &str, found: &SubscriptionDescription) -> Document {
    let mut document = Document::new();
    write_entry(&mut document, session, topic, found);
    document
}

fn write_entry(document: &mut Document, session: &Session<'_>, topic: &str, found: &SubscriptionDescription) {
    let subscription = &found.subscription;
    let details = EntityDetails {
        times: subscription.times,
        accessed_at: found.accessed_at,
        counts: found.counts,
        is_damaged: false,
        subscriptions: 0,
        sql_filters: 0,
        correlation_filters: 0,
    };
    let name = &*subscription.name;
    let target = Target::Subscription(topic.to_owned(), name.to_owned());
    let entry = Entry { target: &target, title: name, times: subscription.times };
    feed::entry(document, session, &entry, |document| {
        entity::description(document, NAME, |document| {
            let described = (&subscription.options, &details);
            properties::write(document, orders::SUBSCRIPTION, described, &session.audience());
            match &subscription.options.client {
                Some(client) => write_client(document, client),
                None if session.audience().has(CLIENT_AFFINE) => document.text(CLIENT_AFFINE, "false"),
                None => {}
            }
        });
    });
}

/// Writes the client that owns a JMS subscription: elements that no SDK for messages reads; their names are those in
/// the service's own library (`Microsoft.ServiceBus.Messaging.ClientAffineProperties`).
fn write_client(document: &mut Document, client: &ClientAffinity) {
    document.text(CLIENT_AFFINE, "true");
    document.element("ClientAffineProperties", &[], |document| {
        document.text("ClientId", &client.client_id);
        document.text("IsDurable", &client.is_durable.to_string());
        document.text("IsShared", &client.is_shared.to_string());
    });
}
