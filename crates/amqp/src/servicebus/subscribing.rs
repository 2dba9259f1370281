//! Consumers of topics, as clients for JMS attach them: each gets a subscription of its own or shares one (AMQP Binding for JMS).
//!
//! | consumer | durable, expiry | capabilities of the source | name of the link |
//! |---|---|---|---|
//! | of a subscription of its own | none, link-detach | `topic` | any |
//! | the same, durable | unsettled-state, never | `topic` | that of the subscription |
//! | shared | none, link-detach | `topic`, `shared` | that of the subscription, `|`, anything |
//! | the same, durable | unsettled-state, never | `topic`, `shared` | the same, or without `|` |
//!
//! With `global` the subscription belongs to clients without a client id; otherwise to those with this container-id. An attach
//! without a source names a durable subscription that is to be deleted: it is when the link is closed.

use std::sync::Arc;

use peeklock_access::Resource;
use peeklock_engine::runtime::{ClientSubscription, Response, Temporary};
use peeklock_engine::{
    CLIENT_ID_CHARS_MAX, ClientAffinity, Refusal, Right, Selector, SubQueue, SubscriptionOptions,
};
use rand::RngExt;

use super::authorization::Need;
use super::entities::{Entity, Kind};
use super::errors::Fault;
use super::holds::{Confirmed, Creating, TEMPORARY_TOPIC};
use super::selector_filter::SelectorFilter;
use super::{ConnectionHandler, Link, Pending, answer};
use crate::endpoint::{Connection, LinkId};
use crate::wire::performative::{Attach, Terminus};
use crate::wire::{Str, Value};

const TOPIC: &str = "topic";
const SHARED: &str = "shared";
const GLOBAL: &str = "global";
/// What of a source's capabilities holds for consumers of topics.
const CAPABILITIES: [&str; 4] = [TOPIC, TEMPORARY_TOPIC, SHARED, GLOBAL];
const EXPIRES_NEVER: &str = "never";
/// Terminus durability: what is unsettled survives too.
const UNSETTLED_STATE: u32 = 2;
/// What follows the name of a subscription in the name of a link.
const NAME_END: char = '|';

/// Open properties of Service Bus's client for JMS: after how many idle seconds what it creates is deleted.
const QUEUE_IDLE: &str = "com.microsoft:queue-auto-delete-on-idle-duration-in-seconds";
const TOPIC_IDLE: &str = "com.microsoft:topic-auto-delete-on-idle-duration-in-seconds";
const SUBSCRIPTION_IDLE: &str = "com.microsoft:subscriber-auto-delete-on-idle-duration-in-seconds";
/// Service Bus deletes nothing before it was idle for five minutes.
const IDLE_MS_MIN: u64 = 300_000;

/// What a client for JMS says when it opens its connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    /// The client id, or an id that the client made up.
    container_id: Box<str>,
    pub(super) queue_idle_ms: Option<u64>,
    pub(super) topic_idle_ms: Option<u64>,
    subscription_idle_ms: Option<u64>,
}

impl Client {
    pub(super) fn of(container_id: &str, properties: &[(Str, Value)]) -> Self {
        let idle_ms = |name: &str| {
            let (_, value) = properties.iter().find(|(key, _)| **key == *name)?;
            let seconds = match value {
                Value::Long(seconds) => u64::try_from(*seconds).ok()?,
                Value::Int(seconds) => u64::try_from(*seconds).ok()?,
                _ => return None,
            };
            (seconds > 0).then(|| seconds.saturating_mul(1000).max(IDLE_MS_MIN))
        };
        // One that is longer is refused wherever it matters.
        let container_id: String = container_id.chars().take(CLIENT_ID_CHARS_MAX + 1).collect();
        Self {
            container_id: container_id.into(),
            queue_idle_ms: idle_ms(QUEUE_IDLE),
            topic_idle_ms: idle_ms(TOPIC_IDLE),
            subscription_idle_ms: idle_ms(SUBSCRIPTION_IDLE),
        }
    }
}

/// Whether a receiver's attach to an entity asks for a subscription.
pub(super) fn is_consumer(source: &Terminus, entity: &Entity) -> bool {
    let has = |name: &str| has(&source.capabilities, name);
    entity.kind == Kind::Topic
        && entity.address.sub_queue == SubQueue::Main
        && (has(TOPIC) || has(TEMPORARY_TOPIC) || has(SHARED))
}

/// Whether a source outlives its link.
pub(super) fn is_durable(source: &Terminus) -> bool {
    source.durable > 0 || source.expiry_policy.as_deref() == Some(EXPIRES_NEVER)
}

fn has(capabilities: &[Str], name: &str) -> bool {
    capabilities.iter().any(|capability| **capability == *name)
}

/// The name of a subscription in the name of a link.
fn named(link: &str) -> &str {
    link.split(NAME_END).next().unwrap_or(link)
}

impl ConnectionHandler {
    /// A consumer of a topic; the attach is answered when its subscription is there.
    pub(super) fn attach_consumer(
        &mut self,
        link: LinkId,
        session: u16,
        topic: &Arc<Entity>,
        attach: Attach,
    ) -> Result<(), Fault> {
        let Some(source) = &attach.source else { return Err(Fault::Internal) };
        self.check_owned(topic)?;
        self.check_holds()?;
        self.enter_session(session, topic, true)?;
        let filter = SelectorFilter::find(&source.filter)?;
        let selector = filter.as_ref().map(|filter| filter.selector.clone());
        let (is_durable, is_shared) = (is_durable(source), has(&source.capabilities, SHARED));
        let client_id = if has(&source.capabilities, GLOBAL) { "" } else { &*self.client.container_id };
        let affinity = ClientAffinity {
            client_id: client_id.into(),
            is_durable,
            is_shared,
            selector: selector.as_ref().map(|selector| selector.text().into()),
        };
        let confirmed = Confirmed {
            durable: if is_durable { UNSETTLED_STATE } else { 0 },
            expiry_policy: is_durable.then(|| EXPIRES_NEVER.into()).or_else(|| source.expiry_policy.clone()),
            capabilities: source
                .capabilities
                .iter()
                .filter(|one| CAPABILITIES.contains(&&***one))
                .cloned()
                .collect(),
            selector: filter,
        };
        if is_durable || is_shared {
            let name = affinity.subscription_name(named(&attach.name)).map_err(Fault::Argument)?;
            self.share(link, topic, (name, affinity, selector), confirmed, (session, attach));
            return Ok(());
        }
        self.check_manages(&topic.resource, &topic.uri)?;
        let id = format!("{:016x}", self.random.random::<u64>());
        let named = |affinity: &ClientAffinity| affinity.subscription_name(&id);
        let (name, affinity) = match named(&affinity) {
            Ok(name) => (name, affinity),
            // The container-id of a client that is none for JMS may be anything.
            Err(_) => {
                let affinity = ClientAffinity { client_id: "".into(), ..affinity };
                (named(&affinity).map_err(Fault::Argument)?, affinity)
            }
        };
        let address = address_of(topic, &name);
        let creating = Creating { session, attach, address, missing: None };
        let (topic, options) = (topic.address.name.clone(), self.options_of_subscription(affinity));
        self.hold(link, Some(confirmed), creating, |handler, tag| {
            let wanted = Temporary::Subscription { topic, name, options, selector };
            handler.entities.create_temporary(wanted, handler.outbox.return_address(), tag)
        });
        Ok(())
    }

    /// A consumer of a subscription that may exist, and may have other consumers.
    fn share(
        &mut self,
        link: LinkId,
        topic: &Arc<Entity>,
        (name, affinity, selector): (String, ClientAffinity, Option<Selector>),
        confirmed: Confirmed,
        (session, attach): (u16, Attach),
    ) {
        let manage = self.check_manages(&topic.resource, &topic.uri);
        let may_create = manage.is_ok();
        let creating = Creating { session, attach, address: address_of(topic, &name), missing: manage.err() };
        let (topic, options) = (topic.address.name.clone(), self.options_of_subscription(affinity));
        self.hold(link, Some(confirmed), creating, |handler, tag| {
            let wanted = ClientSubscription { topic, name, options, selector, may_create };
            handler.entities.subscribe(wanted, handler.outbox.return_address(), tag)
        });
    }

    fn options_of_subscription(&self, affinity: ClientAffinity) -> SubscriptionOptions {
        SubscriptionOptions {
            auto_delete_on_idle_ms: self.client.subscription_idle_ms,
            client: Some(Box::new(affinity)),
            ..SubscriptionOptions::default()
        }
    }

    /// A receiver without a source: the durable subscription that the link is named after shall be deleted.
    pub(super) fn attach_unsubscribing(
        &mut self,
        link: LinkId,
        attach: Attach,
        connection: &mut Connection,
    ) -> Result<(), Fault> {
        let is_global = has(&attach.desired_capabilities, GLOBAL);
        let client_id = if is_global { "" } else { &*self.client.container_id };
        let affinity =
            ClientAffinity { client_id: client_id.into(), is_durable: true, ..ClientAffinity::default() };
        let name = affinity.subscription_name(named(&attach.name)).map_err(Fault::Argument)?;
        let Some(topic) = self.entities.topic_of_client_subscription(&name) else {
            return Err(self.not_found(&name));
        };
        let uri = self.uri(&format!("{topic}/Subscriptions/{name}"));
        self.authorization.permit(&Resource::entity(&topic), Need::Right(Right::Manage), &uri)?;
        self.links.insert(link, Link::Subscription { name });
        connection.hold_end(link);
        let source = Terminus {
            address: Some(topic.into()),
            durable: UNSETTLED_STATE,
            expiry_policy: Some(EXPIRES_NEVER.into()),
            ..Terminus::default()
        };
        let reply = Attach {
            source: Some(source),
            initial_delivery_count: Some(0),
            ..answer::to_receiver(attach, Kind::Topic)
        };
        connection.accept_attach(link, reply, 0);
        Ok(())
    }

    /// The peer ends a link whose end waits for the broker: closing it deletes the subscription.
    pub(super) fn ending(&mut self, link: LinkId, closed: bool, connection: &mut Connection) {
        let Some(Link::Subscription { name }) = self.links.get(&link).filter(|_| closed) else {
            return self.end(link, None, connection);
        };
        let name = name.clone();
        let tag = self.pending.insert(Pending::Unsubscribe { link });
        let tag = u64::try_from(tag).unwrap_or(u64::MAX);
        self.entities.unsubscribe(&name, self.outbox.return_address(), tag);
    }

    /// The subscription is gone, or not.
    pub(super) fn unsubscribed(&mut self, link: LinkId, response: Response, connection: &mut Connection) {
        let fault = match response {
            // Another one deleted it meanwhile.
            Response::Done(Ok(()) | Err(Refusal::EntityDeleted)) => None,
            Response::Done(Err(refusal)) => Some(Fault::Refused(refusal)),
            _ => Some(Fault::Internal),
        };
        self.end(link, fault, connection);
    }

    fn end(&mut self, link: LinkId, fault: Option<Fault>, connection: &mut Connection) {
        let error = fault.map(|fault| self.tracker().error(&fault));
        connection.release_end(link, error);
        self.detached(link);
    }
}

/// The address of a subscription of a topic.
fn address_of(topic: &Entity, name: &str) -> String {
    format!("{}/Subscriptions/{name}", topic.address.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_after_their_subscription() {
        for (link, name) in
            [("s", "s"), ("s|global", "s"), ("s|volatile2", "s"), ("s|2", "s"), ("|", ""), ("", "")]
        {
            assert_eq!(named(link), name, "{link}");
        }
    }

    #[test]
    fn idle_times_are_those_of_the_open_in_seconds() {
        let client = |value| Client::of("c", &[(QUEUE_IDLE.into(), value)]).queue_idle_ms;
        assert_eq!(client(Value::Long(600)), Some(600_000));
        assert_eq!(client(Value::Long(1)), Some(IDLE_MS_MIN));
        assert_eq!(client(Value::Long(i64::MAX)), Some((i64::MAX as u64).saturating_mul(1000)));
        assert_eq!(client(Value::Long(-1)), None);
        assert_eq!(client(Value::Long(0)), None);
        assert_eq!(client("600".into()), None);
        assert_eq!(Client::of("c", &[]).subscription_idle_ms, None);
    }
}
