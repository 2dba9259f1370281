//! Transactions that send to topics whose rules may change messages: the changed parts of all their copies have one allowance.

use peeklock_engine::runtime::{Output, Response};
use peeklock_engine::{Filter, Refusal, Rule, SqlFilter, SubscriptionOptions, Timestamp, TopicOptions};

use crate::broker::{Broker, Client, quiet, send};
use crate::forwarding::client_of;

const TAG: u64 = 4_711;
const TOPIC: &str = "news";
const MESSAGES: usize = 100;

async fn broker() -> Broker {
    let broker = Broker::start(0).await;
    broker.namespace.declare(TOPIC, TopicOptions::default()).await.unwrap();
    let filter = Filter::Sql(Box::new(SqlFilter::new("sys.Label IS NULL", Vec::new()).unwrap()));
    let rule = Rule { name: "sql".into(), filter, action: None, created_at: Timestamp::default() };
    let subscription = ("all".to_owned(), SubscriptionOptions::default(), vec![rule]);
    broker.namespace.declare_subscriptions(TOPIC, vec![subscription]).await.unwrap();
    broker
}

fn active(broker: &Broker) -> u64 {
    broker.namespace.subscription_counts(TOPIC, "all").unwrap().active
}

async fn outcome(client: &mut Client) -> Result<(), Refusal> {
    match client.next().await {
        Output::Response { tag: TAG, response: Response::Done(outcome) } => outcome,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_transaction_sends_many_messages_to_a_topic_whose_rules_may_change_them() {
    let broker = broker().await;
    let mut client = client_of(&broker, TOPIC);
    let mut transaction = broker.namespace.begin_transaction();
    for _ in 0..MESSAGES {
        transaction.add(&client.handle, send("x"));
    }
    transaction.commit(client.mailbox.clone(), TAG);
    assert_eq!(outcome(&mut client).await, Ok(()));
    assert_eq!(active(&broker), MESSAGES as u64);
}

/// What is waiting for the committer is stored together.
#[tokio::test]
async fn units_for_such_a_topic_share_batches() {
    let broker = broker().await;
    let mut client = client_of(&broker, TOPIC);
    broker.store.hold();
    for _ in 0..MESSAGES {
        let mut transaction = broker.namespace.begin_transaction();
        transaction.add(&client.handle, send("x"));
        transaction.commit(client.mailbox.clone(), TAG);
    }
    quiet().await;
    assert!(broker.store.held() < 10, "{} batches", broker.store.held());
    broker.store.release_all();
    for _ in 0..MESSAGES {
        assert_eq!(outcome(&mut client).await, Ok(()));
    }
    assert_eq!(active(&broker), MESSAGES as u64);
}
