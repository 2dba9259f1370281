//! Forwarding from subscriptions; forwarded copies share their bodies with those that stay.

use peeklock_engine::runtime::SubscriptionRef;
use peeklock_engine::{
    Command, Forwarding, QueueOptions, ReceiveMode, Rule, SequenceNumber, Settlement, SubQueue,
    SubscriptionOptions, TopicOptions,
};
use peeklock_storage::Space;

use crate::broker::{Broker, QUEUE, quiet, token};
use crate::forwarding::{client_of, contents, deliveries, forwarding, restarted, stored, to};

async fn topic(broker: &Broker, subscriptions: &[(&str, Forwarding)]) {
    broker.namespace.declare("news", TopicOptions::default()).await.unwrap();
    let wanted = subscriptions.iter().map(|(name, forwarding)| {
        let options =
            SubscriptionOptions { forwarding: forwarding.clone(), ..SubscriptionOptions::default() };
        ((*name).to_owned(), options, vec![Rule::default_rule()])
    });
    broker.namespace.declare_subscriptions("news", wanted.collect()).await.unwrap();
}

#[tokio::test]
async fn subscriptions_share_bodies_with_forwarded_copies() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    topic(&broker, &[("goes", to("target")), ("also", to("target")), ("stays", Forwarding::default())]).await;
    let mut news = client_of(&broker, "news");
    for content in ["one", "two"] {
        news.sent(content).await;
    }
    quiet().await;
    let got = contents(&broker, "target", SubQueue::Main).await;
    assert_eq!(got.iter().filter(|content| *content == "one").count(), 2, "{got:?}");
    assert_eq!(got.len(), 4);
    let SubscriptionRef { queue, .. } = broker.namespace.subscription("news", "stays").unwrap();
    news.queue = queue;
    assert_eq!(news.browsed(SubQueue::Main).await, ["one", "two"]);
    // 4 messages in the target; 2 in the subscription that keeps its copies, with 2 bodies.
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (6, 6));
    let got = deliveries(&mut client_of(&broker, "target"), SubQueue::Main).await;
    assert_eq!(got[3].message.view.forwarded.as_ref().unwrap().enqueued_sequence_number, SequenceNumber(2));
}

#[tokio::test]
async fn a_crash_after_messages_went_on_leaves_nothing_of_them_behind() {
    let broker = Broker::start(0).await;
    broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
    topic(&broker, &[("goes", to("target")), ("also", to("target"))]).await;
    let mut news = client_of(&broker, "news");
    broker.store.hold();
    news.send("one");
    quiet().await;
    assert!(broker.store.release_one(), "the message");
    quiet().await;
    assert!(broker.store.release_one(), "it went on");
    quiet().await;
    broker.store.crash();
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (2, 2));
    let broker = restarted(broker, 2).await;
    assert_eq!(contents(&broker, "target", SubQueue::Main).await, ["one", "one"]);
    assert_eq!((stored(&broker, Space::Head), stored(&broker, Space::Body)), (2, 2));
}

/// Whichever comes first, the deletion or the target's batch: nothing is left of the forwarded messages.
#[tokio::test]
async fn a_subscription_deleted_while_its_messages_go_on_leaves_nothing() {
    for turns in 0..16 {
        let broker = Broker::start(0).await;
        broker.namespace.declare("target", QueueOptions::default()).await.unwrap();
        topic(&broker, &[("goes", to("target")), ("also", to("target"))]).await;
        let mut news = client_of(&broker, "news");
        let queue = broker.namespace.subscription("news", "goes").unwrap().queue;
        quiet().await;
        news.send("one");
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        news.submit(Command::DeleteSubscription { queue });
        quiet().await;
        let arrived = contents(&broker, "target", SubQueue::Main).await.len();
        assert!((1..=2).contains(&arrived), "{arrived} after {turns} turns");
        let left = (stored(&broker, Space::Head), stored(&broker, Space::Body));
        assert_eq!(left, (arrived, arrived), "after {turns} turns");
    }
}

#[tokio::test]
async fn counts_of_a_subscription_change_at_once_with_forwarding_to_its_topic_and_with_transactions() {
    let broker = Broker::start(0).await;
    topic(&broker, &[("stays", Forwarding::default())]).await;
    broker.namespace.declare(QUEUE, forwarding(to("news"))).await.unwrap();
    broker.client().sent("one").await;
    quiet().await;
    let active = || broker.namespace.subscription_counts("news", "stays").unwrap().active;
    assert_eq!(active(), 1);
    let mut stays = client_of(&broker, "news");
    stays.queue = broker.namespace.subscription("news", "stays").unwrap().queue;
    stays.open(1, ReceiveMode::PeekLock, SubQueue::Main, 1);
    let tokens = [token(&stays.delivery().await)].into_iter().collect();
    let mut transaction = broker.namespace.begin_transaction();
    let settlement = Settlement::Complete;
    transaction.add(&stays.handle, Command::Settle { queue: stays.queue, tokens, settlement });
    transaction.commit(stays.mailbox.clone(), 0);
    quiet().await;
    assert_eq!(active(), 0);
}

/// The copies of all messages are more than one round of joint steps makes.
#[tokio::test]
async fn a_queue_forwards_to_many_subscriptions_in_order() {
    const MESSAGES: usize = 100;
    let broker = Broker::start(0).await;
    let names: Vec<String> = (0..150).map(|number| format!("s{number}")).collect();
    let subscriptions: Vec<_> = names.iter().map(|name| (name.as_str(), Forwarding::default())).collect();
    topic(&broker, &subscriptions).await;
    broker.namespace.declare(QUEUE, QueueOptions::default()).await.unwrap();
    let wanted: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    for content in &wanted {
        broker.client().sent(content.clone().leak()).await;
    }
    broker.namespace.declare(QUEUE, forwarding(to("news"))).await.unwrap();
    quiet().await;
    for name in ["s0", "s149"] {
        let mut news = client_of(&broker, "news");
        news.queue = broker.namespace.subscription("news", name).unwrap().queue;
        assert_eq!(news.browsed(SubQueue::Main).await, wanted, "{name}");
    }
    assert_eq!(broker.namespace.counts(QUEUE).unwrap().active, 0);
}
