//! Forwarding to disabled targets, expiry of forwarded dead letters, and dead letters that can't be forwarded.

use std::sync::Arc;

use peeklock_engine::runtime::{Clock, Output, Response};
use peeklock_engine::{
    Command, DeadLetter, EntityStatus, Forwarding, HOPS_MAX, NewMessage, QueueOptions, ReceiveMode,
    ReceiverId, Settlement, SubQueue, Timestamp,
};
use peeklock_storage::Space;

use crate::broker::{Broker, QUEUE, quiet, token};
use crate::forwarding::{
    client_of, contents, dead_letters_to, deliveries, forwarding, restarted, stored, to,
};

/// azure-service-bus 666 and 743.
#[tokio::test]
async fn a_disabled_target_accepts_forwarded_messages_and_delivers_them_once_it_is_enabled() {
    let broker = Broker::start(0).await;
    let status = |status| QueueOptions { status, ..QueueOptions::default() };
    for (number, closed) in (0..).zip([EntityStatus::SendDisabled, EntityStatus::Disabled]) {
        let (target, source) = (format!("target{number}"), format!("source{number}"));
        let graves = format!("graves{number}");
        broker.namespace.declare(&target, status(closed)).await.unwrap();
        broker.namespace.declare(&source, forwarding(to(&target))).await.unwrap();
        broker.namespace.declare(&graves, forwarding(dead_letters_to(&target))).await.unwrap();
        client_of(&broker, &source).sent("forwarded").await;
        quiet().await;
        let mut client = client_of(&broker, &graves);
        client.sent("dead").await;
        client.open(91, ReceiveMode::PeekLock, SubQueue::Main, 1);
        let delivery = client.delivery().await;
        client.settle(token(&delivery), Settlement::DeadLetter { why: Arc::default(), modify: Vec::new() });
        quiet().await;
        assert_eq!(broker.namespace.counts(&target).unwrap().active, 2, "{closed:?}");
        broker.namespace.declare(&target, status(EntityStatus::Active)).await.unwrap();
        assert_eq!(contents(&broker, &target, SubQueue::Main).await, ["forwarded", "dead"]);
    }
}

/// azure-sdk-for-net 6748, MassTransit 4827: delayed-retry topologies depend on it.
#[tokio::test]
async fn a_forwarded_dead_letter_begins_its_life_anew_and_may_expire_at_the_target() {
    let broker = Broker::start(0).await;
    let capped = QueueOptions { default_message_time_to_live_ms: Some(4_000), ..QueueOptions::default() };
    broker.namespace.declare("plain", QueueOptions::default()).await.unwrap();
    broker.namespace.declare("capped", capped).await.unwrap();
    for (target, life_ms) in [("plain", Some(5_000)), ("capped", Some(4_000)), ("plain", None)] {
        let options = QueueOptions {
            dead_lettering_on_message_expiration: true,
            ..forwarding(dead_letters_to(target))
        };
        broker.namespace.declare(QUEUE, options).await.unwrap();
        let mut source = broker.client();
        let time_to_live_ms = life_ms.map(|_| 5_000);
        let message = NewMessage { content: "x".into(), time_to_live_ms, ..Default::default() };
        source.submit(Command::Send { messages: [message].into_iter().collect() });
        assert!(matches!(source.response().await.1, Response::Sent(Ok(_))));
        broker.clock.advance(5_000);
        source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 1);
        quiet().await;
        for output in source.all().await {
            if let Output::Delivery(delivery) = output {
                let why = Arc::default();
                source.settle(token(&delivery), Settlement::DeadLetter { why, modify: Vec::new() });
            }
        }
        quiet().await;
        let mut client = client_of(&broker, target);
        let got = deliveries(&mut client, SubQueue::Main).await;
        let view = &got[0].message.view;
        assert_eq!(view.time_to_live_ms, life_ms, "{target}");
        let expires_at = life_ms.map_or(Timestamp::NEVER, |life_ms| view.enqueued_at.plus_ms(life_ms));
        assert_eq!((view.enqueued_at, view.expires_at), (broker.clock.now(), expires_at), "{target}");
        client.settle(token(&got[0]), Settlement::Complete);
        client.submit(Command::CloseReceiver { receiver: ReceiverId(977) });
        source.submit(Command::CloseReceiver { receiver: ReceiverId(91) });
        quiet().await;
    }
}

/// Such a message isn't forwarded and, where dead letters are forwarded, can't be received from the dead-letter queue
/// (azure-service-bus 249).
#[tokio::test]
async fn a_dead_letter_after_four_hops_becomes_a_transfer_dead_letter() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("graves", QueueOptions::default()).await.unwrap();
    broker.namespace.declare("f", forwarding(dead_letters_to("graves"))).await.unwrap();
    for pair in ["f", "e", "d", "c", "b"].windows(2) {
        let forwarding =
            Forwarding { forward_dead_lettered_messages_to: Some("graves".into()), ..to(pair[0]) };
        let options = QueueOptions { forwarding, ..QueueOptions::default() };
        broker.namespace.declare(pair[1], options).await.unwrap();
    }
    // One reaches "e" after four hops and can't be forwarded; the other reaches "f" after four, where a receiver rejects it.
    broker.namespace.declare(QUEUE, forwarding(to("b"))).await.unwrap();
    broker.client().sent("far").await;
    client_of(&broker, "b").sent("near").await;
    quiet().await;
    let mut last = client_of(&broker, "f");
    let got = deliveries(&mut last, SubQueue::Main).await;
    let why = DeadLetter { reason: Some("rejected".into()), description: None };
    last.settle(token(&got[0]), Settlement::DeadLetter { why: why.into(), modify: Vec::new() });
    quiet().await;
    let broker = restarted(broker, 3).await;
    for (queue, content, reason) in [("e", "far", "MaxTransferHopCountExceeded"), ("f", "near", "rejected")] {
        assert_eq!(contents(&broker, queue, SubQueue::DeadLetter).await, [""; 0], "{queue}");
        let mut client = client_of(&broker, queue);
        let got = deliveries(&mut client, SubQueue::TransferDeadLetter).await;
        assert_eq!(got[0].message.content, content);
        let why = got[0].message.view.dead_letter.clone().unwrap();
        assert_eq!(why.reason.as_deref(), Some(reason));
        client.settle(token(&got[0]), Settlement::Complete);
        quiet().await;
        assert_eq!(broker.namespace.counts(queue).unwrap(), Default::default());
    }
    assert_eq!(contents(&broker, "graves", SubQueue::Main).await, [""; 0]);
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (0, 0));
}

#[tokio::test]
async fn a_dead_letter_without_a_reason_that_no_target_accepts_gets_one() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("round", QueueOptions::default()).await.unwrap();
    broker.namespace.update("round", forwarding(dead_letters_to("round"))).await.unwrap();
    let mut client = client_of(&broker, "round");
    client.sent("again").await;
    let get = |outputs: Vec<Output>| {
        let deliveries = outputs.into_iter().filter_map(|output| match output {
            Output::Delivery(delivery) => Some(delivery),
            _ => None,
        });
        deliveries.last().unwrap()
    };
    for receiver in 90..=90 + u64::from(HOPS_MAX) {
        client.open(receiver, ReceiveMode::PeekLock, SubQueue::Main, 1);
        let got = get(client.all().await);
        let why = Arc::default();
        client.settle(token(&got), Settlement::DeadLetter { why, modify: Vec::new() });
        quiet().await;
    }
    client.open(9, ReceiveMode::PeekLock, SubQueue::TransferDeadLetter, 1);
    let why = get(client.all().await).message.view.dead_letter.clone().unwrap();
    assert_eq!(why.reason.as_deref(), Some("MaxTransferHopCountExceeded"));
}

/// Dead letters "one" without a session, which a target that requires sessions refuses, and "two" with one.
async fn dead_letters_refused_by_sessions(broker: &Broker) {
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("target", sessions).await.unwrap();
    broker.namespace.declare(QUEUE, forwarding(dead_letters_to("target"))).await.unwrap();
    let mut source = broker.client();
    for (content, session_id) in [("one", None), ("two", Some("s".into()))] {
        let message = NewMessage { content: content.into(), session_id, ..NewMessage::default() };
        source.submit(Command::Send { messages: [message].into_iter().collect() });
    }
    source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 2);
    for output in source.all().await {
        if let Output::Delivery(delivery) = output {
            let why = Arc::default();
            source.settle(token(&delivery), Settlement::DeadLetter { why, modify: Vec::new() });
        }
    }
    quiet().await;
    let counts = broker.namespace.counts(QUEUE).unwrap();
    assert_eq!((counts.dead_letter, broker.namespace.counts("target").unwrap().active), (1, 1));
}

/// The pause after a change of the target, and what follows it.
async fn after_a_pause(broker: &Broker) {
    quiet().await;
    broker.clock.advance(100);
    quiet().await;
}

#[tokio::test]
async fn a_refused_dead_letter_is_forwarded_once_its_target_is_replaced() {
    let broker = Broker::start(0).await;
    dead_letters_refused_by_sessions(&broker).await;
    broker.namespace.delete("target").await.unwrap();
    after_a_pause(&broker).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    broker.clock.advance(5_000);
    after_a_pause(&broker).await;
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, ["one"]);
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().dead_letter, 0);
}

#[tokio::test]
async fn a_refused_dead_letter_is_tried_again_when_the_options_of_its_target_change() {
    let broker = Broker::start(0).await;
    let small = QueueOptions { max_message_size_bytes: 1024, ..QueueOptions::default() };
    broker.namespace.declare("target", small.clone()).await.unwrap();
    broker.namespace.declare(QUEUE, forwarding(dead_letters_to("target"))).await.unwrap();
    let mut source = broker.client();
    source.sent(&"x".repeat(2048)).await;
    source.open(91, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let delivery = source.delivery().await;
    source.settle(token(&delivery), Settlement::DeadLetter { why: Arc::default(), modify: Vec::new() });
    for (max_message_size_bytes, moved) in [(1024, 0), (1500, 0), (4096, 1)] {
        broker
            .namespace
            .update("target", QueueOptions { max_message_size_bytes, ..small.clone() })
            .await
            .unwrap();
        after_a_pause(&broker).await;
        // Changes of others make no difference.
        broker.namespace.declare("other", QueueOptions::default()).await.unwrap();
        after_a_pause(&broker).await;
        let counts = |name| broker.namespace.counts(name).unwrap();
        assert_eq!((counts(QUEUE).dead_letter, counts("target").active), (1 - moved, moved));
    }
}
