//! Queues and topics: operations on both, by their common path.

use peeklock_engine::runtime::{EntityDescription, EntityKind};
use peeklock_engine::schema::OptionSet;
use peeklock_engine::{EntityOptions, Forwarding, QueueOptions, TopicOptions, check_entity_name, same_name};

use super::details::EntityDetails;
use super::feed::{self, Entry};
use super::path::Target;
use super::properties;
use super::xml::{Document, Element, INSTANCE, SERVICE_BUS};
use super::{Session, orders};
use crate::Limits;
use crate::error::Error;

/// The element that describes a queue.
pub(super) const QUEUE: &str = "QueueDescription";
/// The element that describes a topic.
pub(super) const TOPIC: &str = "TopicDescription";

/// Returns the description of a queue or topic.
///
/// # Errors
/// No queue or topic has that name.
pub(super) fn get(session: &Session<'_>, name: &str) -> Result<Document, Error> {
    let found = session.admin.namespace.describe(name).ok_or_else(|| Error::entity_not_found(name))?;
    Ok(single(session, &found))
}

/// Creates a queue or topic; the description decides which.
///
/// # Errors
/// It exists, or the description is invalid.
pub(super) async fn create(
    session: &Session<'_>,
    name: &str,
    description: &Element,
) -> Result<Document, Error> {
    check_entity_name(name).map_err(|reason| {
        Error::bad_request(format!("'{name}' can't be the name of an entity: {reason}."))
    })?;
    if description.name == TOPIC && !session.admin.entity_limits.tier.has_topics() {
        return Err(no_topics(session));
    }
    let options = read(session, description, None)?;
    check_forwarding(session, forwarding(&options), None)?;
    let created = session.admin.namespace.create(name, options).await?;
    Ok(single(session, &created))
}

/// Replaces the options of a queue or topic.
///
/// # Errors
/// No queue or topic has that name, or the description is invalid.
pub(super) async fn update(
    session: &Session<'_>,
    name: &str,
    description: &Element,
) -> Result<Document, Error> {
    let _alone = session.admin.updates.lock().await;
    let current = session.admin.namespace.options(name).ok_or_else(|| Error::entity_not_found(name))?;
    let options = read(session, description, Some(&current))?;
    check_forwarding(session, forwarding(&options), forwarding(&current))?;
    let updated = session.admin.namespace.update(name, options).await?;
    Ok(single(session, &updated))
}

/// Lists queues or topics.
pub(super) fn list(session: &Session<'_>, kind: EntityKind) -> Document {
    let page = session.page(|skip, top| session.admin.namespace.describe_all(kind, skip, top));
    let title = match kind {
        EntityKind::Queue => "Queues",
        EntityKind::Topic => "Topics",
    };
    feed::feed(session, title, &page, |document, found| write_entry(document, session, found))
}

fn read(
    session: &Session<'_>,
    description: &Element,
    current: Option<&EntityOptions>,
) -> Result<EntityOptions, Error> {
    match (description.name.as_str(), current) {
        (QUEUE, None) => Ok(read_options::<QueueOptions>(session, description, None)?.into()),
        (TOPIC, None) => Ok(read_options::<TopicOptions>(session, description, None)?.into()),
        (QUEUE, Some(EntityOptions::Queue(current))) => {
            Ok(read_options(session, description, Some(current))?.into())
        }
        (TOPIC, Some(EntityOptions::Topic(current))) => {
            Ok(read_options(session, description, Some(current))?.into())
        }
        (QUEUE, Some(_)) => Err(Error::bad_request("The entity is a topic and can't become a queue.")),
        (TOPIC, Some(_)) => Err(Error::bad_request("The entity is a queue and can't become a topic.")),
        (other, _) => Err(Error::bad_request(format!(
            "A queue is described by a QueueDescription, a topic by a TopicDescription, not by '{other}'."
        ))),
    }
}

fn read_options<O: OptionSet>(
    session: &Session<'_>,
    description: &Element,
    current: Option<&O>,
) -> Result<O, Error> {
    let options = session.reading(current).options(description)?;
    let limits = &session.admin.entity_limits;
    check_sizes(&options, current, limits)?;
    check_express(&options)?;
    Ok(options)
}

/// With the wording of the service's refusal of options (inferred: no source has one for topics).
fn no_topics(session: &Session<'_>) -> Error {
    let (namespace, tier) = (feed::namespace_name(session), session.admin.entity_limits.tier.name());
    Error::bad_request(format!(
        "A Topic cannot be created because the namespace '{namespace}' is using '{tier}' tier."
    ))
}

const fn forwarding(options: &EntityOptions) -> Option<&Forwarding> {
    match options {
        EntityOptions::Queue(queue) => Some(&queue.forwarding),
        EntityOptions::Topic(_) => None,
    }
}

/// Selects one of the two targets.
type TargetOf = fn(&Forwarding) -> Option<&str>;

/// Checks that the targets exist and the caller may send to them; unchanged targets were checked when they were set.
///
/// # Errors
/// The reason for the refusal.
pub(super) fn check_forwarding(
    session: &Session<'_>,
    asked: Option<&Forwarding>,
    current: Option<&Forwarding>,
) -> Result<(), Error> {
    let Some(asked) = asked else { return Ok(()) };
    let targets: [(&str, TargetOf, _); 2] = [
        ("ForwardTo", |to| to.forward_to.as_deref(), super::call::FORWARD_TOKEN),
        (
            "ForwardDeadLetteredMessagesTo",
            |to| to.forward_dead_lettered_messages_to.as_deref(),
            super::call::DEAD_LETTER_FORWARD_TOKEN,
        ),
    ];
    for (property, of, header) in targets {
        let Some(target) = of(asked) else { continue };
        if current.and_then(of).is_some_and(|current| same_name(current, target)) {
            continue;
        }
        session.call.authorize_forwarding(session.admin, target, &header)?;
        if session.admin.namespace.options(target).is_none() {
            return Err(Error::forwarding_target_not_found(property, target));
        }
    }
    Ok(())
}

/// Checks that the maximum message size fits the store and a connection, and the entity can hold such a message.
/// Unchanged sizes are allowed.
fn check_sizes<O: OptionSet>(options: &O, current: Option<&O>, limits: &Limits) -> Result<(), Error> {
    let sizes = options.sizes_bytes();
    let Some((message_bytes, total_bytes)) = sizes else { return Ok(()) };
    if current.map(OptionSet::sizes_bytes) == Some(sizes) {
        return Ok(());
    }
    if message_bytes > total_bytes {
        return Err(Error::bad_request(
            "The property 'MaxMessageSizeInKilobytes' must not exceed 'MaxSizeInMegabytes'.",
        ));
    }
    if message_bytes > limits.message_size_max_bytes {
        return Err(Error::bad_request(format!(
            "The property 'MaxMessageSizeInKilobytes' must be at most {} with this broker's configuration.",
            limits.message_size_max_bytes >> 10
        )));
    }
    Ok(())
}

/// In the words of the service (azure-sdk-for-js 10984).
fn check_express<O: OptionSet>(options: &O) -> Result<(), Error> {
    if options.is_express_with_duplicate_detection() {
        return Err(Error::bad_request(
            "Both DelayedPersistence property and RequiresDuplicateDetection property cannot be enabled together.",
        ));
    }
    Ok(())
}

/// The element of a description around its properties.
pub(super) fn description(document: &mut Document, name: &str, inner: impl FnOnce(&mut Document)) {
    document.element(name, &[("xmlns", SERVICE_BUS), ("xmlns:i", INSTANCE)], inner);
}

fn single(session: &Session<'_>, found: &EntityDescription) -> Document {
    let mut document = Document::new();
    write_entry(&mut document, session, found);
    document
}

fn write_entry(document: &mut Document, session: &Session<'_>, found: &EntityDescription) {
    let details = EntityDetails {
        times: found.times,
        accessed_at: found.accessed_at,
        counts: found.counts,
        is_damaged: found.is_damaged,
        subscriptions: found.subscriptions,
        sql_filters: found.sql_filters,
        correlation_filters: found.correlation_filters,
    };
    let entry = Entry { target: &Target::Entity(found.name.clone()), title: &found.name, times: found.times };
    let audience = &session.audience();
    feed::entry(document, session, &entry, |document| match &*found.options {
        EntityOptions::Queue(options) => self::description(document, QUEUE, |document| {
            properties::write(document, orders::QUEUE, (options, &details), audience);
        }),
        EntityOptions::Topic(options) => self::description(document, TOPIC, |document| {
            properties::write(document, orders::TOPIC, (options, &details), audience);
        }),
    });
}
