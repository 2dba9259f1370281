//! Checks that everything `fill` stored is present.

use peeklock_engine::runtime::Response;
use peeklock_engine::{
    Command, EntityOptions, Filter, MessageKey, MessageState, MessageView, NewMessage, PropertyValue,
    QueuePath, ReceiveMode, Received, Rule, SequenceNumber, SubQueue, SubscriptionOptions, TextProperty,
    Timestamp,
};
use peeklock_storage::LocalStore;

use super::fill::{accept, article, sent};
use super::{SCHEDULED, baskets, client, forwards, large, news, once, orders, source};
use crate::broker::{Broker, QUEUE, START, peek, token};

/// All messages of a queue or subscription.
pub(super) async fn browsed(
    broker: &Broker<LocalStore>,
    entity: &str,
    subscription: Option<&str>,
    sub_queue: SubQueue,
) -> Vec<Received> {
    let mut client = client(broker, entity, subscription);
    client.submit(peek(QueuePath { queue: client.queue, sub_queue }));
    match client.response().await.1 {
        Response::Received(Ok(messages)) => messages,
        other => panic!("not shown: {other:?}"),
    }
}

fn contents(messages: &[Received]) -> Vec<&str> {
    messages.iter().map(|message| std::str::from_utf8(&message.content).unwrap()).collect()
}

/// Checks that everything is unchanged.
pub(super) async fn everything(broker: &Broker<LocalStore>) {
    assert_eq!((broker.namespace.damage_count(), broker.namespace.quarantined_count()), (0, 0));
    options(broker);
    subscriptions(broker).await;
    queue(broker).await;
    sessions(broker).await;
    topic(broker).await;
    forwarded(broker).await;
}

fn options(broker: &Broker<LocalStore>) {
    let target = peeklock_engine::QueueOptions::default();
    let expected: [(&str, EntityOptions); 6] = [
        (QUEUE, orders().into()),
        ("baskets", baskets().into()),
        ("once", once().into()),
        ("target", target.into()),
        ("source", source().into()),
        ("news", news().into()),
    ];
    for (name, options) in expected {
        assert_eq!(*broker.namespace.options(name).unwrap(), options, "{name}");
    }
    let description = broker.namespace.describe(QUEUE).unwrap();
    assert_eq!((description.times.created_at, description.times.updated_at), (START, START));
}

async fn subscriptions(broker: &Broker<LocalStore>) {
    let going = SubscriptionOptions { forwarding: forwards("target"), ..SubscriptionOptions::default() };
    let plain = SubscriptionOptions::default;
    for (name, options) in [("all", plain()), ("red", plain()), ("large", large()), ("going", going)] {
        let mut client = client(broker, "news", Some(name));
        client.submit(Command::ListRules { queue: client.queue, skip: 0, top: 10 });
        let Response::Rules(Ok(rules)) = client.response().await.1 else { panic!("no rules") };
        let [rule] = &rules[..] else { panic!("{rules:?}") };
        check_rule(name, rule);
        let described = broker.namespace.describe_subscription("news", name).unwrap();
        assert_eq!(described.subscription.options, options, "{name}");
        assert_eq!(described.subscription.times.created_at, START);
    }
}

fn check_rule(subscription: &str, rule: &Rule) {
    match (subscription, &rule.filter) {
        ("all", Filter::True) => assert_eq!(&*rule.name, "$Default"),
        ("red", Filter::Correlation(filter)) => assert_eq!(filter.label.as_deref(), Some("red")),
        ("large" | "going", Filter::Sql(filter)) => {
            assert_eq!((filter.expression(), rule.created_at), ("size > @least", START));
            assert_eq!(filter.parameters(), [("@least".into(), PropertyValue::Integer(5))]);
            let action = rule.action.as_ref().unwrap().expression();
            assert_eq!(action, "SET grade = 'A'; REMOVE size; SET sys.To = 'nowhere'");
        }
        other => panic!("{other:?}"),
    }
}

async fn queue(broker: &Broker<LocalStore>) {
    let messages = browsed(broker, QUEUE, None, SubQueue::Main).await;
    assert_eq!(contents(&messages), ["deferred", "abandoned", "waiting", "scheduled"]);
    let views: Vec<&MessageView> = messages.iter().map(|message| &message.view).collect();
    assert_eq!(views[0].state, MessageState::Deferred);
    let modified = views[0].modified.as_ref().unwrap();
    assert_eq!((&*modified[0].name, &modified[0].value[..]), ("why", &b"later"[..]));
    assert_eq!((views[1].state, views[1].delivery_count), (MessageState::Active, 1));
    assert_eq!((views[2].time_to_live_ms, views[2].delivery_count), (Some(1 << 40), 0));
    assert_eq!((views[2].enqueued_at, views[2].content_bytes), (START, 7));
    assert_eq!((views[3].state, views[3].sequence_number), (MessageState::Scheduled, SequenceNumber(6)));
    assert_eq!(views[3].expires_at, Timestamp::NEVER);
    let dead = browsed(broker, QUEUE, None, SubQueue::DeadLetter).await;
    assert_eq!(contents(&dead), ["dead"]);
    let why = dead[0].view.dead_letter.as_ref().unwrap();
    assert_eq!((why.reason.as_deref(), why.description.as_deref()), (Some("unusable"), Some("as a test")));
}

async fn sessions(broker: &Broker<LocalStore>) {
    let mut messages = client(broker, "baskets", None);
    for (session, expected) in [("A", &["a1", "a2"][..]), ("b", &["b1"])] {
        let Command::Peek { from, count_max, bytes_max, source, .. } = peek(QueuePath::main(messages.queue))
        else {
            panic!("a peek")
        };
        let session = Some(session.into());
        messages.submit(Command::Peek { from, count_max, bytes_max, source, session });
        let Response::Received(Ok(found)) = messages.response().await.1 else { panic!("not shown") };
        assert_eq!(contents(&found), expected);
    }
    let once = browsed(broker, "once", None, SubQueue::Main).await;
    assert_eq!(contents(&once), ["once"]);
}

async fn topic(broker: &Broker<LocalStore>) {
    for (name, expected) in [
        ("all", &["red:1:", "blue:9:", "red:9:"][..]),
        ("red", &["red:1:", "red:9:"]),
        ("large", &["blue:9:", "red:9:"]),
    ] {
        let messages = browsed(broker, "news", Some(name), SubQueue::Main).await;
        assert_eq!(contents(&messages), expected, "{name}");
        for message in &messages {
            check_changes(&message.view, name == "large");
        }
    }
    let scheduled = browsed(broker, "news", None, SubQueue::Main).await;
    assert_eq!(contents(&scheduled), ["red:8:"]);
}

/// Checks whether the rule's action was applied.
fn check_changes(view: &MessageView, expected: bool) {
    let Some(changes) = &view.changes else { return assert!(!expected, "unchanged") };
    assert!(expected);
    assert_eq!(changes.text(TextProperty::To), Some(Some("nowhere")));
    let user =
        |name: &str| changes.user.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.clone());
    assert_eq!(user("grade"), Some(Some(PropertyValue::Text("A".into()))));
    assert_eq!(user("size"), Some(None));
}

async fn forwarded(broker: &Broker<LocalStore>) {
    let messages = browsed(broker, "target", None, SubQueue::Main).await;
    let mut found = contents(&messages);
    found.sort_unstable();
    assert_eq!(found, ["blue:9:", "goes on", "red:9:"]);
    for message in &messages {
        let way = message.view.forwarded.as_ref().unwrap();
        assert_eq!((way.hops, way.dead_letter_source.as_deref()), (1, None));
        assert!((1..=2).contains(&way.enqueued_sequence_number.0) || message.content == "red:9:");
        check_changes(&message.view, message.content != "goes on");
    }
}

/// Stored state is effective: session states, ids for duplicate detection, rules, schedules and sequence numbers.
pub(super) async fn work_goes_on(broker: &Broker<LocalStore>) {
    let (mut holder, receiver) = accept(broker, "a").await;
    holder.submit(Command::GetSessionState { receiver });
    assert_eq!(holder.response().await.1, Response::SessionState(Ok(Some("state of A".into()))));
    let mut once = client(broker, "once", None);
    let again = NewMessage { message_key: Some(MessageKey::of("once")), ..article("other") };
    sent(&mut once, again).await;
    assert_eq!(browsed(broker, "once", None, SubQueue::Main).await.len(), 1, "it is a duplicate");
    let mut orders = client(broker, QUEUE, None);
    assert_eq!(sent(&mut orders, article("next")).await, 7, "numbers go on");
    orders.open(9, ReceiveMode::PeekLock, SubQueue::DeadLetter, 1);
    let dead = orders.delivery().await;
    orders.completed(token(&dead)).await;
    let mut news = client(broker, "news", None);
    sent(&mut news, article("blue:7:")).await;
    broker.clock.advance(SCHEDULED.0 - START.0);
    let expected = ["red:1:", "blue:9:", "red:9:", "blue:7:", "red:8:"];
    for _ in 0..10_000 {
        if browsed(broker, "news", Some("all"), SubQueue::Main).await.len() == expected.len() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let all = browsed(broker, "news", Some("all"), SubQueue::Main).await;
    assert_eq!(contents(&all), expected);
    let red = browsed(broker, "news", Some("red"), SubQueue::Main).await;
    assert_eq!(contents(&red), ["red:1:", "red:9:", "red:8:"]);
    let large = browsed(broker, "news", Some("large"), SubQueue::Main).await;
    assert_eq!(contents(&large), ["blue:9:", "red:9:", "blue:7:", "red:8:"]);
    check_changes(&large[3].view, true);
}
