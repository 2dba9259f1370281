//! A generic AMQP 1.0 client, fe2o3-amqp: without CBS, and with defaults of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)] // Helpers of tests, outside #[test].

use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::link::{Receiver, Sender};
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::types::messaging::{Body, Message, Modified, Outcome, Properties};
use fe2o3_amqp::types::primitives::{Binary, Value};
use fe2o3_amqp::{Connection, Session, connection::ConnectionHandle, session::SessionHandle};
use peeklock_tests::daemon::Daemon;

const QUEUE: &str = "generic";

/// A connection and a session on it.
struct Peer {
    connection: ConnectionHandle<()>,
    session: SessionHandle<()>,
}

impl Peer {
    async fn with(daemon: &Daemon, profile: SaslProfile, max_frame_size: u32) -> Self {
        let url = format!("amqp://{}", daemon.amqp());
        let mut connection = Connection::builder()
            .container_id("fe2o3")
            .max_frame_size(max_frame_size)
            .sasl_profile(profile)
            .open(url.as_str())
            .await
            .unwrap();
        let session = Session::begin(&mut connection).await.unwrap();
        Self { connection, session }
    }

    /// Connects with the emulator's rule.
    async fn connect(daemon: &Daemon, max_frame_size: u32) -> Self {
        let (username, password) = ("RootManageSharedAccessKey".into(), "SAS_KEY_VALUE".into());
        Self::with(daemon, SaslProfile::Plain { username, password }, max_frame_size).await
    }

    async fn sender(&mut self) -> Sender {
        Sender::attach(&mut self.session, "sender", QUEUE).await.unwrap()
    }

    async fn receiver(&mut self, address: &str) -> Receiver {
        Receiver::attach(&mut self.session, format!("receiver of {address}"), address).await.unwrap()
    }

    async fn close(mut self) {
        self.session.end().await.unwrap();
        self.connection.close().await.unwrap();
    }
}

async fn send(sender: &mut Sender, text: &str) {
    let outcome = sender.send(text).await.unwrap();
    assert!(matches!(outcome, Outcome::Accepted(_)), "{outcome:?}");
}

#[tokio::test]
async fn sends_receives_and_accepts() {
    let mut daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 1 << 16).await;
    let mut sender = peer.sender().await;
    for number in 0..50 {
        send(&mut sender, &number.to_string()).await;
    }
    let mut receiver = peer.receiver(QUEUE).await;
    for number in 0..50 {
        let delivery: Delivery<String> = receiver.recv().await.unwrap();
        assert_eq!(*delivery.body(), number.to_string());
        receiver.accept(&delivery).await.unwrap();
    }
    sender.close().await.unwrap();
    receiver.close().await.unwrap();
    peer.close().await;
    daemon.assert_sound();
}

#[tokio::test]
async fn an_anonymous_client_is_let_in_and_turned_away_from_entities() {
    let daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::with(&daemon, SaslProfile::Anonymous, 1 << 16).await;
    assert!(Sender::attach(&mut peer.session, "sender", QUEUE).await.is_err());
    assert!(Receiver::attach(&mut peer.session, "receiver", QUEUE).await.is_err());
}

#[tokio::test]
async fn carries_large_messages_in_small_frames() {
    let daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 512).await;
    let sent: Vec<u8> = (0..200_000_u32).map(|number| number.to_be_bytes()[3]).collect();
    let mut sender = peer.sender().await;
    let message = Message::builder().data(Binary::from(sent.clone())).build();
    assert!(matches!(sender.send(message).await.unwrap(), Outcome::Accepted(_)));
    let mut receiver = peer.receiver(QUEUE).await;
    let delivery: Delivery<Body<Value>> = receiver.recv().await.unwrap();
    let Body::Data(sections) = delivery.body() else { panic!("{:?}", delivery.body()) };
    let joined: Vec<u8> = sections.iter().flat_map(|section| section.0.iter().copied()).collect();
    assert_eq!(joined, sent);
    receiver.accept(&delivery).await.unwrap();
    peer.close().await;
}

#[tokio::test]
async fn counts_failed_deliveries_but_not_released_ones() {
    let daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 1 << 16).await;
    let mut sender = peer.sender().await;
    send(&mut sender, "again").await;
    let mut receiver = peer.receiver(QUEUE).await;
    let mut counts = Vec::new();
    for round in 0..4 {
        let delivery: Delivery<String> = receiver.recv().await.unwrap();
        counts.push(delivery.message().header.as_ref().map(|header| header.delivery_count));
        let failed = Modified {
            delivery_failed: Some(true),
            undeliverable_here: Some(false),
            message_annotations: None,
        };
        match round {
            0 | 2 => receiver.modify(&delivery, failed).await.unwrap(),
            1 => receiver.release(&delivery).await.unwrap(),
            _ => receiver.accept(&delivery).await.unwrap(),
        }
    }
    assert_eq!(counts, [Some(0), Some(1), Some(1), Some(2)]);
    peer.close().await;
}

#[tokio::test]
async fn rejects_into_the_dead_letter_queue() {
    let daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 1 << 16).await;
    let mut sender = peer.sender().await;
    send(&mut sender, "bad").await;
    let mut receiver = peer.receiver(QUEUE).await;
    let delivery: Delivery<String> = receiver.recv().await.unwrap();
    receiver.reject(&delivery, None).await.unwrap();
    let mut dead = peer.receiver("generic/$DeadLetterQueue").await;
    let delivery: Delivery<String> = dead.recv().await.unwrap();
    assert_eq!(delivery.body(), "bad");
    dead.accept(&delivery).await.unwrap();
    peer.close().await;
}

#[tokio::test]
async fn gets_no_more_than_its_credit() {
    let daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 1 << 16).await;
    let mut sender = peer.sender().await;
    for number in 0..5 {
        send(&mut sender, &number.to_string()).await;
    }
    let mut limited = Receiver::builder()
        .name("limited")
        .source(QUEUE)
        .credit_mode(CreditMode::Manual)
        .attach(&mut peer.session)
        .await
        .unwrap();
    limited.set_credit(2).await.unwrap();
    for expected in ["0", "1"] {
        let delivery: Delivery<String> = limited.recv().await.unwrap();
        assert_eq!(delivery.body(), expected);
    }
    let mut other = peer.receiver(QUEUE).await;
    let delivery: Delivery<String> = other.recv().await.unwrap();
    assert_eq!(delivery.body(), "2");
    peer.close().await;
}

#[tokio::test]
async fn keeps_the_properties_of_a_message() {
    let daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 1 << 16).await;
    let properties =
        Properties::builder().message_id(7_u64).subject("subject").group_id("group".to_owned()).build();
    let message = Message::builder().properties(properties.clone()).value(Value::from(42_i32)).build();
    let mut sender = peer.sender().await;
    assert!(matches!(sender.send(message).await.unwrap(), Outcome::Accepted(_)));
    let mut receiver = peer.receiver(QUEUE).await;
    let delivery: Delivery<Value> = receiver.recv().await.unwrap();
    assert_eq!(*delivery.body(), Value::from(42_i32));
    assert_eq!(delivery.message().properties, Some(properties));
    receiver.accept(&delivery).await.unwrap();
    peer.close().await;
}

#[tokio::test]
async fn gets_an_error_for_an_unknown_queue() {
    let mut daemon = Daemon::with_queues(&[QUEUE]);
    let mut peer = Peer::connect(&daemon, 1 << 16).await;
    let error = Receiver::attach(&mut peer.session, "lost", "no-such-queue").await.unwrap_err();
    assert!(format!("{error:?}").contains("NotFound"), "{error:?}");
    // The client detaches twice, the second time possibly its next link of this session, so another session is used.
    let mut other = Session::begin(&mut peer.connection).await.unwrap();
    let mut sender = Sender::attach(&mut other, "found", QUEUE).await.unwrap();
    send(&mut sender, "the connection goes on").await;
    peer.connection.close().await.unwrap();
    daemon.assert_sound();
}
