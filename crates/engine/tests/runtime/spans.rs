//! Messages that take part in a trace have spans; others only cost the check.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use peeklock_engine::runtime::{Output, Response, Span, Spans, Trace};
use peeklock_engine::{Command, EntityStatus, NewMessage, QueueOptions, ReceiveMode, Settlement, SubQueue};

use crate::broker::{Broker, quiet, send, token};
use crate::forwarding::client_of;
use crate::topics;

/// Messages whose bodies begin with "traced" are traced.
#[derive(Debug, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

#[derive(Debug)]
struct Recorded(String, Arc<Mutex<Vec<String>>>);

impl Spans for Recorder {
    fn trace(&self, content: &Bytes) -> Option<Box<dyn Trace>> {
        let content = std::str::from_utf8(content).unwrap();
        content
            .starts_with("traced")
            .then(|| -> Box<dyn Trace> { Box::new(Recorded(content.to_owned(), Arc::clone(&self.0))) })
    }

    fn now_ns(&self) -> u64 {
        7
    }
}

impl Trace for Recorded {
    fn record(&self, span: &Span<'_>) {
        assert_eq!((span.started_ns, span.ended_ns), (7, 7));
        let number = span.sequence_number.map_or_else(String::new, |number| format!(" #{}", number.0));
        let subscription = span.subscription.map_or_else(String::new, |name| format!("/{name}"));
        let refusal = span.refusal.map_or_else(String::new, |refusal| format!(" {refusal:?}"));
        let count = span.delivery.map_or_else(String::new, |(_, count)| format!(" after {count}"));
        let Span { operation, entity, .. } = span;
        let text = format!("{}: {operation:?} {entity}{subscription}{number}{count}{refusal}", self.0);
        self.1.lock().unwrap().push(text);
    }
}

struct Rig {
    broker: Broker,
    noted: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    async fn new() -> Self {
        let recorder = Recorder::default();
        let noted = Arc::clone(&recorder.0);
        Self { broker: Broker::with_spans(Arc::new(recorder)).await, noted }
    }

    async fn taken(&self) -> Vec<String> {
        quiet().await;
        std::mem::take(&mut *self.noted.lock().unwrap())
    }
}

#[tokio::test]
async fn a_traced_message_has_a_span_for_each_thing_that_happens_to_it() {
    let rig = Rig::new().await;
    let mut client = rig.broker.client();
    client.sent("traced 1").await;
    client.sent("other").await;
    assert_eq!(rig.taken().await, ["traced 1: Publish orders #1"]);
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 2);
    let (first, second) = (client.delivery().await, client.delivery().await);
    assert_eq!(rig.taken().await, ["traced 1: Deliver orders #1 after 0"]);
    client.settle(token(&first), Settlement::Abandon { modify: Vec::new() });
    client.settle(token(&second), Settlement::Complete);
    assert_eq!(rig.taken().await, ["traced 1: Settle(Abandon) orders"]);
    client.credit(client.receiver(1), 3, false);
    let (_, _, again) = (client.response().await, client.response().await, client.delivery().await);
    client.settle(token(&again), Settlement::Complete);
    assert_eq!(
        rig.taken().await,
        ["traced 1: Deliver orders #1 after 1", "traced 1: Settle(Complete) orders"]
    );
}

#[tokio::test]
async fn a_failed_settlement_says_why_and_the_lock_can_be_settled_otherwise() {
    let rig = Rig::new().await;
    let mut client = rig.broker.client();
    client.sent("traced").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let first = token(&client.delivery().await);
    let dead = || Settlement::DeadLetter { why: Default::default(), modify: Vec::new() };
    client.settle(first, dead());
    client.response().await;
    client.open(2, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    let letter = token(&client.delivery().await);
    rig.taken().await;
    client.settle(letter, dead());
    client.settle(letter, Settlement::Complete);
    let expected =
        ["traced: Settle(DeadLetter) orders AlreadyDeadLettered", "traced: Settle(Complete) orders"];
    assert_eq!(rig.taken().await, expected);
}

#[tokio::test]
async fn a_lock_that_ends_by_time_is_no_settlement() {
    let rig = Rig::new().await;
    let mut client = rig.broker.client();
    client.sent("traced").await;
    let receiver = client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let lock = token(&client.delivery().await);
    client.tell(Command::CloseReceiver { receiver });
    rig.broker.clock.advance(120_000);
    rig.taken().await;
    client.settle(lock, Settlement::Complete);
    assert_eq!(rig.taken().await, [""; 0]);
}

#[tokio::test]
async fn receiving_and_deleting_is_no_settlement() {
    let rig = Rig::new().await;
    let mut client = rig.broker.client();
    client.sent("traced").await;
    client.open(1, ReceiveMode::ReceiveAndDelete, SubQueue::Main, 1);
    let delivery = client.delivery().await;
    client.completed(token(&delivery)).await;
    assert_eq!(rig.taken().await, ["traced: Publish orders #1", "traced: Deliver orders #1 after 0"]);
}

#[tokio::test]
async fn a_refused_message_says_why() {
    let rig = Rig::new().await;
    let options = QueueOptions { status: EntityStatus::SendDisabled, ..QueueOptions::default() };
    rig.broker.namespace.declare("closed", options).await.unwrap();
    let mut client = client_of(&rig.broker, "closed");
    client.send("traced");
    let (_, Response::Sent(Err(refusal))) = client.response().await else { panic!("it was sent") };
    assert_eq!(rig.taken().await, [format!("traced: Publish closed {refusal:?}")]);
}

#[tokio::test]
async fn messages_sent_each_on_its_own_have_spans_of_their_own() {
    let rig = Rig::new().await;
    let options = QueueOptions { max_size_bytes: 20, ..QueueOptions::default() };
    rig.broker.namespace.declare("small", options).await.unwrap();
    let mut client = client_of(&rig.broker, "small");
    let message = |content: &'static str| NewMessage { content: content.into(), ..NewMessage::default() };
    let messages = ["other", "traced 1", "traced 2", "traced"].map(message).into();
    client.submit(Command::SendEach { messages });
    let (_, Response::SentEach(results)) = client.response().await else { panic!("an answer for each") };
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, true]);
    let refusal = results[2].as_ref().unwrap_err();
    let mut noted = rig.taken().await;
    noted.sort();
    let expected = [
        "traced 1: Publish small #2",
        &format!("traced 2: Publish small {refusal:?}"),
        "traced: Publish small #3",
    ];
    assert_eq!(noted, expected);
}

#[tokio::test]
async fn a_transaction_and_a_subscription_have_spans_as_well() {
    let rig = Rig::new().await;
    let namespace = &rig.broker.namespace;
    topics::with_subscriptions(&rig.broker, &["all"]).await;
    let mut client = rig.broker.client();
    client.sent("traced in").await;
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let lock = token(&client.delivery().await);
    rig.taken().await;
    let (mut transaction, topic) = (namespace.begin_transaction(), namespace.entity(topics::TOPIC).unwrap());
    let tokens = [lock].into_iter().collect();
    let settle = Command::Settle { queue: client.queue, tokens, settlement: Settlement::Complete };
    transaction.add(&client.handle, settle);
    transaction.add(&topic.partition, send("traced out"));
    transaction.commit(client.mailbox.clone(), 9);
    while !matches!(client.next().await, Output::Response { tag: 9, .. }) {}
    let mut noted = rig.taken().await;
    noted.sort();
    assert_eq!(noted, ["traced in: Settle(Complete) orders", "traced out: Publish News #1"]);
    let mut subscriber = topics::client(&rig.broker, Some("all"));
    subscriber.open(2, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let copy = token(&subscriber.delivery().await);
    subscriber.settle(copy, Settlement::Defer { modify: Vec::new() });
    let expected = ["traced out: Deliver News/all #1 after 0", "traced out: Settle(Defer) News/all"];
    assert_eq!(rig.taken().await, expected);
}
