//! Counters of entities, and the metrics page that shows them.

use peeklock_engine::runtime::Output;
use peeklock_engine::{
    Command, MessageKey, NewMessage, QueueOptions, ReceiveMode, Settlement, SubQueue, Totals,
};
use peeklock_metrics::Metrics;

use crate::broker::{Broker, Client, QUEUE, quiet, token};
use crate::forwarding::{client_of, forwarding, to};
use crate::topics;

fn totals(broker: &Broker) -> Totals {
    broker.namespace.describe(QUEUE).unwrap().totals
}

fn page(broker: &Broker) -> String {
    let metrics = Metrics::default();
    metrics.register(broker.namespace.figures());
    metrics.text().unwrap()
}

fn expect(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line}\n{text}");
    }
}

async fn deliveries(client: &mut Client, count: u64) -> Vec<peeklock_engine::Delivery> {
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, count);
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(client.delivery().await);
    }
    all
}

#[tokio::test]
async fn each_settlement_is_counted_by_its_outcome() {
    let broker = Broker::start(1 << 20).await;
    let mut client = broker.client();
    for number in 0..5 {
        client.sent(&format!("message {number}")).await;
    }
    broker.clock.advance(2_000);
    let taken = deliveries(&mut client, 5).await;
    let settlements = [
        Settlement::Complete,
        Settlement::Abandon { modify: Vec::new() },
        Settlement::Defer { modify: Vec::new() },
        Settlement::DeadLetter { why: Default::default(), modify: Vec::new() },
        Settlement::Release,
    ];
    for (delivery, settlement) in taken.iter().zip(settlements) {
        client.settle(token(delivery), settlement);
        client.response().await;
    }
    quiet().await;
    let found = totals(&broker);
    let expected = Totals {
        accepted: 5,
        accepted_bytes: 45,
        delivered: 5,
        delivered_bytes: 45,
        completed: 1,
        abandoned: 1,
        deferred: 1,
        dead_lettered_application: 1,
        ..Totals::default()
    };
    assert_eq!(found, expected);
    assert_eq!(found.dead_lettered(), 1);
    expect(
        &page(&broker),
        &[
            "peeklock_messages_received_total{entity=\"(others)\",entity_type=\"others\"} 5",
            "peeklock_wait_duration_seconds_sum{entity=\"(others)\",entity_type=\"others\"} 10.0",
            "peeklock_wait_duration_seconds_count{entity=\"(others)\",entity_type=\"others\"} 5",
            "peeklock_accept_duration_seconds_count{entity=\"(others)\",entity_type=\"others\"} 5",
            "peeklock_hold_duration_seconds_count{entity=\"(others)\",entity_type=\"others\"} 4",
        ],
    );
}

#[tokio::test]
async fn a_lock_that_ends_by_time_is_no_abandonment_and_too_many_dead_letter() {
    let options = QueueOptions { max_delivery_count: 2, ..QueueOptions::default() };
    let broker = Broker::start(1 << 20).await;
    broker.namespace.declare(QUEUE, options).await.unwrap();
    let mut client = broker.client();
    client.sent("a").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    client.delivery().await;
    broker.clock.advance(120_000);
    quiet().await;
    let found = totals(&broker);
    assert_eq!((found.locks_expired, found.abandoned), (1, 0));
    client.credit(receiver, 2, false);
    let delivery = client.delivery().await;
    client.settle(token(&delivery), Settlement::Abandon { modify: Vec::new() });
    client.response().await;
    quiet().await;
    let found = totals(&broker);
    assert_eq!((found.locks_expired, found.abandoned, found.dead_lettered_max_delivery), (1, 1, 1));
    assert_eq!((found.delivered, found.accepted), (2, 1));
}

#[tokio::test]
async fn a_deferral_at_the_last_allowed_delivery_is_a_deferral_and_a_dead_letter() {
    let options = QueueOptions { max_delivery_count: 1, ..QueueOptions::default() };
    let broker = Broker::start(1 << 20).await;
    broker.namespace.declare(QUEUE, options).await.unwrap();
    let mut client = broker.client();
    client.sent("alone").await;
    client.sent("in a transaction").await;
    let taken = deliveries(&mut client, 2).await;
    let defer = || Settlement::Defer { modify: Vec::new() };
    client.settle(token(&taken[0]), defer());
    client.response().await;
    let mut transaction = broker.namespace.begin_transaction();
    let (queue, tokens) = (client.queue, [token(&taken[1])].into_iter().collect());
    transaction.add(&client.handle, Command::Settle { queue, tokens, settlement: defer() });
    transaction.commit(client.mailbox.clone(), 4_711);
    client.response().await;
    quiet().await;
    let found = totals(&broker);
    assert_eq!((found.deferred, found.dead_lettered_max_delivery), (2, 2));
    assert_eq!((found.abandoned, found.locks_expired), (0, 0));
}

#[tokio::test]
async fn an_expired_message_is_counted_as_such_dropped_or_dead_lettered() {
    let broker = Broker::start(1 << 20).await;
    for dead_lettering_on_message_expiration in [false, true] {
        let options = QueueOptions { dead_lettering_on_message_expiration, ..QueueOptions::default() };
        broker.namespace.declare(QUEUE, options).await.unwrap();
        let mut client = broker.client();
        let message =
            NewMessage { time_to_live_ms: Some(1_000), content: "x".into(), ..NewMessage::default() };
        client.submit(Command::Send { messages: [message].into_iter().collect() });
        client.response().await;
        broker.clock.advance(5_000);
        client.open(
            1 + u64::from(dead_lettering_on_message_expiration),
            ReceiveMode::PeekLock,
            SubQueue::Main,
            1,
        );
        client.nothing().await;
    }
    let found = totals(&broker);
    assert_eq!((found.expired, found.dead_lettered_ttl, found.dead_lettered()), (2, 1, 1));
}

#[tokio::test]
async fn a_duplicate_is_counted_and_not_accepted() {
    let broker = Broker::start(1 << 20).await;
    let options = QueueOptions { requires_duplicate_detection: true, ..QueueOptions::default() };
    broker.namespace.declare("unique", options).await.unwrap();
    let mut client = client_of(&broker, "unique");
    let message = |id| {
        let message_key = Some(MessageKey::of(id));
        NewMessage { message_key, content: "x".into(), ..NewMessage::default() }
    };
    for _ in 0..3 {
        client.submit(Command::Send { messages: [message("same")].into_iter().collect() });
        client.response().await;
    }
    quiet().await;
    let found = broker.namespace.describe("unique").unwrap().totals;
    assert_eq!((found.accepted, found.duplicates), (1, 2));
    client.submit(Command::SendEach { messages: ["same", "other", "other"].map(message).into() });
    client.response().await;
    quiet().await;
    let found = broker.namespace.describe("unique").unwrap().totals;
    assert_eq!((found.accepted, found.duplicates), (2, 4));
}

#[tokio::test]
async fn a_forwarded_message_is_neither_delivered_nor_completed_at_its_source() {
    let broker = Broker::start(1 << 20).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    broker.namespace.declare("source", forwarding(to("target"))).await.unwrap();
    client_of(&broker, "source").sent("a").await;
    quiet().await;
    let (source, target) = (
        broker.namespace.describe("source").unwrap().totals,
        broker.namespace.describe("target").unwrap().totals,
    );
    assert_eq!((source.accepted, source.forwarded), (1, 1));
    assert_eq!((source.delivered, source.completed), (0, 0));
    assert_eq!(target.accepted, 1);
}

#[tokio::test]
async fn a_subscription_counts_its_copies_and_its_deletion_ends_its_series() {
    let broker = topics::broker(&["a", "b"]).await;
    topics::client(&broker, None).sent("news").await;
    quiet().await;
    let topic = broker.namespace.describe(topics::TOPIC).unwrap().totals;
    assert_eq!(topic.accepted, 1);
    let subscription =
        |name| broker.namespace.describe_subscription(topics::TOPIC, name).map(|found| found.totals);
    assert_eq!(subscription("a").unwrap().accepted, 1);
    let mut client = topics::client(&broker, Some("a"));
    client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    assert!(matches!(client.next().await, Output::Delivery(_)));
    quiet().await;
    assert_eq!((subscription("a").unwrap().delivered, subscription("b").unwrap().delivered), (1, 0));
}

#[tokio::test]
async fn entities_have_series_of_their_own_up_to_the_limit() {
    let broker = Broker::with_series(2).await;
    for name in ["b", "c"] {
        broker.namespace.declare(name, QueueOptions::default()).await.unwrap();
    }
    let text = page(&broker);
    expect(
        &text,
        &[
            "peeklock_entities{entity_type=\"queue\"} 3",
            "peeklock_messages{entity=\"b\",entity_type=\"queue\",state=\"active\"} 0",
            "peeklock_messages_received_total{entity=\"orders\",entity_type=\"queue\"} 0",
        ],
    );
    assert!(!text.contains("entity=\"c\""), "{text}");
    broker.namespace.delete("b").await.unwrap();
    quiet().await;
    assert!(!page(&broker).contains("entity=\"b\""));
}

#[tokio::test]
async fn the_oldest_message_and_open_links_are_gauges() {
    let broker = Broker::with_series(2).await;
    let mut client = broker.client();
    client.sent("a").await;
    broker.clock.advance(90_000);
    quiet().await;
    let labels = "{entity=\"orders\",entity_type=\"queue\"}";
    let age = |seconds| format!("peeklock_oldest_message_age_seconds{labels} {seconds}");
    expect(&page(&broker), &[&age("90.0"), &format!("peeklock_receivers{labels} 0")]);
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = client.delivery().await;
    quiet().await;
    expect(&page(&broker), &[&age("0.0"), &format!("peeklock_receivers{labels} 1")]);
    client.completed(token(&delivery)).await;
    let receiver = client.receiver(1);
    client.tell(Command::CloseReceiver { receiver });
    quiet().await;
    expect(&page(&broker), &[&format!("peeklock_receivers{labels} 0")]);
}

#[tokio::test]
async fn each_message_is_in_one_state_and_open_credit_is_a_gauge() {
    let broker = Broker::with_series(2).await;
    let mut client = broker.client();
    for content in ["a", "b", "c"] {
        client.sent(content).await;
    }
    let shows = |states: [u64; 3], credit: u64| {
        let labels = "{entity=\"orders\",entity_type=\"queue\"";
        let named = ["active", "locked", "deferred"].into_iter().zip(states);
        let states =
            named.map(|(state, count)| format!("peeklock_messages{labels},state=\"{state}\"}} {count}"));
        let lines: Vec<String> = states.chain([format!("peeklock_credit{labels}}} {credit}")]).collect();
        expect(&page(&broker), &lines.iter().map(String::as_str).collect::<Vec<_>>());
    };
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 2);
    let (first, second) = (client.delivery().await, client.delivery().await);
    quiet().await;
    shows([1, 2, 0], 0);
    client.settle(token(&first), Settlement::Defer { modify: Vec::new() });
    client.response().await;
    client.settle(token(&second), Settlement::Abandon { modify: Vec::new() });
    client.response().await;
    client.credit(client.receiver(1), 10, false);
    client.delivery().await;
    client.delivery().await;
    quiet().await;
    // Requested credit is cumulative: of 10, 4 were delivered.
    shows([0, 2, 1], 6);
    let receiver = client.receiver(1);
    client.tell(Command::CloseReceiver { receiver });
    quiet().await;
    shows([0, 2, 1], 0);
    broker.clock.advance(120_000);
    quiet().await;
    shows([2, 0, 1], 0);
}
