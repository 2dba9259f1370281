//! The right to send output is suspended, restored, and lost for good.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use peeklock_engine::runtime::{Output, Response, StorageError, Tenure};
use peeklock_engine::{QueuePath, ReceiveMode, Refusal, SubQueue};
use tokio::sync::watch;

use crate::broker::{Broker, Client, peek, quiet, token};

/// A right that a test grants and withdraws.
#[derive(Debug, Clone)]
struct Scripted(watch::Sender<bool>, Arc<AtomicBool>);

impl Tenure for Scripted {
    fn holds(&self) -> bool {
        *self.0.borrow()
    }

    fn delivers(&self) -> bool {
        !self.1.load(Ordering::Relaxed)
    }

    fn returns(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut held = self.0.subscribe();
        Box::pin(async move {
            if held.wait_for(|held| *held).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

async fn start() -> (Broker, Scripted) {
    let tenure = Scripted(watch::Sender::new(true), Arc::default());
    (Broker::with_tenure(Arc::new(tenure.clone())).await, tenure)
}

/// The kinds of the outputs, without their contents.
fn kinds(outputs: &[Output]) -> Vec<&'static str> {
    let kind = |output: &Output| match output {
        Output::Response { response: Response::Sent(Ok(_)), .. } => "sent",
        Output::Response { response: Response::Sent(Err(Refusal::Unavailable)), .. } => "refused",
        Output::Response { .. } => "another answer",
        Output::Delivery(_) => "delivery",
        Output::ReceiverClosed { .. } => "closed",
        _ => "other",
    };
    outputs.iter().map(kind).collect()
}

async fn listening(broker: &Broker) -> Client {
    let mut client = broker.client();
    client.open(1, ReceiveMode::PeekLock, SubQueue::Main, 10);
    client.nothing().await;
    client
}

#[tokio::test]
async fn nothing_leaves_while_the_right_is_away_and_all_of_it_when_it_returns() {
    let (broker, tenure) = start().await;
    let (mut sender, mut receiver) = (broker.client(), listening(&broker).await);
    sender.sent("before").await;
    receiver.delivery().await;
    tenure.0.send_replace(false);
    sender.send("held back");
    sender.send("too");
    receiver.submit(peek(QueuePath::main(receiver.queue)));
    sender.nothing().await;
    receiver.nothing().await;
    // Longer than the database of any lease may be unreachable.
    broker.clock.advance(30_000);
    sender.nothing().await;
    tenure.0.send_replace(true);
    assert_eq!(kinds(&sender.all().await), ["sent", "sent"]);
    let mut came = kinds(&receiver.all().await);
    came.sort_unstable();
    assert_eq!(came, ["another answer", "delivery", "delivery"], "a pause, and nothing else");
}

#[tokio::test]
async fn messages_that_become_durable_meanwhile_are_held_back_and_not_lost() {
    let (broker, tenure) = start().await;
    let (mut sender, mut receiver) = (broker.client(), listening(&broker).await);
    broker.store.hold();
    sender.send("decided before");
    sender.nothing().await;
    tenure.0.send_replace(false);
    broker.store.release_all();
    sender.nothing().await;
    receiver.nothing().await;
    for is_there in [true, false, true] {
        tenure.0.send_replace(is_there);
        quiet().await;
    }
    assert_eq!(kinds(&sender.all().await), ["sent"]);
    assert_eq!(kinds(&receiver.all().await), ["delivery"]);
}

#[tokio::test]
async fn when_the_shard_is_lost_meanwhile_proven_commits_are_answered_and_nothing_is_delivered() {
    let (broker, tenure) = start().await;
    let (mut sender, mut receiver) = (broker.client(), listening(&broker).await);
    broker.store.hold();
    sender.send("stored while the shard was ours");
    quiet().await;
    tenure.0.send_replace(false);
    broker.store.release_all();
    sender.nothing().await;
    sender.send("never taken");
    broker.store.lose(StorageError::Fenced { reason: "another owner".to_owned() });
    broker.namespace.shard_lost().await;
    assert_eq!(kinds(&sender.all().await), ["sent", "refused"]);
    assert_eq!(kinds(&receiver.all().await), ["closed"]);
}

#[tokio::test]
async fn a_namespace_that_stops_waits_for_the_right() {
    let (broker, tenure) = start().await;
    let mut sender = broker.client();
    broker.store.hold();
    sender.send("under way");
    quiet().await;
    tenure.0.send_replace(false);
    broker.store.release_all();
    let namespace = broker.namespace.clone();
    let stopping = tokio::spawn(async move { namespace.shutdown().await });
    sender.nothing().await;
    assert!(!stopping.is_finished());
    tenure.0.send_replace(true);
    stopping.await.unwrap();
    assert_eq!(kinds(&sender.all().await), ["sent"]);
}

#[tokio::test]
async fn a_namespace_that_stops_without_the_right_ends_with_its_shard() {
    let (broker, tenure) = start().await;
    let mut sender = broker.client();
    sender.sent("before").await;
    tenure.0.send_replace(false);
    sender.send("not taken");
    let namespace = broker.namespace.clone();
    let stopping = tokio::spawn(async move { namespace.shutdown().await });
    sender.nothing().await;
    broker.store.lose(StorageError::Stopped { reason: "given up".to_owned() });
    stopping.await.unwrap();
    assert_eq!(kinds(&sender.all().await), ["refused"]);
}

#[tokio::test]
async fn a_shard_that_is_about_to_be_given_away_takes_settlements_and_delivers_nothing_more() {
    let (broker, tenure) = start().await;
    let (mut sender, mut receiver) = (broker.client(), listening(&broker).await);
    sender.sent("first").await;
    let first = receiver.delivery().await;
    tenure.1.store(true, Ordering::Relaxed);
    sender.sent("second").await;
    receiver.nothing().await;
    receiver.completed(token(&first)).await;
    broker.namespace.shutdown().await;
    assert_eq!(kinds(&receiver.all().await), ["closed"], "undelivered messages keep no receiver waiting");
}
