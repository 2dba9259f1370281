//! Forwarding of copies that rule actions changed (semantics §12.6, §14.1).

use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::{Command, Forwarding, SessionRequest};
use peeklock_engine::{
    Delivery, Filter, MessageKey, MessageView, NewMessage, Property, PropertyValue, QueueOptions, Rule,
    RuleProperties, Settlement, SubQueue, SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::{MemoryStore, ShardId, Space, Store};

use crate::broker::{Broker, Client, START, quiet, token};
use crate::forwarding::{client_of, contents, deliveries, stored, to};
use crate::rules::{rule, sql};

/// Bodies of these tests are the message id; changes by actions and receivers are applied on top.
fn read_rule_properties(content: &Bytes, view: &MessageView) -> Option<RuleProperties> {
    let mut rule_properties = rule_properties_of(std::str::from_utf8(content).ok()?);
    if let Some(changes) = &view.changes {
        changes.apply(&mut rule_properties);
    }
    for property in view.modified.iter().flat_map(|modified| modified.iter()) {
        rule_properties.user.retain(|(name, _)| *name != property.name);
        let text = std::str::from_utf8(&property.value).ok()?;
        rule_properties.user.push((property.name.clone(), PropertyValue::Text(text.into())));
    }
    Some(rule_properties)
}

fn rule_properties_of(id: &str) -> RuleProperties {
    RuleProperties { message_id: Some(id.into()), ..RuleProperties::default() }
}

fn identified(id: &str) -> NewMessage {
    NewMessage {
        content: Bytes::copy_from_slice(id.as_bytes()),
        rule_properties: Some(Arc::new(rule_properties_of(id))),
        message_key: Some(MessageKey::of(id)),
        ..NewMessage::default()
    }
}

async fn start() -> Broker {
    let store = MemoryStore::new();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let clock = crate::broker::TestClock::new(START);
    Broker::reading(store, shard, clock, 1 << 20, 1, Some(read_rule_properties), QueueOptions::default())
        .await
}

async fn again(broker: Broker) -> Broker {
    let shard = broker.store.acquire(ShardId(0)).await.unwrap();
    let broker = Broker::reading(
        broker.store,
        shard,
        broker.clock,
        1 << 20,
        2,
        Some(read_rule_properties),
        QueueOptions::default(),
    )
    .await;
    quiet().await;
    broker
}

/// A topic with one forwarding subscription.
async fn topic(broker: &Broker, name: &str, target: &str, rules: Vec<Rule>) {
    broker.namespace.declare(name, TopicOptions::default()).await.unwrap();
    let options = SubscriptionOptions { forwarding: to(target), ..SubscriptionOptions::default() };
    broker.namespace.declare_subscriptions(name, vec![("s".to_owned(), options, rules)]).await.unwrap();
}

async fn sent(broker: &Broker, topic: &str, message: NewMessage) {
    let mut sender = client_of(broker, topic);
    sender.submit(Command::Send { messages: [message].into_iter().collect() });
    sender.response().await;
    quiet().await;
}

/// Properties and deliveries of all messages in a queue, in order.
async fn arrived(broker: &Broker, queue: &str) -> Vec<(RuleProperties, Delivery)> {
    let all = deliveries(&mut client_of(broker, queue), SubQueue::Main).await;
    all.into_iter()
        .map(|one| (read_rule_properties(&one.message.content, &one.message.view).unwrap(), one))
        .collect()
}

fn user(rule_properties: &RuleProperties, name: &str) -> Option<String> {
    match rule_properties.user(name)?.1 {
        PropertyValue::Text(text) => Some(text.to_string()),
        other => Some(format!("{other:?}")),
    }
}

#[tokio::test]
async fn changes_go_along_and_further_actions_lie_over_them() {
    let mut broker = start().await;
    broker.namespace.declare("end", QueueOptions::default()).await.unwrap();
    let second = "SET b = b + '2'; REMOVE c; SET sys.To = sys.Label; SET d = RuleName";
    let rules = vec![rule("second", sql("b = 'b1'"), Some(second)), rule("plain", Filter::True, None)];
    topic(&broker, "two", "end", rules).await;
    let first = "SET a = 'a1'; SET b = 'b1'; SET c = 'c1'; SET sys.Label = 'l1'";
    topic(&broker, "one", "two", vec![rule("first", Filter::True, Some(first))]).await;
    sent(&broker, "one", identified("x")).await;
    for _ in 0..2 {
        let got = arrived(&broker, "end").await;
        let texts = |rule_properties: &RuleProperties| {
            ["a", "b", "c", "d", "RuleName"].map(|name| user(rule_properties, name))
        };
        let some = |text: &str| Some(text.to_owned());
        let [(plain, _), (changed, delivery)] = &got[..] else { panic!("{got:?}") };
        assert_eq!(texts(plain), [some("a1"), some("b1"), some("c1"), None, some("first")]);
        assert_eq!((plain.label.as_deref(), plain.to.as_deref()), (Some("l1"), None));
        assert_eq!(texts(changed), [some("a1"), some("b12"), None, some("first"), some("second")]);
        assert_eq!((changed.label.as_deref(), changed.to.as_deref()), (Some("l1"), Some("l1")));
        assert_eq!(delivery.message.view.forwarded.as_ref().unwrap().hops, 2);
        assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (2, 2));
        broker.store.crash();
        broker = again(broker).await;
    }
}

/// An action overrides earlier changes of the same property by receivers; their other changes remain.
#[tokio::test]
async fn an_action_wins_over_earlier_changes_by_receivers() {
    let broker = start().await;
    broker.namespace.declare("end", QueueOptions::default()).await.unwrap();
    topic(&broker, "two", "end", vec![rule("r", sql("a = 'receiver'"), Some("SET A = a + '!'"))]).await;
    broker.namespace.declare("first", QueueOptions::default()).await.unwrap();
    sent(&broker, "first", identified("x")).await;
    let mut receiver = client_of(&broker, "first");
    let one = deliveries(&mut receiver, SubQueue::Main).await.remove(0);
    let property = |name: &str, value: &'static str| Property { name: name.into(), value: value.into() };
    let modify = vec![property("a", "receiver"), property("b", "receiver")];
    receiver.submit(Command::CloseReceiver { receiver: one.receiver });
    receiver.settle(token(&one), Settlement::Abandon { modify });
    receiver.all().await;
    let forwarding = QueueOptions { forwarding: to("two"), ..QueueOptions::default() };
    broker.namespace.declare("first", forwarding).await.unwrap();
    quiet().await;
    let (rule_properties, delivery) = arrived(&broker, "end").await.remove(0);
    assert_eq!(
        [user(&rule_properties, "a"), user(&rule_properties, "b")],
        [Some("receiver!".into()), Some("receiver".into())]
    );
    assert_eq!(delivery.message.view.modified.as_deref(), Some(&vec![property("b", "receiver")]));
}

/// It also overrides the dead-letter reason, which rules see as a property, too.
#[tokio::test]
async fn an_action_wins_over_why_it_was_dead_lettered() {
    let broker = start().await;
    broker.namespace.declare("end", QueueOptions::default()).await.unwrap();
    topic(&broker, "two", "end", vec![rule("r", Filter::True, Some("SET DeadLetterReason = 'mine'"))]).await;
    let forward_dead_lettered_messages_to = Some("two".into());
    let forwarding = Forwarding { forward_dead_lettered_messages_to, ..Forwarding::default() };
    broker.namespace.declare("dies", QueueOptions { forwarding, ..QueueOptions::default() }).await.unwrap();
    sent(&broker, "dies", identified("x")).await;
    let mut receiver = client_of(&broker, "dies");
    let one = deliveries(&mut receiver, SubQueue::Main).await.remove(0);
    let why = peeklock_engine::DeadLetter { reason: Some("r".into()), description: Some("d".into()) };
    receiver.settle(token(&one), Settlement::DeadLetter { why: Arc::new(why), modify: Vec::new() });
    quiet().await;
    let (rule_properties, delivery) = arrived(&broker, "end").await.remove(0);
    assert_eq!(user(&rule_properties, "DeadLetterReason").as_deref(), Some("mine"));
    let why = delivery.message.view.dead_letter.unwrap();
    assert_eq!((why.reason.as_deref(), why.description.as_deref()), (None, Some("d")));
}

#[tokio::test]
async fn a_changed_session_is_the_session_where_it_goes_on_to() {
    let broker = start().await;
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    broker.namespace.declare("end", sessions).await.unwrap();
    let rules = vec![
        rule("plain", sql("sys.MessageId = 'without'"), None),
        rule("set", Filter::True, Some("SET sys.SessionId = 'new'")),
    ];
    topic(&broker, "one", "end", rules).await;
    sent(&broker, "one", identified("without")).await;
    let mut receiver: Client = client_of(&broker, "end");
    let options = peeklock_engine::ReceiverOptions {
        source: peeklock_engine::QueuePath::main(receiver.queue),
        ..Default::default()
    };
    let session = Some(SessionRequest {
        id: Some("new".into()),
        wait_until: Timestamp(0),
        ..SessionRequest::default()
    });
    let id = receiver.receiver(900);
    receiver.submit(Command::OpenReceiver { receiver: id, options, session });
    receiver.response().await;
    receiver.credit(id, 10, false);
    let one = receiver.delivery().await;
    assert_eq!(one.message.content, "without");
    receiver.nothing().await;
    let mut source = client_of(&broker, "one");
    source.queue = broker.namespace.subscription("one", "s").unwrap().queue;
    assert_eq!(source.browsed(SubQueue::DeadLetter).await, ["without"], "the plain copy has no session");
}

/// Ignored where the action runs, effective at the target; the message's lifetime starts at that time (S-9).
#[tokio::test]
async fn s12_6_a_scheduled_time_counts_where_it_goes_on_to() {
    let broker = start().await;
    let at = |ms| START.plus_ms(ms);
    let action = "SET sys.ScheduledEnqueueTimeUtc = at; SET sys.TimeToLive = '00:00:10'";
    broker.namespace.declare("queue", QueueOptions::default()).await.unwrap();
    topic(&broker, "last", "queue", vec![rule("last", Filter::True, Some("SET last = a"))]).await;
    topic(&broker, "one", "last", vec![rule("r", Filter::True, Some(&format!("SET a = 'a1'; {action}")))])
        .await;
    let mut rule_properties = rule_properties_of("x");
    rule_properties.user.push(("at".into(), PropertyValue::Timestamp(i64::try_from(at(60_000).0).unwrap())));
    sent(&broker, "one", NewMessage { rule_properties: Some(Arc::new(rule_properties)), ..identified("x") })
        .await;
    assert_eq!(broker.namespace.counts("last").unwrap().scheduled, 1);
    let broker = again(broker).await;
    assert_eq!(contents(&broker, "queue", SubQueue::Main).await, [""; 0]);
    broker.clock.advance(59_999);
    quiet().await;
    assert_eq!(broker.namespace.counts("last").unwrap().scheduled, 1);
    broker.clock.advance(1);
    quiet().await;
    let (rule_properties, delivery) = arrived(&broker, "queue").await.remove(0);
    let names = ["a", "last", "RuleName"].map(|name| user(&rule_properties, name).unwrap());
    assert_eq!(names, ["a1", "a1", "last"]);
    let view = delivery.message.view;
    assert_eq!((view.expires_at, view.state), (at(70_000), peeklock_engine::MessageState::Active));
    assert_eq!(view.forwarded.unwrap().hops, 2);
    assert_eq!(stored(&broker, Space::Head), 1);
}

/// The target detects duplicates by the resulting message id: the one that an action set, not the one that was sent.
#[tokio::test]
async fn s12_6_a_message_id_counts_where_it_goes_on_to() {
    let broker = start().await;
    let finds = QueueOptions { requires_duplicate_detection: true, ..QueueOptions::default() };
    broker.namespace.declare("end", finds).await.unwrap();
    let rules = vec![
        rule("plain", Filter::True, None),
        rule("same", sql("sys.MessageId LIKE 'a%'"), Some("SET sys.MessageId = 'same'")),
    ];
    topic(&broker, "one", "end", rules).await;
    for id in ["a1", "a2", "b"] {
        sent(&broker, "one", identified(id)).await;
    }
    let got = arrived(&broker, "end").await;
    let ids: Vec<_> =
        got.iter().map(|(rule_properties, _)| rule_properties.message_id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["a1", "same", "a2", "b"]);
}
