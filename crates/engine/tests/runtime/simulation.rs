//! Random histories with crashes, full disks and slow reads, watched by an auditor. A failure prints its seed and
//! shrinks; `PROPTEST_CASES` sets how many are tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{Mailbox, MailboxReceiver, ManualClock, Output, Request, Response};
use peeklock_engine::{
    Command, CreditLimit, Delivery, LockToken, NewMessage, QueueId, QueueOptions, QueuePath, ReceiveMode,
    ReceiverId, ReceiverOptions, Refusal, Settlement, SubQueue,
};
use peeklock_storage::{Error, MemoryStore, Shard, ShardId, Store};
use proptest::prelude::*;

use crate::auditor::Auditor;
use crate::broker::{Broker, QUEUE, START, peek, quiet};
use crate::slow_reads::SlowReads;

const QUEUES: [&str; 2] = [QUEUE, "invoices"];

/// Small enough that many contents have to be read back.
const BODY_CACHE_BYTES: usize = 600;

#[derive(Debug, Clone)]
enum Step {
    Send { queue: usize, count: usize, delay_ms: Option<u64> },
    Receive { queue: usize, mode: ReceiveMode, credit: u64 },
    CloseReceivers,
    Settle { which: usize, how: How },
    Advance { duration_ms: u64 },
    Commit { batches: usize },
    Read,
    FullOnce,
    Crash,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Complete,
    Abandon,
    Defer,
    DeadLetter,
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let queue = 0..QUEUES.len();
    let how = prop_oneof![
        4 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::Defer),
        1 => Just(How::DeadLetter),
        1 => Just(How::Release),
    ];
    let mode = prop_oneof![3 => Just(ReceiveMode::PeekLock), 1 => Just(ReceiveMode::ReceiveAndDelete)];
    let step = prop_oneof![
        8 => (queue.clone(), 1..6_usize, prop::option::weighted(0.2, 1..100_000_u64))
            .prop_map(|(queue, count, delay_ms)| Step::Send { queue, count, delay_ms }),
        5 => (queue, mode, 1..8_u64).prop_map(|(queue, mode, credit)| Step::Receive { queue, mode, credit }),
        1 => Just(Step::CloseReceivers),
        8 => (any::<prop::sample::Index>(), how)
            .prop_map(|(which, how)| Step::Settle { which: which.index(1 << 16), how }),
        2 => (1..90_000_u64).prop_map(|duration_ms| Step::Advance { duration_ms }),
        8 => (1..5_usize).prop_map(|batches| Step::Commit { batches }),
        5 => Just(Step::Read),
        1 => Just(Step::FullOnce),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// Nothing accepted is lost, nothing completed comes back, no sequence number is given out twice, first
    /// deliveries keep their order.
    #[test]
    fn whatever_happens_the_auditor_is_content(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::start().await;
            for step in &steps {
                world.step(step).await;
            }
            world.end().await;
        });
    }
}

/// What a response will be about.
enum Asked {
    Send { queue: usize, contents: Vec<String> },
    Complete { queue: usize, content: String },
    Other,
}

struct Held {
    queue: usize,
    content: String,
    token: LockToken,
}

struct Reader {
    queue: usize,
    mode: ReceiveMode,
    credit: u64,
}

struct World {
    broker: Broker,
    slow: Arc<SlowReads>,
    starts: u64,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    receivers: BTreeMap<ReceiverId, Reader>,
    /// Whether the disk was full since the last start: only then may the broker close receivers.
    was_full: bool,
    ending: bool,
    locks: Vec<Held>,
    auditors: [Auditor; QUEUES.len()],
    next_content: u64,
}

async fn boot(store: MemoryStore, clock: ManualClock, seed: u64) -> (Broker, Arc<SlowReads>) {
    let slow = SlowReads::new(store.acquire(ShardId(0)).unwrap());
    let shard = Arc::clone(&slow) as Arc<dyn Shard>;
    let broker = Broker::over(store, shard, clock, BODY_CACHE_BYTES, seed).await;
    broker.namespace.declare(QUEUES[1], QueueOptions::default()).await.unwrap();
    (broker, slow)
}

impl World {
    async fn start() -> Self {
        let (broker, slow) = boot(MemoryStore::new(), ManualClock::new(START), 0).await;
        broker.store.hold();
        let (mailbox, outputs) = Mailbox::new();
        Self {
            broker,
            slow,
            starts: 0,
            mailbox,
            outputs,
            asked: BTreeMap::new(),
            next_tag: 0,
            receivers: BTreeMap::new(),
            was_full: false,
            ending: false,
            locks: Vec::new(),
            auditors: Default::default(),
            next_content: 0,
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Send { queue, count, delay_ms } => self.send(*queue, *count, *delay_ms),
            Step::Receive { queue, mode, credit } => self.receive(*queue, *mode, *credit),
            Step::CloseReceivers => self.close_receivers(),
            Step::Settle { which, how } => self.settle(*which, *how),
            Step::Advance { duration_ms } => self.broker.clock.advance(*duration_ms),
            Step::Commit { batches } => {
                let _released = (0..*batches).take_while(|_| self.broker.store.release_one()).count();
            }
            Step::Read => self.slow.release().await,
            Step::FullOnce => {
                self.was_full = true;
                self.broker.store.fail_next(Error::Full { reason: "simulated".to_owned() });
            }
            Step::Crash => self.crash().await,
        }
        quiet().await;
        self.listen();
    }

    fn submit(&mut self, queue: usize, command: Command, asked: Option<Asked>) {
        let tag = asked.map(|asked| {
            self.next_tag += 1;
            self.asked.insert(self.next_tag, asked);
            self.next_tag
        });
        let handle = self.broker.namespace.entity(QUEUES[queue]).unwrap().partition;
        handle.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    fn id(&self, queue: usize) -> QueueId {
        self.broker.namespace.entity(QUEUES[queue]).unwrap().queue
    }

    fn send(&mut self, queue: usize, count: usize, delay_ms: Option<u64>) {
        let scheduled = delay_ms
            .map(|delay_ms| peeklock_engine::runtime::Clock::now(&self.broker.clock).plus_ms(delay_ms));
        let mut contents = Vec::new();
        for _ in 0..count {
            self.next_content += 1;
            let content = format!("content-{}", self.next_content);
            self.auditors[queue].sending(&content);
            contents.push(content);
        }
        let message = |content: &String| NewMessage {
            content: Bytes::copy_from_slice(content.as_bytes()),
            scheduled_enqueue_time: scheduled,
            ..NewMessage::default()
        };
        let messages = contents.iter().map(message).collect();
        self.submit(queue, Command::Send { messages }, Some(Asked::Send { queue, contents }));
    }

    fn receive(&mut self, queue: usize, mode: ReceiveMode, credit: u64) {
        // One queue is never received from destructively: there every loss shows.
        let mode = if queue == 0 { ReceiveMode::PeekLock } else { mode };
        let receiver = self.broker.namespace.next_receiver_id();
        self.receivers.insert(receiver, Reader { queue, mode, credit });
        let options = ReceiverOptions { source: QueuePath::main(self.id(queue)), mode };
        self.submit(queue, Command::OpenReceiver { receiver, options, session: None }, Some(Asked::Other));
        let limit = CreditLimit { messages: credit, bytes: u64::MAX };
        self.submit(queue, Command::Credit { receiver, limit, drain: false }, None);
    }

    fn close_receivers(&mut self) {
        for (receiver, reader) in std::mem::take(&mut self.receivers) {
            self.submit(reader.queue, Command::CloseReceiver { receiver }, None);
            self.closed(&reader);
        }
    }

    /// What a receiver could still have been given may have been taken for it already.
    fn closed(&mut self, reader: &Reader) {
        self.auditors[reader.queue].order_unknown();
        if reader.mode == ReceiveMode::ReceiveAndDelete {
            self.auditors[reader.queue].may_take(reader.credit);
        }
    }

    fn settle(&mut self, which: usize, how: How) {
        if self.locks.is_empty() {
            return;
        }
        let Held { queue, content, token } = self.locks.swap_remove(which % self.locks.len());
        let modify = Vec::new();
        let (settlement, asked) = match how {
            How::Complete => {
                self.auditors[queue].completing(&content);
                (Settlement::Complete, Asked::Complete { queue, content })
            }
            How::Abandon => (Settlement::Abandon { modify }, Asked::Other),
            How::Defer => (Settlement::Defer { modify }, Asked::Other),
            How::DeadLetter => (Settlement::DeadLetter { why: Arc::default(), modify }, Asked::Other),
            How::Release => (Settlement::Release, Asked::Other),
        };
        let tokens = [token].into_iter().collect();
        let id = self.id(queue);
        self.submit(queue, Command::Settle { queue: id, tokens, settlement }, Some(asked));
    }

    /// Loses what is not durable; answers that were on their way may or may not have arrived, here they have.
    async fn crash(&mut self) {
        quiet().await;
        self.listen();
        self.broker.store.crash();
        self.reboot().await;
        self.broker.store.hold();
    }

    async fn reboot(&mut self) {
        quiet().await;
        (self.mailbox, self.outputs) = Mailbox::new();
        self.asked.clear();
        std::mem::take(&mut self.receivers).values().for_each(|reader| self.closed(reader));
        self.was_full = false;
        self.locks.clear();
        self.auditors.iter_mut().for_each(Auditor::order_unknown);
        self.starts += 1;
        let (store, clock) = (self.broker.store.clone(), self.broker.clock.clone());
        (self.broker, self.slow) = boot(store, clock, self.starts).await;
    }

    fn listen(&mut self) {
        while let Ok(output) = self.outputs.try_recv() {
            match output {
                Output::Response { tag, response } => self.answered(tag, response),
                Output::Delivery(delivery) => self.delivered(&delivery),
                Output::Drained { .. } => panic!("nobody asked to drain"),
                Output::ReceiverClosed { receiver, .. } => {
                    assert!(self.was_full || self.ending, "{receiver:?} was closed for no reason");
                    if let Some(reader) = self.receivers.remove(&receiver) {
                        self.closed(&reader);
                    }
                }
            }
        }
    }

    fn delivered(&mut self, delivery: &Delivery) {
        let Some(reader) = self.receivers.get_mut(&delivery.receiver) else { return };
        reader.credit = reader.credit.checked_sub(1).expect("no more deliveries than credit");
        let queue = reader.queue;
        self.auditors[queue].delivered(delivery, reader.mode);
        if let Some(lock) = delivery.message.lock {
            let content = String::from_utf8(delivery.message.content.to_vec()).unwrap();
            self.locks.push(Held { queue, content, token: lock.token });
        }
    }

    fn answered(&mut self, tag: u64, response: Response) {
        match (self.asked.remove(&tag).expect("one answer for each question"), response) {
            (Asked::Send { queue, contents }, Response::Sent(Ok(numbers))) => {
                assert_eq!(numbers.len(), contents.len());
                for (content, number) in contents.iter().zip(numbers) {
                    self.auditors[queue].accepted(content, number);
                }
            }
            (Asked::Complete { queue, content }, Response::Settled(failures)) => {
                match failures.first().map(|failure| &failure.refusal) {
                    None => self.auditors[queue].completed(&content),
                    Some(Refusal::MessageLockLost) => self.auditors[queue].completion_refused(&content),
                    Some(_) => {}
                }
            }
            (Asked::Send { .. }, Response::Sent(Err(Refusal::StorageFull))) | (Asked::Other, _) => {}
            (_, response) => panic!("unexpected answer {response:?}"),
        }
    }

    /// Lets everything finish, restarts in good order and looks at what is left.
    async fn end(mut self) {
        self.broker.store.release_all();
        self.slow.release().await;
        quiet().await;
        self.listen();
        assert!(self.asked.is_empty(), "{} questions got no answer", self.asked.len());
        // All that could be delivered has been: what is missing now is lost.
        self.receivers.values_mut().for_each(|reader| reader.credit = 0);
        self.ending = true;
        self.broker.namespace.shutdown().await;
        self.listen();
        self.reboot().await;
        for queue in 0..QUEUES.len() {
            let mut contents = Vec::new();
            for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
                let source = QueuePath { queue: self.id(queue), sub_queue };
                self.submit(queue, peek(source), Some(Asked::Other));
                self.slow.release().await;
                let Ok(Output::Response { response: Response::Received(Ok(messages)), .. }) =
                    self.outputs.try_recv()
                else {
                    panic!("can't browse")
                };
                contents.extend(messages.iter().map(|m| String::from_utf8(m.content.to_vec()).unwrap()));
            }
            self.auditors[queue].left(&contents);
        }
    }
}
