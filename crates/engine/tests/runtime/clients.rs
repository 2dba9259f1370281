//! Entities created by attaching clients: temporary entities, and subscriptions of JMS clients.

use std::sync::Arc;

use peeklock_engine::runtime::{
    ClientSubscription, Mailbox, MailboxReceiver, Namespace, NamespaceOptions, Output, Response, Temporary,
};
use peeklock_engine::{ClientAffinity, QueueOptions, Refusal, Selector, SubscriptionOptions, TopicOptions};
use peeklock_storage::{Error, MemoryStore, ShardId, Store};

use crate::broker::{START, TestClock, quiet};

async fn namespace(store: &MemoryStore) -> Namespace {
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let options = NamespaceOptions { body_cache_bytes: 0, seed: Some(1), ..NamespaceOptions::default() };
    Namespace::start(shard, Arc::new(TestClock::new(START)), options).await.unwrap()
}

/// A namespace with the topics `t` and `u`, and a client's mailbox.
async fn with_topics() -> (MemoryStore, Namespace, Mailbox, MailboxReceiver) {
    let store = MemoryStore::new();
    let namespace = namespace(&store).await;
    for topic in ["t", "u"] {
        namespace.declare(topic, TopicOptions::default()).await.unwrap();
    }
    let (mailbox, outputs) = Mailbox::new();
    (store, namespace, mailbox, outputs)
}

async fn answer(outputs: &mut MailboxReceiver) -> Result<(), Refusal> {
    match outputs.recv().await {
        Some(Output::Response { tag: 7, response: Response::Done(result) }) => result,
        other => panic!("expected an answer, got {other:?}"),
    }
}

fn queue(name: &str) -> Temporary {
    Temporary::Entity { name: name.to_owned(), options: QueueOptions::default().into() }
}

fn options(is_durable: bool, is_shared: bool, selector: Option<&str>) -> SubscriptionOptions {
    let selector = selector.map(Into::into);
    let client = ClientAffinity { client_id: "c".into(), is_durable, is_shared, selector };
    SubscriptionOptions { client: Some(Box::new(client)), ..SubscriptionOptions::default() }
}

fn wanted(topic: &str, is_durable: bool, is_shared: bool, selector: Option<&str>) -> ClientSubscription {
    let options = options(is_durable, is_shared, selector);
    let name = options.client.as_ref().unwrap().subscription_name("s").unwrap();
    let selector = selector.map(|text| Selector::new(text).unwrap());
    ClientSubscription { topic: topic.to_owned(), name, options, selector, may_create: true }
}

#[tokio::test]
async fn temporary_entities_are_deleted_with_their_hold() {
    let (store, namespace, mailbox, mut outputs) = with_topics().await;
    let hold = namespace.create_temporary(queue("temporary"), mailbox.clone(), 7);
    assert_eq!(answer(&mut outputs).await, Ok(()));
    assert!(namespace.options("temporary").unwrap().is_temporary());
    // An administrator changes its options, but not its lifetime.
    namespace.update("temporary", QueueOptions::default()).await.unwrap();
    assert!(namespace.options("temporary").unwrap().is_temporary());
    drop(hold);
    quiet().await;
    assert!(namespace.options("temporary").is_none());
    // A hold that is dropped before the entity was created.
    drop(namespace.create_temporary(queue("brief"), mailbox.clone(), 7));
    assert!(answer(&mut outputs).await.is_ok());
    quiet().await;
    assert!(namespace.options("brief").is_none());
    let subscription = Temporary::Subscription {
        topic: "t".to_owned(),
        name: "own$c$ND".to_owned(),
        options: options(false, false, None),
        selector: None,
    };
    drop(namespace.create_temporary(subscription, mailbox, 7));
    assert!(answer(&mut outputs).await.is_ok());
    quiet().await;
    assert_eq!(namespace.subscription_names("t").unwrap(), Vec::<String>::new());
    assert!(store.snapshot().keys().all(|key| key.partition.0 <= 2), "nothing is left of them");
}

#[tokio::test]
async fn a_refused_creation_is_answered_and_changes_nothing_else() {
    let (store, namespace, mailbox, mut outputs) = with_topics().await;
    namespace.declare("lasting", QueueOptions::default()).await.unwrap();
    store.fail_next(Error::Full { reason: "no room".to_owned() });
    drop(namespace.create_temporary(queue("temporary"), mailbox.clone(), 7));
    assert_eq!(answer(&mut outputs).await, Err(Refusal::StorageFull));
    quiet().await;
    assert!(namespace.options("lasting").is_some() && namespace.options("temporary").is_none());
}

#[tokio::test]
async fn a_restart_deletes_temporary_entities_and_keeps_durable_ones() {
    let (store, first, mailbox, mut outputs) = with_topics().await;
    let mut holds = Vec::new();
    for name in ["one", "two"] {
        holds.push(first.create_temporary(queue(name), mailbox.clone(), 7));
        answer(&mut outputs).await.unwrap();
    }
    let mut subscribers = Vec::new();
    for wanted in [wanted("t", true, true, Some("a = 1")), wanted("t", false, true, None)] {
        subscribers.push(first.subscribe(wanted, mailbox.clone(), 7));
        answer(&mut outputs).await.unwrap();
    }
    // As after SIGKILL: the holds are not dropped.
    std::mem::forget((holds, subscribers));
    let second = namespace(&store).await;
    assert_eq!(second.names(), ["t", "u"]);
    assert_eq!(second.subscription_names("t").unwrap(), ["s$c$D"]);
    let kept = second.describe_subscription("t", "s$c$D").unwrap().subscription;
    assert_eq!(kept.options, options(true, true, Some("a = 1")));
    assert_eq!(kept.rules.len(), 1);
    // The same client resumes it, with its earlier options.
    let _hold = second.subscribe(wanted("t", true, true, Some("a = 1")), mailbox, 7);
    assert_eq!(answer(&mut outputs).await, Ok(()));
    assert_eq!(second.describe_subscription("t", "s$c$D").unwrap().subscription.queue, kept.queue);
}

#[tokio::test]
async fn consumers_share_replace_and_end_subscriptions() {
    let (_store, namespace, mailbox, mut outputs) = with_topics().await;
    let subscribe = |wanted| namespace.subscribe(wanted, mailbox.clone(), 7);
    let one = subscribe(wanted("t", false, true, None));
    let two = subscribe(wanted("t", false, true, None));
    answer(&mut outputs).await.unwrap();
    answer(&mut outputs).await.unwrap();
    let other = subscribe(wanted("u", false, true, None));
    assert!(matches!(answer(&mut outputs).await, Err(Refusal::NotAllowed(_))));
    drop((one, other));
    quiet().await;
    assert_eq!(namespace.subscription_names("t").unwrap(), ["s$c$ND"]);
    drop(two);
    quiet().await;
    assert!(namespace.subscription_names("t").unwrap().is_empty());
    // A durable subscription stays; it moves to another topic if attached there; and without consumers it can be deleted.
    drop(subscribe(wanted("t", true, false, None)));
    answer(&mut outputs).await.unwrap();
    let moved = subscribe(wanted("u", true, false, None));
    answer(&mut outputs).await.unwrap();
    assert!(namespace.subscription_names("t").unwrap().is_empty());
    assert_eq!(namespace.topic_of_client_subscription("S$C$d").as_deref(), Some("u"));
    namespace.unsubscribe("s$c$D", mailbox.clone(), 7);
    assert!(matches!(answer(&mut outputs).await, Err(Refusal::NotAllowed(_))));
    drop(moved);
    namespace.unsubscribe("s$c$D", mailbox.clone(), 7);
    assert_eq!(answer(&mut outputs).await, Ok(()));
    namespace.unsubscribe("s$c$D", mailbox.clone(), 7);
    assert_eq!(answer(&mut outputs).await, Err(Refusal::EntityDeleted));
    // A client that may not create one gets an error.
    let _none = subscribe(ClientSubscription { may_create: false, ..wanted("t", true, false, None) });
    assert_eq!(answer(&mut outputs).await, Err(Refusal::EntityDeleted));
}

#[tokio::test]
async fn consumers_of_a_subscription_that_was_deleted_are_none_of_the_next() {
    let (_store, namespace, mailbox, mut outputs) = with_topics().await;
    let first = namespace.subscribe(wanted("t", true, false, None), mailbox.clone(), 7);
    answer(&mut outputs).await.unwrap();
    assert!(namespace.delete_subscription("t", "s$c$D").await.unwrap());
    let second = namespace.subscribe(wanted("t", true, false, None), mailbox.clone(), 7);
    assert_eq!(answer(&mut outputs).await, Ok(()));
    drop(first);
    let third = namespace.subscribe(wanted("t", true, false, None), mailbox.clone(), 7);
    assert!(matches!(answer(&mut outputs).await, Err(Refusal::NotAllowed(_))), "the second consumes");
    drop((second, third));
    // An administrator's subscription of that name doesn't belong to the client.
    namespace.delete_subscription("t", "s$c$D").await.unwrap();
    namespace.create_subscription("t", "s$c$D", SubscriptionOptions::default(), Vec::new()).await.unwrap();
    let _hold = namespace.subscribe(wanted("t", true, false, None), mailbox, 7);
    assert_eq!(answer(&mut outputs).await, Err(Refusal::SubscriptionExists("s$c$D".into())));
}
