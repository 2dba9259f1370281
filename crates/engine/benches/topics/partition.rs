//! The partition alone, including the creation of its store operations: no store, no tasks, one thread.

use std::hint::black_box;

use peeklock_engine::partition::{Outputs, Partition, persist};
use peeklock_engine::{
    Command, CreditLimit, Effect, Intent, QueueId, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Rule,
    Settlement, SubscriptionOptions, Timestamp, TopicOptions,
};
use peeklock_storage::{Batch, PartitionId};
use rand::SeedableRng;
use rand::rngs::StdRng;
use smallvec::smallvec;

use super::{FAN_OUT, SUBSCRIPTIONS_MAX, equality, median, message, thread_cpu_time};

const ID: PartitionId = PartitionId(1);
/// Messages of a turn.
const TURN: u64 = 256;
const SENDS: u64 = 256 * 400;
const FANNED_OUT: u64 = 256 * 8;

struct Topic {
    partition: Partition,
    random: StdRng,
    outputs: Outputs,
}

impl Topic {
    fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut topic = Self {
            partition: Partition::new(QueueId(ID.0), TopicOptions::default()),
            random: StdRng::seed_from_u64(1),
            outputs: Outputs::default(),
        };
        for (number, rule) in (0..).zip(rules) {
            topic.handle(Command::DeclareSubscription {
                intent: Intent::Create,
                queue: subscription(number),
                name: format!("subscription-{number}").into(),
                options: SubscriptionOptions::default(),
                rules: vec![rule],
            });
        }
        topic.end_turn();
        topic
    }

    fn handle(&mut self, command: Command) {
        let now = Timestamp(1_800_000_000_000);
        self.partition.handle(now, &mut self.random, None, command, &mut self.outputs);
    }

    /// Makes store operations of the turn's events and discards them.
    fn end_turn(&mut self) {
        let mut batch = Batch::new();
        persist(ID, &self.outputs.events, &mut batch);
        black_box(batch);
        self.outputs.events.clear();
        self.outputs.effects.clear();
    }

    /// CPU nanoseconds per message, for `messages` messages sent to the subscriptions in turn.
    fn send(&mut self, messages: u64, subscriptions: u64) -> f64 {
        let prepared: Vec<_> = (0..subscriptions).map(message).collect();
        let started = thread_cpu_time();
        for _ in 0..messages / TURN {
            for message in prepared.iter().cycle().step_by(7).take(TURN as usize) {
                self.handle(Command::Send { messages: smallvec![message.clone()] });
            }
            self.end_turn();
        }
        (thread_cpu_time() - started).as_nanos() as f64 / messages as f64
    }

    /// CPU nanoseconds per message for delivering and completing the messages of all subscriptions.
    fn receive(&mut self) -> f64 {
        let started = thread_cpu_time();
        let mut completed = 0;
        for number in 0..FAN_OUT {
            let (receiver, queue) = (ReceiverId(number), subscription(number));
            let options = ReceiverOptions { source: QueuePath::main(queue), mode: ReceiveMode::PeekLock };
            self.handle(Command::OpenReceiver { receiver, options, session: None });
            for turn in 1..=FANNED_OUT / TURN {
                let limit = CreditLimit { messages: turn * TURN, bytes: u64::MAX };
                self.handle(Command::Credit { receiver, limit, drain: false });
                for effect in std::mem::take(&mut self.outputs.effects) {
                    if let Effect::Deliver { lock: Some(lock), .. } = effect {
                        let (tokens, settlement) = (smallvec![lock.token], Settlement::Complete);
                        self.handle(Command::Settle { queue, tokens, settlement });
                        completed += 1;
                    }
                }
                self.end_turn();
            }
        }
        assert_eq!(completed, FANNED_OUT * FAN_OUT);
        (thread_cpu_time() - started).as_nanos() as f64 / completed as f64
    }
}

const fn subscription(number: u64) -> QueueId {
    QueueId(100 + number)
}

pub(super) fn main() {
    println!("partition (CPU time), one message for one subscription (send + store operations)");
    let [few, many] = [1, SUBSCRIPTIONS_MAX].map(|subscriptions| {
        let each = median(|| Topic::new((0..subscriptions).map(equality)).send(SENDS, subscriptions));
        println!("  {subscriptions:>5} subscriptions {each:>10.0} ns a message");
        each
    });
    println!("  ratio {:>31.2}", many / few);
    println!("partition (CPU time), one message for {FAN_OUT} subscriptions");
    let mut receive = 0.0;
    let send = median(|| {
        let mut topic = Topic::new((0..FAN_OUT).map(|_| Rule::default_rule()));
        let send = topic.send(FANNED_OUT, 1) / FAN_OUT as f64;
        receive = topic.receive();
        send
    });
    println!("  send {send:>27.0} ns a copy");
    println!("  deliver and complete {receive:>11.0} ns a copy (last round)");
}
