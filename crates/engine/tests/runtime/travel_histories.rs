//! One jump of time travel equals the same time in pieces: the stored bytes are identical.

use std::collections::BTreeMap;

use bytes::Bytes;
use peeklock_engine::runtime::EntityRef;
use peeklock_engine::{
    Command, CreditLimit, MessageKey, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverOptions,
    Rule, SubQueue, SubscriptionOptions, TopicOptions,
};
use peeklock_storage::Key;
use proptest::prelude::*;

use crate::broker::{Broker, Client, START, quiet};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Where messages are sent.
const PLACES: [&str; 6] = ["plain", "detecting", "sessions", "temporary", "forwarding", "topic"];
/// Queues with receivers.
const READ: [&str; 4] = ["plain", "detecting", "temporary", "target"];

#[derive(Debug, Clone)]
enum Act {
    Send { place: usize, id: u64, delay_ms: Option<u64>, life_ms: Option<u64> },
    Listen { place: usize, messages: u64, reads: bool },
}

fn act() -> impl Strategy<Value = Act> {
    let times = (prop::option::of(1..HOUR_MS), prop::option::of(1..HOUR_MS));
    prop_oneof![
        6 => (0..PLACES.len(), 0..4_u64, times)
            .prop_map(|(place, id, (delay_ms, life_ms))| Act::Send { place, id, delay_ms, life_ms }),
        1 => (0..READ.len(), 1..20_u64, any::<bool>())
            .prop_map(|(place, messages, reads)| Act::Listen { place, messages, reads }),
    ]
}

async fn broker() -> Broker {
    let broker = Broker::start(1 << 20).await;
    let options = QueueOptions { dead_lettering_on_message_expiration: true, ..QueueOptions::default() };
    let window = QueueOptions {
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: 10 * MINUTE_MS,
        ..options.clone()
    };
    let sessions = QueueOptions { requires_session: true, ..options.clone() };
    let temporary = QueueOptions { auto_delete_on_idle_ms: Some(40 * MINUTE_MS), ..options.clone() };
    let forwarding = QueueOptions { forwarding: crate::forwarding::to("target"), ..options.clone() };
    for (name, options) in [
        ("plain", options.clone()),
        ("detecting", window.clone()),
        ("sessions", sessions),
        ("temporary", temporary),
        ("target", window),
        ("forwarding", forwarding),
    ] {
        broker.namespace.declare(name, options).await.unwrap();
    }
    broker.namespace.declare("topic", TopicOptions::default()).await.unwrap();
    let options = SubscriptionOptions { dead_lettering_on_message_expiration: true, ..Default::default() };
    let idle = SubscriptionOptions { auto_delete_on_idle_ms: Some(20 * MINUTE_MS), ..Default::default() };
    for (name, options) in [("stays", options), ("goes", idle)] {
        broker
            .namespace
            .create_subscription("topic", name, options, vec![Rule::default_rule()])
            .await
            .unwrap();
    }
    quiet().await;
    broker
}

fn client_of(broker: &Broker, name: &str) -> Client {
    let mut client = broker.client();
    let EntityRef { partition, queue, .. } = broker.namespace.entity(name).unwrap();
    (client.handle, client.queue) = (partition, queue);
    client
}

async fn carry_out(broker: &Broker, act: &Act, number: u64) -> Client {
    match *act {
        Act::Send { place, id, delay_ms, life_ms } => {
            let mut client = client_of(broker, PLACES[place]);
            let message = NewMessage {
                content: Bytes::from(format!("{number}")),
                message_key: Some(MessageKey::of(&format!("{id}"))),
                session_id: (PLACES[place] == "sessions").then(|| format!("{id}").into()),
                scheduled_enqueue_time: delay_ms.map(|delay_ms| START.plus_ms(delay_ms)),
                time_to_live_ms: life_ms,
                ..NewMessage::default()
            };
            client.submit(Command::Send { messages: [message].into_iter().collect() });
            client.response().await;
            client
        }
        Act::Listen { place, messages, reads } => {
            let client = client_of(broker, READ[place]);
            let receiver = client.receiver(number);
            let source = QueuePath { queue: client.queue, sub_queue: SubQueue::Main };
            let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
            let submit = |command| {
                let mailbox = client.mailbox.clone();
                client.handle.submit(peeklock_engine::runtime::Request { mailbox, tag: None, command });
            };
            submit(Command::OpenReceiver { receiver, options, session: None });
            // Without credit for bytes a receiver is present but receives nothing.
            let limit = CreditLimit { messages, bytes: if reads { u64::MAX } else { 0 } };
            submit(Command::Credit { receiver, limit, drain: false });
            quiet().await;
            client
        }
    }
}

/// The stored records and the existing entities after a journey in pieces.
fn journey(acts: &[Act], pieces_ms: &[u64]) -> (BTreeMap<Key, Bytes>, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let broker = broker().await;
        let mut clients = Vec::new();
        for (number, act) in (1..).zip(acts) {
            clients.push(carry_out(&broker, act, number).await);
        }
        for piece_ms in pieces_ms {
            broker.namespace.travel(&broker.clock, *piece_ms).await;
        }
        (broker.store.snapshot().into_iter().collect(), broker.namespace.names())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn one_jump_equals_the_same_time_in_pieces(
        acts in prop::collection::vec(act(), 1..20),
        cuts in prop::collection::btree_set(1..3 * HOUR_MS, 0..8),
        all_ms in HOUR_MS / 2..3 * HOUR_MS,
    ) {
        let mut pieces_ms = Vec::new();
        let mut passed_ms = 0;
        for cut in cuts.into_iter().filter(|cut| *cut < all_ms).chain([all_ms]) {
            pieces_ms.push(cut - passed_ms);
            passed_ms = cut;
        }
        prop_assert_eq!(journey(&acts, &[all_ms]), journey(&acts, &pieces_ms));
    }
}
