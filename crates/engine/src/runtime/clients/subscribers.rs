//! Named subscriptions of clients for JMS: durable ones and shared ones. One task handles all requests one by one, so that
//! two clients with the same name never race; it tracks the consumers of each subscription.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::sync::mpsc;

use super::{answer, refusal, rule};
use crate::names::name_key;
use crate::runtime::namespace::Inner;
use crate::runtime::subscriptions::Found;
use crate::runtime::{ChangeError, EntityKind, Mailbox, Namespace};
use crate::{ClientAffinity, Refusal, Selector, SubscriptionOptions};

/// The error text of Service Bus (azure-sdk-for-java 28331).
const IN_USE: Refusal = Refusal::NotAllowed(
    "Cannot create a new consumer on the subscriber because there is already a subscriber using the same name with an active consumer on the same or different topic.",
);
const DIFFERS: Refusal = Refusal::NotAllowed(
    "The shared subscription of this name and client id has active consumers and another topic or selector.",
);
const SHARED_AND_UNSHARED: Refusal = Refusal::NotAllowed(
    "A shared and an unshared durable subscription can't have the same name and client id; unsubscribe first.",
);
const STILL_CONSUMED: Refusal =
    Refusal::NotAllowed("The subscription can't be deleted while it has an active consumer.");

/// A subscription as requested by a client for JMS.
#[derive(Debug, Clone)]
pub struct ClientSubscription {
    /// The topic.
    pub topic: String,
    /// See [`ClientAffinity::subscription_name`].
    pub name: String,
    /// Its options if it is created, with [`SubscriptionOptions::client`].
    pub options: SubscriptionOptions,
    /// Selects its messages; all if `None`.
    pub selector: Option<Selector>,
    /// Whether the client may create subscriptions of the topic; otherwise a missing subscription is
    /// [`Refusal::EntityDeleted`].
    pub may_create: bool,
}

enum Request {
    Subscribe { consumer: u64, wanted: Box<ClientSubscription>, mailbox: Mailbox, tag: u64 },
    Release { consumer: u64, name: String },
    Unsubscribe { name: String, mailbox: Mailbox, tag: u64 },
}

/// The channel to the task, and the counter for consumer ids.
#[derive(Default)]
pub(in crate::runtime) struct Subscribers {
    requests: OnceLock<mpsc::UnboundedSender<Request>>,
    consumers: AtomicU64,
}

/// Registers a consumer of such a subscription until it is dropped.
pub struct SubscriberHold {
    namespace: Namespace,
    consumer: u64,
    name: String,
}

impl std::fmt::Debug for SubscriberHold {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("SubscriberHold").field(&self.name).finish()
    }
}

impl Drop for SubscriberHold {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        self.namespace.ask_subscribers(Request::Release { consumer: self.consumer, name });
    }
}

impl Namespace {
    /// Registers a client as a consumer of a subscription, which is created if it does not exist, or replaced if the client
    /// requests another topic or selector. [`super::super::Response::Done`] is sent to the mailbox once the subscription
    /// exists durably.
    #[must_use = "the client is no consumer any more when the hold is dropped"]
    pub fn subscribe(&self, wanted: ClientSubscription, mailbox: Mailbox, tag: u64) -> SubscriberHold {
        let consumer = self.inner.subscribers.consumers.fetch_add(1, Ordering::Relaxed);
        let hold = SubscriberHold { namespace: self.clone(), consumer, name: wanted.name.clone() };
        self.ask_subscribers(Request::Subscribe { consumer, wanted: Box::new(wanted), mailbox, tag });
        hold
    }

    /// Deletes a subscription without consumers; [`super::super::Response::Done`] is sent to the mailbox once it is deleted
    /// durably.
    pub fn unsubscribe(&self, name: &str, mailbox: Mailbox, tag: u64) {
        self.ask_subscribers(Request::Unsubscribe { name: name.to_owned(), mailbox, tag });
    }

    /// The topic with a client's subscription of this name.
    #[must_use]
    pub fn topic_of_client_subscription(&self, name: &str) -> Option<String> {
        self.find(name).filter(|(_, found)| found.options.client.is_some()).map(|(topic, _)| topic)
    }

    /// The first subscription of this name in any topic: such names are unique in the namespace.
    fn find(&self, name: &str) -> Option<(String, Found)> {
        let topics = self.inner.directory.all().into_iter().filter(|entity| entity.kind == EntityKind::Topic);
        topics.into_iter().find_map(|topic| Some((topic.name.clone(), topic.subscriptions.get(name)?)))
    }

    fn ask_subscribers(&self, request: Request) {
        let requests = self.inner.subscribers.requests.get_or_init(|| {
            let (requests, receiver) = mpsc::unbounded_channel();
            let task = Task { namespace: Arc::downgrade(&self.inner), active: HashMap::new() };
            self.spawn(task.run(receiver));
            requests
        });
        // The task ends only with the runtime.
        let _ = requests.send(request);
    }
}

/// What to do with an existing subscription.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Join,
    Replace,
}

struct Task {
    /// Weak, because the namespace holds the sender.
    namespace: Weak<Inner>,
    /// Consumer ids by the name key of the subscription.
    active: HashMap<Box<str>, HashSet<u64>>,
}

impl Task {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            let Some(inner) = self.namespace.upgrade() else { return };
            let namespace = Namespace { inner };
            match request {
                Request::Subscribe { consumer, wanted, mailbox, tag } => {
                    let result = self.subscribe(&namespace, consumer, *wanted).await;
                    answer(&mailbox, tag, result);
                }
                Request::Release { consumer, name } => self.release(&namespace, consumer, &name).await,
                Request::Unsubscribe { name, mailbox, tag } => {
                    let result = self.unsubscribe(&namespace, &name).await;
                    answer(&mailbox, tag, result);
                }
            }
        }
    }

    async fn subscribe(
        &mut self,
        namespace: &Namespace,
        consumer: u64,
        wanted: ClientSubscription,
    ) -> Result<(), Refusal> {
        let key = name_key(&wanted.name);
        match namespace.find(&wanted.name) {
            // Consumers of a deleted subscription don't count for a new one of the same name.
            None => drop(self.active.remove(&key)),
            Some((topic, found)) => {
                let is_active = self.active.get(&key).is_some_and(|consumers| !consumers.is_empty());
                match decide((&topic, &found.options), &wanted, is_active)? {
                    Decision::Join => {
                        self.active.entry(key).or_default().insert(consumer);
                        return Ok(());
                    }
                    Decision::Replace if wanted.may_create => {
                        let deleted = namespace.delete_subscription(&topic, &wanted.name).await;
                        deleted.map_err(|error| refusal(ChangeError::from(error)))?;
                    }
                    Decision::Replace => {}
                }
            }
        }
        if !wanted.may_create {
            return Err(Refusal::EntityDeleted);
        }
        let ClientSubscription { topic, name, options, selector, .. } = wanted;
        let created = namespace.create_subscription(&topic, &name, options, vec![rule(selector)]).await;
        created.map_err(refusal)?;
        self.active.entry(key).or_default().insert(consumer);
        Ok(())
    }

    /// Removes a consumer; with the last one, a subscription that is not durable is deleted.
    async fn release(&mut self, namespace: &Namespace, consumer: u64, name: &str) {
        let key = name_key(name);
        let Some(consumers) = self.active.get_mut(&key) else { return };
        if !consumers.remove(&consumer) || !consumers.is_empty() {
            return;
        }
        self.active.remove(&key);
        let Some((topic, found)) = namespace.find(name) else { return };
        if found.options.is_temporary()
            && let Err(error) = namespace.delete_subscription(&topic, name).await
        {
            tracing::warn!(topic, name, %error, "a subscription without consumers could not be deleted; the next start deletes it");
        }
    }

    async fn unsubscribe(&mut self, namespace: &Namespace, name: &str) -> Result<(), Refusal> {
        let Some((topic, found)) = namespace.find(name) else { return Err(Refusal::EntityDeleted) };
        if found.options.client.is_none() {
            return Err(Refusal::EntityDeleted);
        }
        if self.active.contains_key(&name_key(name)) {
            return Err(STILL_CONSUMED);
        }
        let deleted = namespace.delete_subscription(&topic, name).await;
        deleted.map(drop).map_err(|error| refusal(ChangeError::from(error)))
    }
}

/// Decides about a request for a name that exists in a topic (Jakarta Messaging 3.1, 8.3).
///
/// # Errors
/// The refusal for the client.
fn decide(
    (topic, known): (&str, &SubscriptionOptions),
    wanted: &ClientSubscription,
    is_active: bool,
) -> Result<Decision, Refusal> {
    let exists = || Refusal::SubscriptionExists(wanted.name.as_str().into());
    let (Some(known), Some(asked)) = (&known.client, &wanted.options.client) else { return Err(exists()) };
    let ClientAffinity { client_id, is_durable, is_shared, selector } = &**known;
    // Names are case-insensitive, client ids are not.
    if *client_id != asked.client_id || *is_durable != asked.is_durable {
        return Err(exists());
    }
    if *is_shared != asked.is_shared {
        return Err(SHARED_AND_UNSHARED);
    }
    let is_same = name_key(topic) == name_key(&wanted.topic) && *selector == asked.selector;
    match (is_active, asked.is_shared) {
        (true, false) => Err(IN_USE),
        (true, true) if !is_same => Err(DIFFERS),
        _ if is_same => Ok(Decision::Join),
        _ => Ok(Decision::Replace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(is_shared: bool, selector: Option<&str>) -> SubscriptionOptions {
        let selector = selector.map(Into::into);
        let client = ClientAffinity { client_id: "c".into(), is_durable: true, is_shared, selector };
        SubscriptionOptions { client: Some(Box::new(client)), ..SubscriptionOptions::default() }
    }

    fn wanted(topic: &str, is_shared: bool, selector: Option<&str>) -> ClientSubscription {
        let (topic, name) = (topic.to_owned(), "s$c$D".to_owned());
        let options = options(is_shared, selector);
        ClientSubscription { topic, name, options, selector: None, may_create: true }
    }

    #[test]
    fn the_decision_depends_on_the_existing_subscription() {
        let (unshared, shared) = (options(false, Some("a")), options(true, None));
        for (known, wanted, is_active, expected) in [
            (&unshared, wanted("T", false, Some("a")), false, Ok(Decision::Join)),
            (&unshared, wanted("T", false, Some("a")), true, Err(IN_USE)),
            (&unshared, wanted("t", false, None), false, Ok(Decision::Replace)),
            (&unshared, wanted("u", false, Some("a")), false, Ok(Decision::Replace)),
            (&unshared, wanted("t", true, Some("a")), false, Err(SHARED_AND_UNSHARED)),
            (&shared, wanted("t", true, None), true, Ok(Decision::Join)),
            (&shared, wanted("t", true, Some("a")), true, Err(DIFFERS)),
            (&shared, wanted("t", true, Some("a")), false, Ok(Decision::Replace)),
        ] {
            assert_eq!(decide(("t", known), &wanted, is_active), expected, "{wanted:?}");
        }
        let exists = Err(Refusal::SubscriptionExists("s$c$D".into()));
        assert_eq!(decide(("t", &SubscriptionOptions::default()), &wanted("t", true, None), false), exists);
        let mut other = options(true, None);
        other.client.as_mut().unwrap().client_id = "C".into();
        assert_eq!(decide(("t", &other), &wanted("t", true, None), false), exists);
    }
}
