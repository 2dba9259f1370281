//! Random histories with a wall clock that is set forth and back for good, restarts and refused batches: nothing is lost or comes
//! back, the order of enqueued times holds, no lock lasts longer than its duration, and what is due comes.

use std::collections::{BTreeMap, BTreeSet};

use peeklock_engine::runtime::{Clock, Machine, Output, Response};
use peeklock_engine::{
    Command, CreditLimit, Delivery, MessageKey, MessageState, NewMessage, QueueOptions, QueuePath,
    ReceiveMode, Received, ReceiverOptions, SessionRequest, Settlement, SubQueue,
};
use peeklock_storage::{Error, Space};
use proptest::prelude::*;

use crate::broker::{Broker, Client, peek, quiet, token};
use crate::forwarding::stored;
use crate::wall_clock::{CONFIRMATION_MS, HOUR_MS, MINUTE_MS, SECOND_MS, pass, restarted_on};

const LOCK_MS: u64 = MINUTE_MS;
const WINDOW_MS: u64 = 10 * MINUTE_MS;
const NAMES: [&str; 3] = ["plain", "sessions", "detecting"];

#[derive(Debug, Clone)]
enum Step {
    /// The queue, the session or message id, the delay.
    Send(usize, u8, Option<u64>),
    /// Receives up to so many messages, and does this with every second one.
    Receive(usize, u8, How),
    Pass(u64),
    /// Sets the wall clock for good.
    SetWall(i64),
    Restart,
    /// The store refuses a batch.
    Refuse,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Complete,
    /// Completes all.
    CompleteAll,
    Abandon,
    Postpone(u64),
    Nothing,
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        2 => Just(How::Complete),
        1 => Just(How::Abandon),
        1 => (0..HOUR_MS).prop_map(How::Postpone),
        1 => Just(How::Nothing),
    ];
    let queue = || 0..NAMES.len();
    prop_oneof![
        6 => (queue(), 0..3_u8, prop::option::weighted(0.3, 0..2 * HOUR_MS))
            .prop_map(|(queue, id, delay)| Step::Send(queue, id, delay)),
        4 => (queue(), 0..3_u8, how).prop_map(|(queue, id, how)| Step::Receive(queue, id, how)),
        2 => (0..3 * MINUTE_MS).prop_map(Step::Pass),
        1 => (6 * MINUTE_MS..5 * HOUR_MS).prop_map(|ms| Step::SetWall(-ms.cast_signed())),
        1 => (6 * MINUTE_MS..5 * HOUR_MS).prop_map(|ms| Step::SetWall(ms.cast_signed())),
        1 => Just(Step::Restart),
        1 => Just(Step::Refuse),
    ]
}

struct World {
    broker: Broker,
    receivers: u64,
    sent: u64,
    restarts: u64,
    /// Bodies that must be present, by queue.
    present: BTreeMap<usize, BTreeSet<Vec<u8>>>,
    /// Locks with their end, which must not be later than one lock duration from now at any time.
    has_failed: bool,
}

impl World {
    async fn start() -> Self {
        let broker = Broker::start(1 << 20).await;
        pass(&broker, 6 * MINUTE_MS).await;
        let sessions = QueueOptions { requires_session: true, ..options() };
        let detecting = QueueOptions {
            requires_duplicate_detection: true,
            duplicate_detection_history_time_window_ms: WINDOW_MS,
            ..options()
        };
        for (name, options) in [("plain", options()), ("sessions", sessions), ("detecting", detecting)] {
            broker.namespace.declare(name, options).await.unwrap();
        }
        let present = (0..NAMES.len()).map(|queue| (queue, BTreeSet::new())).collect();
        Self { broker, receivers: 0, sent: 0, restarts: 1, present, has_failed: false }
    }

    fn client(&self, queue: usize) -> Client {
        let entity = self.broker.namespace.entity(NAMES[queue]).unwrap();
        let mut client = self.broker.client();
        (client.handle, client.queue) = (entity.partition, entity.queue);
        client
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Send(queue, id, delay) => self.send(*queue, *id, *delay).await,
            Step::Receive(queue, id, how) => drop(self.receive(*queue, *id, *how).await),
            Step::Pass(ms) => pass(&self.broker, *ms).await,
            Step::SetWall(by_ms) => self.set_wall(*by_ms).await,
            Step::Restart => self.restart().await,
            Step::Refuse => {
                self.broker.store.fail_next(Error::Full { reason: "a test wants it so".to_owned() });
                self.has_failed = true;
            }
        }
    }

    async fn set_wall(&mut self, by_ms: i64) {
        let machine = &self.broker.clock.machine;
        machine.set_wall(machine.wall_ms().saturating_add_signed(by_ms));
        pass(&self.broker, CONFIRMATION_MS).await;
        let (now, wall) = (self.broker.clock.now().0, self.broker.clock.machine.wall_ms());
        assert!(now.abs_diff(wall) < SECOND_MS, "the broker follows: {now} {wall}");
    }

    async fn restart(&mut self) {
        self.restarts += 1;
        let World { broker, .. } = self;
        let clock = broker.clock.clone();
        let next = Broker { store: broker.store.clone(), clock, namespace: broker.namespace.clone() };
        self.broker = restarted_on(next, self.restarts).await;
    }

    async fn send(&mut self, queue: usize, id: u8, delay_ms: Option<u64>) {
        let now = self.broker.clock.now();
        self.sent += 1;
        let content = format!("{}", self.sent);
        let message = NewMessage {
            content: content.clone().into(),
            session_id: (queue == 1).then(|| format!("{id}").into()),
            message_key: (queue == 2).then(|| MessageKey::of(&format!("{id}"))),
            scheduled_enqueue_time: delay_ms.map(|delay_ms| now.plus_ms(delay_ms)),
            ..NewMessage::default()
        };
        let mut client = self.client(queue);
        client.submit(Command::Send { messages: [message].into_iter().collect() });
        let response = client.response().await.1;
        let is_accepted = matches!(response, Response::Sent(Ok(_)));
        assert!(is_accepted || self.has_failed, "{response:?}");
        // A duplicate is accepted and not there.
        let is_there = self.browse(queue).await.iter().any(|one| one.content == content.as_bytes());
        assert!(is_accepted || !is_there, "{content} was refused and is there");
        assert!(is_there || !is_accepted || queue == 2, "{content} was accepted and is not there");
        if is_there {
            self.present.entry(queue).or_default().insert(content.into_bytes());
        }
    }

    async fn receive(&mut self, queue: usize, id: u8, how: How) -> usize {
        let mut client = self.client(queue);
        self.receivers += 1;
        let receiver = client.receiver(self.receivers);
        let options = ReceiverOptions { source: QueuePath::main(client.queue), mode: ReceiveMode::PeekLock };
        let session = (queue == 1)
            .then(|| SessionRequest { id: Some(format!("{id}").into()), ..SessionRequest::default() });
        client.tell(Command::OpenReceiver { receiver, options, session });
        let limit = CreditLimit { messages: 4, bytes: u64::MAX };
        client.tell(Command::Credit { receiver, limit, drain: false });
        let now = self.broker.clock.now();
        let deliveries: Vec<Delivery> = client.all().await.into_iter().filter_map(delivered).collect();
        for delivery in &deliveries {
            let end = delivery.message.lock.unwrap().locked_until;
            assert!(end <= now.plus_ms(LOCK_MS), "locked until {end:?} at {now:?}");
            assert!(delivery.message.view.enqueued_at <= now, "{:?} at {now:?}", delivery.message.view);
        }
        let every = if matches!(how, How::CompleteAll) { 1 } else { 2 };
        for delivery in deliveries.iter().step_by(every) {
            let modify = Vec::new();
            let settlement = match how {
                How::Complete | How::CompleteAll => Settlement::Complete,
                How::Abandon => Settlement::Abandon { modify },
                How::Postpone(ms) => Settlement::Postpone { modify, until: now.plus_ms(ms) },
                How::Nothing => continue,
            };
            client.settle(token(delivery), settlement);
            let outputs = client.all().await;
            let is_done = |output: &Output| matches!(output, Output::Response { response: Response::Settled(failures), .. } if failures.is_empty());
            let is_settled = outputs.iter().any(is_done);
            assert!(is_settled || self.has_failed, "{outputs:?}");
            if is_settled && matches!(how, How::Complete | How::CompleteAll) {
                self.present.get_mut(&queue).unwrap().remove(&delivery.message.content[..]);
            }
        }
        client.tell(Command::CloseReceiver { receiver });
        quiet().await;
        deliveries.len()
    }

    async fn browse(&self, queue: usize) -> Vec<Received> {
        let mut client = self.client(queue);
        client.submit(peek(QueuePath { queue: client.queue, sub_queue: SubQueue::Main }));
        match client.response().await.1 {
            Response::Received(Ok(messages)) => messages,
            other => panic!("{other:?}"),
        }
    }

    /// Exactly the messages that must be present are, and enqueued times have the order of numbers.
    async fn check(&self) {
        let now = self.broker.clock.now();
        for (queue, present) in &self.present {
            let found = self.browse(*queue).await;
            let contents: BTreeSet<Vec<u8>> = found.iter().map(|one| one.content.to_vec()).collect();
            assert_eq!(contents, *present, "{}", NAMES[*queue]);
            let times: Vec<_> = found.iter().map(|one| one.view.enqueued_at).collect();
            assert!(times.is_sorted(), "{}: {times:?}", NAMES[*queue]);
            assert!(times.iter().all(|at| *at <= now), "{}: {times:?} at {now:?}", NAMES[*queue]);
        }
    }

    /// Everything comes once the clock is behind all delays, and can be completed.
    async fn end(&mut self) {
        self.set_wall((300 * HOUR_MS).cast_signed()).await;
        pass(&self.broker, 2 * LOCK_MS).await;
        for queue in 0..NAMES.len() {
            let left = self.browse(queue).await;
            let is_active = |one: &Received| one.view.state == MessageState::Active;
            assert!(left.iter().all(is_active), "{left:?}");
            for id in 0..3 {
                while self.receive(queue, id, How::CompleteAll).await > 0 {}
            }
        }
        self.check().await;
        assert!(self.present.values().all(BTreeSet::is_empty), "{:?}", self.present);
        assert_eq!(stored(&self.broker, Space::Body), 0);
    }
}

fn delivered(output: Output) -> Option<Delivery> {
    match output {
        Output::Delivery(delivery) => Some(*delivery),
        _ => None,
    }
}

/// Messages are never dead-lettered.
fn options() -> QueueOptions {
    QueueOptions { max_delivery_count: 1_000, lock_duration_ms: LOCK_MS, ..QueueOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_everything_comes(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::start().await;
            for step in &steps {
                world.step(step).await;
                if !matches!(step, Step::Refuse) {
                    world.check().await;
                }
            }
            world.end().await;
        });
    }
}
