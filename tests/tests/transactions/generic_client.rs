//! The coordinator client of a generic AMQP library, fe2o3-amqp.

use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::transaction::{
    Controller, OwnedTransaction, Transaction, TransactionDischarge, TransactionPosting,
    TransactionRetirement,
};
use fe2o3_amqp::types::definitions::ReceiverSettleMode;
use fe2o3_amqp::types::messaging::{Body, Modified, Outcome};
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use peeklock_tests::daemon::Daemon;

use super::stage::{CONFIG, fill};

/// A connection and a session on it.
struct Peer {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
}

impl Peer {
    async fn connect(daemon: &Daemon) -> Self {
        let profile = SaslProfile::Plain {
            username: "RootManageSharedAccessKey".into(),
            password: "SAS_KEY_VALUE".into(),
        };
        let url = format!("amqp://{}", daemon.amqp());
        let builder = Connection::builder().container_id("fe2o3").sasl_profile(profile);
        let mut connection = builder.open(url.as_str()).await.unwrap();
        let session = Session::begin(&mut connection).await.unwrap();
        Self { connection, session }
    }

    async fn close(mut self) {
        self.session.end().await.unwrap();
        self.connection.close().await.unwrap();
    }
}

fn assert_accepted(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
}

#[tokio::test]
async fn fe2o3_posts_and_commits_or_rolls_back() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut peer = Peer::connect(&daemon).await;
    let mut sender = Sender::attach(&mut peer.session, "sender", "one").await.unwrap();
    let controller = Controller::attach(&mut peer.session, "controller").await.unwrap();
    for commits in [false, true] {
        let transaction = Transaction::declare(&controller, None).await.unwrap();
        for number in 0..10 {
            assert_accepted(&transaction.post(&mut sender, format!("{number}")).await.unwrap());
        }
        assert_eq!(count(&daemon, "one").await, 0);
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
    }
    assert_eq!(count(&daemon, "one").await, 10);
    controller.close().await.unwrap();
    peer.close().await;
    daemon.assert_sound();
}

#[tokio::test]
async fn fe2o3_retires_and_commits_or_rolls_back() {
    let mut daemon = Daemon::with_config(CONFIG);
    fill(&daemon, &["complete", "reject", "abandon"]);
    let mut peer = Peer::connect(&daemon).await;
    // In the other mode the library settles on its own and could not settle again after a roll-back.
    let mut receiver = Receiver::builder()
        .name("receiver")
        .source("one")
        .receiver_settle_mode(ReceiverSettleMode::Second)
        .attach(&mut peer.session)
        .await
        .unwrap();
    let controller = Controller::attach(&mut peer.session, "controller").await.unwrap();
    let mut deliveries: Vec<Delivery<Body<Value>>> = Vec::new();
    for _ in 0..3 {
        deliveries.push(receiver.recv().await.unwrap());
    }
    for commits in [false, true] {
        let transaction = Transaction::declare(&controller, None).await.unwrap();
        transaction.accept(&mut receiver, &deliveries[0]).await.unwrap();
        transaction.reject(&mut receiver, &deliveries[1], None).await.unwrap();
        let failed =
            Modified { delivery_failed: Some(true), undeliverable_here: None, message_annotations: None };
        transaction.modify(&mut receiver, &deliveries[2], failed).await.unwrap();
        match commits {
            true => transaction.commit().await.unwrap(),
            false => transaction.rollback().await.unwrap(),
        }
        assert_eq!(count(&daemon, "one").await, if commits { 1 } else { 3 });
    }
    assert_eq!(count(&daemon, "one/$DeadLetterQueue").await, 1);
    peer.close().await;
    daemon.assert_sound();
}

#[tokio::test]
async fn fe2o3_rolls_back_a_dropped_transaction_and_uses_a_link_for_each() {
    let mut daemon = Daemon::with_config(CONFIG);
    let mut peer = Peer::connect(&daemon).await;
    let mut sender = Sender::attach(&mut peer.session, "sender", "one").await.unwrap();
    for number in 0..4 {
        let name = format!("controller {number}");
        let transaction = OwnedTransaction::declare(&mut peer.session, name, None).await.unwrap();
        assert_accepted(&transaction.post(&mut sender, "a").await.unwrap());
        match number % 2 {
            0 => transaction.commit().await.unwrap(),
            _ => transaction.rollback().await.unwrap(),
        }
    }
    assert_eq!(count(&daemon, "one").await, 2);
    peer.close().await;
    daemon.assert_sound();
}

/// Number of messages in an entity. Their bodies are values here, not data.
async fn count(daemon: &Daemon, entity: &'static str) -> usize {
    let address = daemon.amqp();
    let counted = tokio::task::spawn_blocking(move || {
        let mut client = peeklock_tests::client::Client::connect(address).unwrap();
        client.attach_management(0, entity).unwrap();
        client.browse(0).unwrap().len()
    });
    counted.await.unwrap()
}
