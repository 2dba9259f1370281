//! Creates at least one stored record of each kind.

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{Clock, Response};
use peeklock_engine::{
    Command, CorrelationFilter, DeadLetter, Filter, MessageKey, NewMessage, Property, PropertyValue,
    QueueOptions, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Rule, SessionRequest, Settlement,
    SqlAction, SqlFilter, SubQueue, SubscriptionOptions, Timestamp,
};
use peeklock_storage::LocalStore;

use super::{SCHEDULED, baskets, client, forwards, large, news, once, orders, rule_properties, source};
use crate::broker::{Broker, Client, QUEUE, START, token};

/// Stores records of each kind.
pub(super) async fn fill(broker: &Broker<LocalStore>) {
    declare(broker).await;
    fill_orders(broker).await;
    fill_baskets(broker).await;
    fill_once(broker).await;
    fill_news(broker).await;
    forward(broker).await;
    // Only now: with its final options it refuses messages.
    broker.namespace.update("baskets", baskets()).await.unwrap();
}

async fn declare(broker: &Broker<LocalStore>) {
    let namespace = &broker.namespace;
    namespace.declare(QUEUE, orders()).await.unwrap();
    let open = QueueOptions { status: peeklock_engine::EntityStatus::Active, ..baskets() };
    namespace.declare("baskets", open).await.unwrap();
    namespace.declare("once", once()).await.unwrap();
    namespace.declare("target", QueueOptions::default()).await.unwrap();
    namespace.declare("source", source()).await.unwrap();
    namespace.declare("news", news()).await.unwrap();
    let going = SubscriptionOptions { forwarding: forwards("target"), ..SubscriptionOptions::default() };
    let grading = rule(
        "large",
        Filter::Sql(Box::new(
            SqlFilter::new("size > @least", vec![("@least".into(), PropertyValue::Integer(5))]).unwrap(),
        )),
        Some("SET grade = 'A'; REMOVE size; SET sys.To = 'nowhere'"),
    );
    let label = CorrelationFilter { label: Some("red".into()), ..CorrelationFilter::default() };
    let subscriptions = vec![
        ("all".to_owned(), SubscriptionOptions::default(), vec![Rule::default_rule()]),
        (
            "red".to_owned(),
            SubscriptionOptions::default(),
            vec![rule("red", Filter::Correlation(Box::new(label)), None)],
        ),
        ("large".to_owned(), large(), vec![grading.clone()]),
        ("going".to_owned(), going, vec![grading]),
    ];
    namespace.declare_subscriptions("news", subscriptions).await.unwrap();
}

fn rule(name: &str, filter: Filter, action: Option<&str>) -> Rule {
    let action = action.map(|action| SqlAction::new(action, Vec::new()).unwrap());
    Rule { name: name.into(), filter, action, created_at: START }
}

fn message(content: &str) -> NewMessage {
    NewMessage { content: Bytes::copy_from_slice(content.as_bytes()), ..NewMessage::default() }
}

pub(super) async fn sent(client: &mut Client, message: NewMessage) -> u64 {
    client.submit(Command::Send { messages: [message].into_iter().collect() });
    match client.response().await.1 {
        Response::Sent(Ok(numbers)) => numbers[0].0,
        other => panic!("not accepted: {other:?}"),
    }
}

fn property(name: &str, value: &'static str) -> Property {
    Property { name: name.into(), value: value.into() }
}

async fn fill_orders(broker: &Broker<LocalStore>) {
    let mut orders = client(broker, QUEUE, None);
    for content in ["deferred", "dead", "abandoned", "completed"] {
        sent(&mut orders, message(content)).await;
    }
    orders.open(1, ReceiveMode::PeekLock, SubQueue::Main, 4);
    let why = DeadLetter { reason: Some("unusable".into()), description: Some("as a test".into()) };
    let mut deliveries = Vec::new();
    for _ in 0..4 {
        deliveries.push(orders.delivery().await);
    }
    let settlements = [
        Settlement::Defer { modify: vec![property("why", "later")] },
        Settlement::DeadLetter { why: Arc::new(why), modify: Vec::new() },
        Settlement::Abandon { modify: Vec::new() },
        Settlement::Complete,
    ];
    for (delivery, settlement) in deliveries.into_iter().zip(settlements) {
        let tag = orders.settle(token(&delivery), settlement);
        assert_eq!(orders.response().await, (tag, Response::Settled(Vec::new())));
    }
    let receiver = orders.receiver(1);
    orders.submit(Command::CloseReceiver { receiver });
    let waiting = NewMessage { time_to_live_ms: Some(1 << 40), header_bytes: 40_000, ..message("waiting") };
    sent(&mut orders, waiting).await;
    sent(&mut orders, NewMessage { scheduled_enqueue_time: Some(SCHEDULED), ..message("scheduled") }).await;
}

/// Opens a receiver for a session.
pub(super) async fn accept(broker: &Broker<LocalStore>, session: &str) -> (Client, ReceiverId) {
    let mut client = client(broker, "baskets", None);
    let receiver = client.receiver(1);
    let options = ReceiverOptions { source: QueuePath::main(client.queue), mode: ReceiveMode::PeekLock };
    let wait_until = Timestamp(broker.clock.now().0 + 1_000);
    let session = Some(SessionRequest { id: Some(session.into()), wait_until, ..SessionRequest::default() });
    client.submit(Command::OpenReceiver { receiver, options, session });
    assert!(matches!(client.response().await.1, Response::Opened(Ok(Some(_)))));
    (client, receiver)
}

async fn fill_baskets(broker: &Broker<LocalStore>) {
    let mut baskets = client(broker, "baskets", None);
    for (session, content) in [("A", "a1"), ("A", "a2"), ("b", "b1")] {
        sent(&mut baskets, NewMessage { session_id: Some(session.into()), ..message(content) }).await;
    }
    let (mut holder, receiver) = accept(broker, "A").await;
    holder.submit(Command::SetSessionState { receiver, state: Some("state of A".into()) });
    assert_eq!(holder.response().await.1, Response::Done(Ok(())));
}

async fn fill_once(broker: &Broker<LocalStore>) {
    let mut once = client(broker, "once", None);
    for _ in 0..2 {
        let same = NewMessage { message_key: Some(MessageKey::of("once")), ..message("once") };
        sent(&mut once, same).await;
    }
}

/// A message for the topic.
pub(super) fn article(content: &str) -> NewMessage {
    NewMessage { rule_properties: Some(Arc::new(rule_properties(content))), ..message(content) }
}

async fn fill_news(broker: &Broker<LocalStore>) {
    let mut news = client(broker, "news", None);
    for content in ["red:1:", "blue:9:", "red:9:"] {
        sent(&mut news, article(content)).await;
    }
    let scheduled = NewMessage { scheduled_enqueue_time: Some(SCHEDULED), ..article("red:8:") };
    sent(&mut news, scheduled).await;
}

/// Waits until the forwarders have moved one message of the queue and two copies of the subscription.
async fn forward(broker: &Broker<LocalStore>) {
    let mut source = client(broker, "source", None);
    sent(&mut source, message("goes on")).await;
    while broker.namespace.counts("target").unwrap().active < 3
        || broker.namespace.counts("source").unwrap().active > 0
    {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
