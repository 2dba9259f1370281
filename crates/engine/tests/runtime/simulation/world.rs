//! A namespace, one client with one mailbox, and everything that is known about both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use peeklock_engine::runtime::{
    Clock, Machine, Mailbox, MailboxReceiver, PartitionHandle, ReadRuleProperties, Request,
};
use peeklock_engine::{
    Command, KeyPartition, LockToken, QueueId, QueueOptions, ReceiveMode, ReceiverId, SequenceNumber,
    SubQueue, Timestamp, TopicOptions,
};

use super::clock::Time;
use super::forwarding::{Forwarding, network};
use super::options::{DELIVERIES_MAX, PARTITIONED, Updates, first_options};
use super::sessions::{Sessions, StateAsked};
use super::steps::{DiskStep, How, Place, Step};
use super::storage::Storage;
use super::temporary::{TEMPORARY, Temporary};
use super::topic::{SUBSCRIPTIONS, TOPIC, Topic};
use super::transactions::Work;
use crate::auditor::{Auditor, content};
use crate::broker::{Broker, QUEUE, START, TestClock, quiet};
use crate::slow_reads::SlowReads;

pub(super) const QUEUES: [&str; 2] = [QUEUE, "invoices"];
pub(super) const SESSIONS: &str = "baskets";

/// Small enough that many bodies have to be read back.
const BODY_CACHE_BYTES: usize = 600;

/// The subject of an expected response.
pub(super) enum Asked {
    Send {
        queue: QueueId,
        contents: Vec<String>,
        at: Timestamp,
        scheduled: bool,
    },
    Publish {
        contents: Vec<String>,
    },
    Settle {
        held: LockedMessage,
        how: How,
        must_fail: bool,
    },
    Take {
        taken: Taken,
        mode: ReceiveMode,
    },
    /// These messages are to be dead-lettered by number.
    DeadLetter {
        queue: QueueId,
        contents: Vec<String>,
    },
    Undefer {
        taken: Taken,
    },
    Change,
    Rules {
        queue: QueueId,
    },
    Accept {
        receiver: ReceiverId,
    },
    State(StateAsked),
    Renew {
        receiver: ReceiverId,
    },
    Commit(Work),
    /// The oldest messages of this queue are to be deleted.
    Delete {
        queue: QueueId,
    },
    Other,
}

/// Where commands for a queue or subscription are sent.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) partition: PartitionHandle,
    pub(super) queue: QueueId,
}

/// A locked message.
#[derive(Debug)]
pub(super) struct LockedMessage {
    pub(super) address: Address,
    pub(super) sub_queue: SubQueue,
    pub(super) content: String,
    pub(super) number: SequenceNumber,
    pub(super) token: LockToken,
    /// The receiver of the session under which it was locked.
    pub(super) session: Option<ReceiverId>,
}

/// A deferred message.
pub(super) struct Taken {
    pub(super) address: Address,
    pub(super) sub_queue: SubQueue,
    pub(super) content: String,
    pub(super) number: SequenceNumber,
    pub(super) session: Option<ReceiverId>,
}

pub(super) struct Reader {
    pub(super) address: Address,
    pub(super) sub_queue: SubQueue,
    pub(super) mode: ReceiveMode,
    pub(super) credit: u64,
    pub(super) selects: bool,
}

pub(super) struct World {
    pub(super) broker: Broker<Storage>,
    pub(super) slow: Arc<SlowReads>,
    starts: u64,
    mailbox: Mailbox,
    pub(super) outputs: MailboxReceiver,
    pub(super) asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    pub(super) receivers: BTreeMap<ReceiverId, Reader>,
    /// Whether the disk was full since the last start: only then may the broker close receivers and refuse requests.
    pub(super) was_full: bool,
    /// Whether reads were made to fail since the last start: only then may an entity be busy.
    pub(super) reads_fail: bool,
    /// Whether the store failed with an unknown outcome: unanswered requests may or may not have taken effect.
    pub(super) in_doubt: bool,
    pub(super) ending: bool,
    pub(super) locks: Vec<LockedMessage>,
    pub(super) deferred: Vec<Taken>,
    pub(super) auditors: BTreeMap<QueueId, Auditor>,
    pub(super) topic: Topic,
    pub(super) sessions: Sessions,
    pub(super) temporary: Temporary,
    pub(super) updates: Updates,
    pub(super) forwarding: Forwarding,
    pub(super) time: Time,
    /// The partition of each message that was accepted or delivered, by its number in its queue.
    pub(super) partitions: BTreeMap<(QueueId, SequenceNumber), KeyPartition>,
    /// Transactions with unknown outcome.
    pub(super) doubtful: Vec<Work>,
    /// Messages whose stored attributes were corrupted, by the name of their queue or subscription and their number.
    pub(super) rotten: BTreeSet<(String, u64)>,
    /// Whether they have been repaired.
    pub(super) is_repaired: bool,
    /// Number of messages sent so far.
    pub(super) sent: u64,
}

async fn boot(store: Storage, clock: TestClock, seed: u64) -> (Broker<Storage>, Arc<SlowReads>) {
    let (slow, lease) = SlowReads::over(store.acquire().await);
    let properties: Option<ReadRuleProperties> = Some(network::read_rule_properties);
    let queue = first_options(0);
    let broker = Broker::reading(store, lease, clock, BODY_CACHE_BYTES, seed, properties, queue).await;
    broker.namespace.declare(QUEUES[PARTITIONED], first_options(PARTITIONED)).await.unwrap();
    broker.namespace.declare(TOPIC, TopicOptions::default()).await.unwrap();
    // Messages of a session are not dead-lettered, however often its lock is lost.
    let options = QueueOptions {
        requires_session: true,
        max_delivery_count: DELIVERIES_MAX,
        ..QueueOptions::default()
    };
    broker.namespace.declare(SESSIONS, options).await.unwrap();
    network::declare(&broker.namespace).await;
    (broker, slow)
}

impl World {
    pub(super) async fn start(store: Storage) -> Self {
        let (broker, slow) = boot(store, TestClock::new(START), 0).await;
        let (mailbox, outputs) = Mailbox::new();
        let mut world = Self {
            broker,
            slow,
            starts: 0,
            mailbox,
            outputs,
            asked: BTreeMap::new(),
            next_tag: 0,
            receivers: BTreeMap::new(),
            was_full: false,
            reads_fail: false,
            in_doubt: false,
            ending: false,
            locks: Vec::new(),
            deferred: Vec::new(),
            auditors: BTreeMap::new(),
            partitions: BTreeMap::new(),
            topic: Topic::default(),
            sessions: Sessions::default(),
            temporary: Temporary::default(),
            updates: Updates::default(),
            forwarding: Forwarding::default(),
            time: Time::default(),
            doubtful: Vec::new(),
            rotten: BTreeSet::new(),
            is_repaired: false,
            sent: 0,
        };
        world.declare_temporary();
        (0..SUBSCRIPTIONS.len()).for_each(|name| world.declare_subscription(name));
        world.observe().await;
        world.broker.store.hold();
        world
    }

    pub(super) async fn step(&mut self, step: &Step) {
        match step {
            Step::Send { to, flavours, delay_ms } => self.send(*to, flavours, *delay_ms),
            Step::Receive { from, sub_queue, mode, credit } => {
                self.receive(*from, *sub_queue, *mode, *credit);
            }
            Step::CloseReceivers => self.close_receivers(),
            Step::Delete { from, count } => self.delete(*from, *count),
            Step::Settle { which, how } => self.settle(*which, *how),
            Step::TakeDeferred { which, mode } => self.take_deferred(*which, *mode),
            Step::Advance { duration_ms } => self.broker.clock.advance(*duration_ms),
            Step::Commit { batches, refused } => self.commit(*batches, *refused),
            Step::Read => self.slow.release().await,
            Step::FullOnce => self.fill_up(),
            Step::Crash { seed } => self.crash(*seed).await,
            Step::Disk(step) => {
                // A failing write, allocation or opening of a prepared file may look like a full disk.
                self.was_full |= matches!(step, DiskStep::Plan { .. } | DiskStep::FailReads(..));
                match step {
                    DiskStep::FailReads(..) if std::mem::replace(&mut self.reads_fail, true) => {}
                    DiskStep::Rot(which, byte) => self.rot(*which, *byte),
                    DiskStep::RotHead(which, byte) => self.rot_head(*which, *byte),
                    step => self.broker.store.step(*step),
                }
            }
            Step::Disturb { off_ms, for_ms } => self.disturb(*off_ms, *for_ms),
            Step::CrashBehind { behind_ms } => self.crash_behind(*behind_ms).await,
            Step::Topic(step) => self.topic_step(*step),
            Step::Session(step) => self.session_step(*step),
            Step::ChangeOptions { queue, options } => self.change_options(*queue, *options),
            Step::DeclareTemporary => self.declare_temporary(),
            Step::DeleteTemporary => self.delete_temporary(),
            Step::Forward(step) => self.forward_step(step),
            Step::Transact { to, delay_ms, settles } => self.transact(to, *delay_ms, settles),
            Step::Act { from, sub_queue, picks, act } => self.act(*from, *sub_queue, picks, *act),
            Step::Undefer { which } => self.undefer(*which),
        }
        self.observe().await;
        if self.in_doubt {
            self.crash(self.sent).await;
            self.observe().await;
        }
    }

    fn commit(&mut self, batches: usize, refused: Option<usize>) {
        for position in 0..batches {
            if refused == Some(position) && self.broker.store.held() > 0 {
                self.fill_up();
            }
            self.broker.store.release_one();
        }
    }

    /// The next batch is refused for lack of space.
    fn fill_up(&mut self) {
        self.was_full = true;
        self.broker.store.fill_up();
    }

    /// Lets the broker do all it can, and records the results.
    pub(super) async fn observe(&mut self) {
        quiet().await;
        self.in_doubt |= self.broker.store.is_in_doubt();
        self.observe_clock();
        self.observe_damage();
        self.listen();
        self.observe_topic();
        self.observe_temporary().await;
        self.observe_updates().await;
        self.observe_forwarding().await;
    }

    pub(super) fn now(&self) -> Timestamp {
        self.broker.clock.now()
    }

    /// The queue or subscription in a place, if there is one.
    pub(super) fn find(&self, place: Place) -> Option<Address> {
        let namespace = &self.broker.namespace;
        let name = match place {
            Place::Queue(index) => QUEUES[index],
            Place::Topic => TOPIC,
            Place::Sessions => SESSIONS,
            Place::Temporary => TEMPORARY,
            Place::Subscription(index) => {
                let found = namespace.subscription(TOPIC, SUBSCRIPTIONS[index])?;
                return Some(Address { partition: found.partition, queue: found.queue });
            }
        };
        namespace.entity(name).map(|found| Address { partition: found.partition, queue: found.queue })
    }

    pub(super) fn auditor(&mut self, queue: QueueId) -> &mut Auditor {
        self.auditors.entry(queue).or_default()
    }

    pub(super) fn submit(&mut self, address: &Address, command: Command, asked: Option<Asked>) {
        let tag = asked.map(|asked| self.ask(asked));
        address.partition.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    /// Records the subject of a request; returns its tag.
    pub(super) fn ask(&mut self, asked: Asked) -> u64 {
        self.next_tag += 1;
        self.asked.insert(self.next_tag, asked);
        self.next_tag
    }

    pub(super) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    pub(super) fn new_content(&mut self, suffix: &str) -> String {
        self.sent += 1;
        content(self.sent, suffix)
    }

    /// Loses what is not durable. Responses in transit may or may not arrive in a crash; here they have arrived.
    pub(super) async fn crash(&mut self, seed: u64) {
        quiet().await;
        self.listen();
        self.observe_forwarding().await;
        self.broker.store.crash(seed);
        self.reboot().await;
        self.broker.store.hold();
    }

    pub(super) async fn reboot(&mut self) {
        quiet().await;
        (self.mailbox, self.outputs) = Mailbox::new();
        let unanswered = std::mem::take(&mut self.asked).into_values();
        for asked in unanswered {
            match asked {
                Asked::Commit(work) => self.doubtful.push(work),
                Asked::Delete { queue } => self.deleted(queue),
                _ => {}
            }
        }
        for reader in std::mem::take(&mut self.receivers).values() {
            self.closed(reader);
        }
        (self.was_full, self.reads_fail) = (false, false);
        // Participants of a joint step report durable batches only when it is finished.
        let was_in_doubt = std::mem::take(&mut self.in_doubt) || !self.doubtful.is_empty();
        self.locks.clear();
        self.auditors.values_mut().for_each(|auditor| auditor.order_unknown(self.sent));
        if !was_in_doubt {
            self.topic.restarted();
        }
        self.sessions.restarted();
        self.temporary.restarted();
        self.updates.restarted();
        self.forwarding.restarted();
        self.starts += 1;
        self.before_start();
        let (store, clock) = (self.broker.store.clone(), self.broker.clock.restarted());
        (self.broker, self.slow) = boot(store, clock, self.starts).await;
        self.time.restarted(self.broker.clock.now(), self.broker.clock.machine.boot_ms());
        self.find_deferred_again();
        if was_in_doubt {
            self.resolve_topic().await;
        }
        self.compare_subscriptions();
        self.resolve_transactions().await;
    }

    /// Sets the current addresses of deferred messages: handles of the previous broker are invalid.
    fn find_deferred_again(&mut self) {
        let queues = (0..QUEUES.len()).map(Place::Queue);
        let subscriptions = (0..super::topic::SUBSCRIPTIONS.len()).map(Place::Subscription);
        let places = queues.chain(subscriptions).chain([Place::Sessions, Place::Temporary]);
        let there: Vec<Address> = places.filter_map(|place| self.find(place)).collect();
        self.deferred.retain_mut(|taken| {
            let now = there.iter().find(|address| address.queue == taken.address.queue);
            now.inspect(|address| taken.address = (*address).clone()).is_some()
        });
    }

    /// The tag of the latest request.
    pub(super) fn last_tag(&self) -> u64 {
        self.next_tag
    }
}
