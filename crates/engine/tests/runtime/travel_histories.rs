//! One jump of time travel equals the same time in pieces: the stored bytes are identical.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{EntityRef, Output};
use peeklock_engine::{
    Command, CreditLimit, MessageKey, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverId,
    ReceiverOptions, Rule, SessionRequest, Settlement, SubQueue, SubscriptionOptions, TopicOptions,
};
use peeklock_storage::Key;
use proptest::prelude::*;

use crate::broker::{Broker, Client, START, quiet, token};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Where messages are sent.
const PLACES: [&str; 7] = ["plain", "detecting", "sessions", "temporary", "works", "forwarding", "topic"];
/// Queues and subscriptions with receivers.
const READ: [&str; 7] = ["plain", "detecting", "temporary", "works", "target", "topic/stays", "topic/goes"];

#[derive(Debug, Clone)]
enum Act {
    Send {
        place: usize,
        id: u64,
        delay_ms: Option<u64>,
        life_ms: Option<u64>,
    },
    Listen {
        place: usize,
        messages: u64,
        reads: bool,
    },
    /// Receives a message and settles it, or leaves it locked.
    Receive {
        place: usize,
        how: Option<How>,
    },
    Accept {
        id: Option<u64>,
        wait_ms: u64,
        messages: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum How {
    Abandon,
    /// For so many milliseconds after the start.
    Postpone(u64),
    Defer,
    DeadLetter,
}

fn act() -> impl Strategy<Value = Act> {
    let times = (prop::option::of(1..HOUR_MS), prop::option::of(1..HOUR_MS));
    let how = prop::option::of(prop_oneof![
        1 => Just(How::Abandon),
        2 => (1..HOUR_MS).prop_map(How::Postpone),
        2 => Just(How::Defer),
        1 => Just(How::DeadLetter),
    ]);
    prop_oneof![
        6 => (0..PLACES.len(), 0..4_u64, times)
            .prop_map(|(place, id, (delay_ms, life_ms))| Act::Send { place, id, delay_ms, life_ms }),
        1 => (0..READ.len(), 1..20_u64, any::<bool>())
            .prop_map(|(place, messages, reads)| Act::Listen { place, messages, reads }),
        3 => (0..READ.len(), how).prop_map(|(place, how)| Act::Receive { place, how }),
        2 => (prop::option::of(0..4_u64), 0..HOUR_MS, 0..4_u64)
            .prop_map(|(id, wait_ms, messages)| Act::Accept { id, wait_ms, messages }),
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
    let works = QueueOptions {
        max_delivery_count: 2,
        default_message_time_to_live_ms: Some(HOUR_MS),
        forwarding: crate::forwarding::dead_letters_to("target"),
        ..options.clone()
    };
    let forwarding = QueueOptions { forwarding: crate::forwarding::to("target"), ..options.clone() };
    for (name, options) in [
        ("plain", options.clone()),
        ("detecting", window.clone()),
        ("sessions", sessions),
        ("temporary", temporary),
        ("target", window),
        ("works", works),
        ("forwarding", forwarding),
    ] {
        broker.namespace.declare(name, options).await.unwrap();
    }
    broker.namespace.declare("topic", TopicOptions::default()).await.unwrap();
    let options = SubscriptionOptions { dead_lettering_on_message_expiration: true, ..Default::default() };
    let idle = SubscriptionOptions { auto_delete_on_idle_ms: Some(20 * MINUTE_MS), ..Default::default() };
    let passes = SubscriptionOptions { forwarding: crate::forwarding::to("target"), ..Default::default() };
    for (name, options) in [("stays", options), ("goes", idle), ("passes", passes)] {
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
    (client.handle, client.queue) = match name.split_once('/') {
        Some((topic, name)) => {
            let found = broker.namespace.subscription(topic, name).unwrap();
            (found.partition, found.queue)
        }
        None => {
            let EntityRef { partition, queue, .. } = broker.namespace.entity(name).unwrap();
            (partition, queue)
        }
    };
    client
}

/// Opens a receiver with credit.
async fn listen(client: &Client, receiver: ReceiverId, session: Option<SessionRequest>, limit: CreditLimit) {
    let source = QueuePath { queue: client.queue, sub_queue: SubQueue::Main };
    let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
    client.tell(Command::OpenReceiver { receiver, options, session });
    client.tell(Command::Credit { receiver, limit, drain: false });
    quiet().await;
}

async fn receive(client: &mut Client, receiver: ReceiverId, how: Option<How>) {
    listen(client, receiver, None, CreditLimit { messages: 1, bytes: u64::MAX }).await;
    let outputs = client.all().await;
    let token = outputs.iter().find_map(|output| match output {
        Output::Delivery(delivery) => Some(token(delivery)),
        _ => None,
    });
    let modify = Vec::new();
    let settlement = how.map(|how| match how {
        How::Abandon => Settlement::Abandon { modify },
        How::Postpone(ms) => Settlement::Postpone { modify, until: START.plus_ms(ms) },
        How::Defer => Settlement::Defer { modify },
        How::DeadLetter => Settlement::DeadLetter { why: Arc::default(), modify },
    });
    if let (Some(token), Some(settlement)) = (token, settlement) {
        client.settle(token, settlement);
    }
    client.tell(Command::CloseReceiver { receiver });
    quiet().await;
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
            // Without credit for bytes a receiver is present but receives nothing.
            let limit = CreditLimit { messages, bytes: if reads { u64::MAX } else { 0 } };
            listen(&client, client.receiver(number), None, limit).await;
            client
        }
        Act::Receive { place, how } => {
            let mut client = client_of(broker, READ[place]);
            let receiver = client.receiver(number);
            receive(&mut client, receiver, how).await;
            client
        }
        Act::Accept { id, wait_ms, messages } => {
            let client = client_of(broker, "sessions");
            let session = SessionRequest {
                id: id.map(|id| format!("{id}").into()),
                wait_until: START.plus_ms(wait_ms),
                ..SessionRequest::default()
            };
            let limit = CreditLimit { messages, bytes: u64::MAX };
            listen(&client, client.receiver(number), Some(session), limit).await;
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
            broker.namespace.travel(&broker.clock, *piece_ms).await.unwrap();
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
