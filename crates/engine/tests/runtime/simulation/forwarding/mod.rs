//! A network of entities that forward to each other.
//!
//! - `network`: the entities and their forwarding targets, constant or changing.
//! - `audit`: the invariants of each message, identified by its body, wherever it is.

mod audit;
pub(super) mod network;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use peeklock_engine::runtime::{Mailbox, MailboxReceiver, Output, Request, Response};
use peeklock_engine::{
    BodyRef, Command, CreditLimit, Delivery, LockToken, MessageKey, NewMessage, QueueId, QueueOptions,
    QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal, Rule, RuleProperties, Settlement, SubQueue,
};
use peeklock_storage::Space;
use tokio::task::JoinHandle;

use self::audit::{Answer, Audit};
use self::network::{Node, QUEUES, SUBSCRIPTIONS, id_of};
use super::steps::{ForwardStep, How};
use super::world::{Address, World};
use crate::broker::peek;

/// Rounds after which everything has arrived at the end.
const ROUNDS: usize = 4;
const ROUND_MS: u64 = 100_000;
const READS_MAX: usize = 1_000;

enum Asked {
    Send { contents: Vec<String> },
    Settle { content: String, how: How },
    Peek,
}

struct LockedMessage {
    address: Address,
    content: String,
    token: LockToken,
}

/// State of a client of the network.
pub(super) struct Forwarding {
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    receivers: BTreeMap<ReceiverId, (Address, Node)>,
    locks: Vec<LockedMessage>,
    changing: Option<JoinHandle<Result<(), String>>>,
    /// Whether the change in progress may delete an entity.
    deletes: bool,
    audit: Audit,
    /// Number of messages sent to the network.
    sent: u64,
}

impl Default for Forwarding {
    fn default() -> Self {
        let (mailbox, outputs) = Mailbox::new();
        Self {
            mailbox,
            outputs,
            asked: BTreeMap::new(),
            next_tag: 0,
            receivers: BTreeMap::new(),
            locks: Vec::new(),
            changing: None,
            deletes: false,
            audit: Audit::default(),
            sent: 0,
        }
    }
}

impl Forwarding {
    pub(super) fn started_behind(&mut self, behind_ms: u64) {
        self.audit.started_behind(behind_ms);
    }

    pub(super) fn restarted(&mut self) {
        (self.mailbox, self.outputs) = Mailbox::new();
        for asked in std::mem::take(&mut self.asked).into_values() {
            if let Asked::Settle { content, how: How::Complete } = asked {
                self.audit.completion_in_doubt(&content);
            }
        }
        self.receivers.clear();
        self.locks.clear();
        self.changing = None;
    }

    fn submit(&mut self, address: &Address, command: Command, asked: Option<Asked>) {
        let tag = asked.map(|asked| {
            self.next_tag += 1;
            self.asked.insert(self.next_tag, asked);
            self.next_tag
        });
        address.partition.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    fn receive(
        &mut self,
        receiver: ReceiverId,
        (address, node): (Address, Node),
        sub_queue: SubQueue,
        credit: u64,
    ) {
        let source = QueuePath { queue: address.queue, sub_queue };
        let options = ReceiverOptions { source, mode: ReceiveMode::PeekLock };
        self.receivers.insert(receiver, (address.clone(), node));
        self.submit(&address, Command::OpenReceiver { receiver, options, session: None }, None);
        let limit = CreditLimit { messages: credit, bytes: u64::MAX };
        self.submit(&address, Command::Credit { receiver, limit, drain: false }, None);
    }

    fn settle(&mut self, which: usize, how: How) {
        if self.locks.is_empty() {
            return;
        }
        let LockedMessage { address, content, token } = self.locks.swap_remove(which % self.locks.len());
        let modify = Vec::new();
        let settlement = match how {
            How::Complete => Settlement::Complete,
            How::Abandon | How::Postpone => Settlement::Abandon { modify },
            How::Defer => Settlement::Defer { modify },
            How::DeadLetter => Settlement::DeadLetter { why: Arc::default(), modify },
            How::Release => Settlement::Release,
        };
        let tokens = [token].into_iter().collect();
        let command = Command::Settle { queue: address.queue, tokens, settlement };
        self.submit(&address, command, Some(Asked::Settle { content, how }));
    }

    fn close_receivers(&mut self) {
        for (receiver, (address, _)) in std::mem::take(&mut self.receivers) {
            self.submit(&address, Command::CloseReceiver { receiver }, None);
        }
    }

    fn listen(&mut self, is_in_doubt: bool) {
        while let Ok(output) = self.outputs.try_recv() {
            match output {
                Output::Response { tag, response } => {
                    let asked = self.asked.remove(&tag).expect("one answer for each question");
                    self.answered(asked, response, is_in_doubt);
                }
                Output::Delivery(delivery) => self.delivered(&delivery),
                Output::Drained { .. } | Output::Examine { .. } => panic!("not requested"),
                // Entities are deleted, begin to forward, or are reloaded.
                Output::ReceiverClosed { receiver, .. } => {
                    self.receivers.remove(&receiver);
                }
            }
        }
    }

    fn delivered(&mut self, delivery: &Delivery) {
        let message = &delivery.message;
        let content = String::from_utf8(message.content.to_vec()).unwrap();
        let Some((address, node)) = self.receivers.get(&delivery.receiver).cloned() else { return };
        self.audit.seen(&content, node, &message.view);
        let token = message.lock.expect("all are locked").token;
        self.locks.push(LockedMessage { address, content, token });
    }

    fn answered(&mut self, asked: Asked, response: Response, is_in_doubt: bool) {
        match (asked, response) {
            (Asked::Send { contents }, Response::Sent(result)) => {
                let answer = match result {
                    Ok(_) => Answer::Accepted,
                    Err(
                        Refusal::StorageFull
                        | Refusal::StorageFailing
                        | Refusal::EntityDisabled
                        | Refusal::EntityDeleted,
                    ) => Answer::Refused,
                    Err(Refusal::Unavailable) if is_in_doubt => Answer::Unknown,
                    Err(refusal) => panic!("a message was refused: {refusal}"),
                };
                contents.iter().for_each(|content| self.audit.answered(content, answer));
            }
            (Asked::Settle { content, how: How::Complete }, Response::Settled(failures)) => {
                match failures.first().map(|failure| &failure.refusal) {
                    None => self.audit.completed(&content),
                    Some(Refusal::Unavailable) => self.audit.completion_in_doubt(&content),
                    Some(_) => {}
                }
            }
            (Asked::Settle { .. }, Response::Settled(_)) => {}
            (_, response) => panic!("unexpected answer {response:?}"),
        }
    }
}

impl World {
    fn node(&self, node: Node) -> Option<Address> {
        let namespace = &self.broker.namespace;
        if SUBSCRIPTIONS.contains(&node) {
            let found = namespace.subscription(Node::Fan.name(), node.name())?;
            return Some(Address { partition: found.partition, queue: found.queue });
        }
        namespace.entity(node.name()).map(|found| Address { partition: found.partition, queue: found.queue })
    }

    pub(super) fn forward_step(&mut self, step: &ForwardStep) {
        match *step {
            ForwardStep::Send { to, ref ids, delay_ms, ttl_ms } => self.send_on(to, ids, (delay_ms, ttl_ms)),
            ForwardStep::Receive { from, dead, credit } => {
                let Some(address) = self.node(from) else { return };
                let sub_queue = if dead { SubQueue::DeadLetter } else { SubQueue::Main };
                let receiver = self.broker.namespace.next_receiver_id(&address.partition);
                self.forwarding.receive(receiver, (address, from), sub_queue, credit);
            }
            ForwardStep::Settle { which, how } => self.forwarding.settle(which, how),
            ForwardStep::CloseReceivers => self.forwarding.close_receivers(),
            ForwardStep::Loose { to, dead_letters_go } => {
                self.redeclare(Node::Loose, network::loose(to, dead_letters_go));
            }
            ForwardStep::Turns { there, to } => {
                let namespace = self.broker.namespace.clone();
                let (fan, turns) = (Node::Fan.name(), Node::Turns.name());
                let wanted = vec![(turns.to_owned(), network::subscription(to), vec![Rule::default_rule()])];
                self.change_network(!there, async move {
                    let changed = if there {
                        namespace.declare_subscriptions(fan, wanted).await
                    } else {
                        namespace.delete_subscription(fan, turns).await.map(|_| ())
                    };
                    changed.map_err(|error| format!("{error:?}"))
                });
            }
            ForwardStep::Sink { takes } => self.redeclare(Node::Sink, network::sink(takes)),
            ForwardStep::Ghost { there: true } => self.redeclare(Node::Ghost, QueueOptions::default()),
            ForwardStep::Ghost { there: false } => {
                let namespace = self.broker.namespace.clone();
                self.change_network(true, async move {
                    namespace.delete(Node::Ghost.name()).await.map_err(|error| format!("{error:?}"))
                });
            }
        }
    }

    fn redeclare(&mut self, node: Node, options: QueueOptions) {
        let namespace = self.broker.namespace.clone();
        self.change_network(false, async move {
            namespace.declare(node.name(), options).await.map_err(|error| format!("{error:?}"))
        });
    }

    /// One change at a time; it is finished when it is durable.
    fn change_network(
        &mut self,
        deletes: bool,
        change: impl Future<Output = Result<(), String>> + Send + 'static,
    ) {
        if self.forwarding.changing.is_none() {
            self.forwarding.changing = Some(tokio::spawn(change));
            self.forwarding.deletes = deletes;
        }
    }

    fn send_on(&mut self, to: Node, ids: &[usize], life: (Option<u64>, Option<u64>)) {
        let Some(address) = self.node(to) else { return };
        let has_ids = matches!(to, Node::Ids | Node::Unique);
        let (now, mut contents, mut messages) = (self.now(), Vec::new(), smallvec::SmallVec::new());
        // Not scheduled, because duplicates are judged by the time of acceptance.
        let life = if has_ids { (None, life.1) } else { life };
        for id in ids {
            let content = self.new_content(&if has_ids { format!("#{id}") } else { String::new() });
            self.forwarding.audit.sending(&content, to, now, life);
            messages.push(NewMessage {
                content: Bytes::copy_from_slice(content.as_bytes()),
                scheduled_enqueue_time: life.0.map(|delay_ms| now.plus_ms(delay_ms)),
                time_to_live_ms: life.1,
                message_key: id_of(&content).filter(|_| to == Node::Unique).map(MessageKey::of),
                rule_properties: (to == Node::Fan).then(|| Arc::new(RuleProperties::default())),
                ..NewMessage::default()
            });
            contents.push(content);
            self.forwarding.sent += 1;
        }
        self.forwarding.submit(&address, Command::Send { messages }, Some(Asked::Send { contents }));
    }

    pub(super) async fn observe_forwarding(&mut self) {
        self.forwarding.listen(self.in_doubt || self.reads_fail);
        // A deletion may be in progress, or be completed by a start; a topic discards the copies of a missing subscription.
        let is_there = |node| self.node(node).is_some();
        let is_deleting = self.forwarding.changing.is_some() && self.forwarding.deletes;
        if is_deleting || !is_there(Node::Ghost) || !is_there(Node::Turns) {
            self.forwarding.audit.deleting();
        }
        if let Some(changing) = self.forwarding.changing.take_if(|changing| changing.is_finished()) {
            let changed = changing.await.expect("changing does not panic");
            let ghost = self.broker.namespace.options(Node::Ghost.name()).is_none();
            assert!(changed.is_ok() || ghost || self.was_full || self.in_doubt, "{changed:?}");
        }
    }

    /// Whether only this network was used: then the clock can be advanced freely.
    pub(super) fn only_forwards(&self) -> bool {
        self.forwarding.sent == self.sent
    }

    /// Whether the partition belongs to the network.
    pub(super) fn is_in_network(&self, queue: QueueId) -> bool {
        self.network().iter().any(|(_, address)| address.queue == queue)
    }

    fn network(&self) -> Vec<(Node, Address)> {
        let nodes = QUEUES.into_iter().chain(SUBSCRIPTIONS).chain([Node::Fan]);
        nodes.filter_map(|node| Some((node, self.node(node)?))).collect()
    }

    /// Once nothing fails any more: checks that everything was forwarded, and that the store contains only what is left.
    pub(super) async fn end_forwarding(&mut self) {
        self.forwarding.listen(self.in_doubt || self.reads_fail);
        assert!(self.forwarding.asked.is_empty(), "{} questions got no answer", self.forwarding.asked.len());
        let namespace = self.broker.namespace.clone();
        self.forwarding.audit.count();
        let wanted = [(Node::Ghost, QueueOptions::default()), (Node::Sink, network::sink(true))];
        let wanted = wanted.map(|(node, options)| (node.name().to_owned(), options));
        // Until the pending refusals of the store are used up.
        while let Err(error) = namespace.declare_all(wanted.clone()).await {
            assert!(self.was_full, "{error}");
        }
        for _ in 0..ROUNDS {
            self.broker.store.patrol();
            self.broker.clock.advance(ROUND_MS);
            let namespace = namespace.clone();
            let catching_up = tokio::spawn(async move { namespace.catch_up().await });
            for _ in 0..READS_MAX {
                self.slow.release().await;
                if catching_up.is_finished() {
                    break;
                }
            }
            assert!(catching_up.is_finished(), "forwarding does not come to an end");
        }
        let (mut heads, mut bodies): (BTreeMap<QueueId, usize>, BTreeMap<QueueId, HashSet<BodyRef>>) =
            Default::default();
        let fan = self.node(Node::Fan).unwrap().queue;
        for (node, address) in self.network() {
            let main = self.look(node, &address, SubQueue::Main).await;
            let dead = self.look(node, &address, SubQueue::DeadLetter).await;
            assert!(!node.always_forwards() || main.is_empty(), "{node:?} has messages left: {main:?}");
            let dead_go = node == Node::Works;
            assert!(!dead_go || dead.is_empty(), "{node:?} has dead letters left: {dead:?}");
            let aside = self.look(node, &address, SubQueue::TransferDeadLetter).await;
            let here = [main, dead, aside].concat();
            heads.insert(address.queue, here.len());
            let keeper = if SUBSCRIPTIONS.contains(&node) { fan } else { address.queue };
            bodies.entry(keeper).or_default().extend(here);
        }
        let now = self.now();
        self.forwarding.audit.conclude(now);
        for (queue, head_count) in heads {
            let stored = |space| {
                let keys = self.broker.store.keys();
                keys.iter().filter(|key| key.partition.0 == queue.0 && key.space == space).count()
            };
            assert_eq!(stored(Space::Head), head_count, "heads of {queue:?}");
            let body_count = bodies.get(&queue).map_or(0, HashSet::len);
            assert_eq!(stored(Space::Body), body_count, "bodies of {queue:?}");
        }
    }

    /// Checks the messages in a queue and returns their bodies.
    async fn look(&mut self, node: Node, address: &Address, sub_queue: SubQueue) -> Vec<BodyRef> {
        if node == Node::Fan {
            return Vec::new();
        }
        let source = QueuePath { queue: address.queue, sub_queue };
        self.forwarding.submit(address, peek(source), Some(Asked::Peek));
        self.slow.release().await;
        let messages = loop {
            match self.forwarding.outputs.try_recv() {
                Ok(Output::Response { tag, response: Response::Received(Ok(messages)) }) => {
                    self.forwarding.asked.remove(&tag);
                    break messages;
                }
                Ok(Output::Delivery(delivery)) => self.forwarding.delivered(&delivery),
                Ok(Output::ReceiverClosed { .. }) => {}
                other => panic!("can't browse {node:?}: {other:?}"),
            }
        };
        for message in &messages {
            let content = String::from_utf8(message.content.to_vec()).unwrap();
            self.forwarding.audit.left(&content, node, &message.view);
        }
        messages.iter().map(|message| message.view.body).collect()
    }
}
