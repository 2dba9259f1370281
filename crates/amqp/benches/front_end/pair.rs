//! A client's endpoint and the broker's front end, connected in memory, and an engine that answers every command with
//! success at once.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use peeklock_access::Access;
use peeklock_amqp::endpoint::{Config, Connection, Event, IncomingId, LinkId, Outgoing};
use peeklock_amqp::server::{Application, ApplicationFactory, Peer};
use peeklock_amqp::servicebus::{
    ConnectionHandler, DialectConfig, Entities, Hold, JointStep, Place, ServiceBus,
};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::{Header, MessageProperties};
use peeklock_amqp::wire::performative::{
    Attach, DeliveryState, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus,
};
use peeklock_engine::runtime::{
    ClientSubscription, EntityRef, Mailbox, MailboxReceiver, Output, PartitionHandle, Request, Requests,
    Response, SubscriptionRef, Temporary,
};
use peeklock_engine::{
    Command, Delivery, EntityOptions, Lock, LockToken, MessageView, NewMessage, QueueId, QueueOptions,
    Received, ReceiverId, SequenceNumber, Timestamp,
};
use rustix::time::{ClockId, clock_gettime};
use smallvec::SmallVec;

const QUEUE: QueueId = QueueId(1);

/// Messages between two turns of the driver.
pub(crate) const BATCH: u64 = 64;

/// Bytes of a message's body.
const BODY_BYTES: usize = 1024;

struct OneQueue(PartitionHandle, Arc<EntityOptions>);

impl Entities for OneQueue {
    fn entity(&self, _name: &str) -> Option<EntityRef> {
        let (partition, options) = (self.0.clone(), Arc::clone(&self.1));
        Some(EntityRef { partition, queue: QUEUE, options })
    }

    fn subscription(&self, _topic: &str, _name: &str) -> Option<SubscriptionRef> {
        None
    }

    fn next_receiver_id(&self, _: &PartitionHandle) -> ReceiverId {
        ReceiverId(1)
    }

    fn now(&self) -> Timestamp {
        Timestamp(1)
    }

    fn begin_transaction(&self) -> Box<dyn JointStep> {
        Box::new(NoStep)
    }

    fn create_temporary(&self, _wanted: Temporary, _mailbox: Mailbox, _tag: u64) -> Hold {
        Box::new(())
    }

    fn subscribe(&self, _wanted: ClientSubscription, _mailbox: Mailbox, _tag: u64) -> Hold {
        Box::new(())
    }

    fn unsubscribe(&self, _name: &str, _mailbox: Mailbox, _tag: u64) {}

    fn topic_of_client_subscription(&self, _name: &str) -> Option<String> {
        None
    }
}

/// No transactions are used here.
struct NoStep;

impl JointStep for NoStep {
    fn add(&mut self, _entity: &PartitionHandle, _command: Command) {}

    fn add_transfer(&mut self, _via: &Place, _target: &Place, _messages: SmallVec<[NewMessage; 1]>) {}

    fn commit(self: Box<Self>, _mailbox: Mailbox, _tag: u64) {}
}

pub(crate) struct Pair {
    client: Connection,
    to_server: BytesMut,
    to_client: BytesMut,
    server: Connection,
    broker: ConnectionHandler,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    requests: Requests,
    /// Output buffer of the server, reused.
    slices: Vec<Bytes>,
}

impl Pair {
    pub(crate) fn new() -> Self {
        let (partition, requests) = PartitionHandle::new();
        let (mailbox, outputs) = Mailbox::new();
        let entities = OneQueue(partition, Arc::new(QueueOptions::default().into()));
        let bus = ServiceBus::new(Arc::new(entities), Access::open(), DialectConfig::default());
        let broker = bus.accept(&Peer::default(), mailbox.clone());
        let config = Config { idle_time_out_ms: None, sasl_optional: true, ..Config::default() };
        let bare = Config { sasl_mechanisms: Vec::new(), ..config.clone() };
        Self {
            client: Connection::client(bare, "localhost", 0),
            to_server: BytesMut::new(),
            to_client: BytesMut::new(),
            server: Connection::server(config, 0),
            broker,
            mailbox,
            outputs,
            requests,
            slices: Vec::new(),
        }
    }

    fn client_speaks(&mut self) {
        let mut slices = Vec::new();
        self.client.poll_transmit(&mut slices, usize::MAX, 0);
        slices.iter().for_each(|slice| self.to_server.extend_from_slice(slice));
    }

    /// The measured part: the work of a connection's driver in its turns. A separate function so that valgrind can
    /// identify it.
    #[inline(never)]
    fn server_turn(&mut self) -> Duration {
        let start = cpu_time();
        loop {
            self.server.handle_input(&mut self.to_server, 0);
            while let Some(event) = self.server.poll_event() {
                self.broker.handle_event(event, &mut self.server, 0);
            }
            while let Ok(output) = self.outputs.try_recv() {
                self.broker.handle_output(output, &mut self.server, 0);
            }
            self.broker.end_of_turn(&mut self.server, 0);
            self.server.poll_transmit(&mut self.slices, usize::MAX, 0);
            self.broker.after_transmit(&mut self.server);
            self.broker.submit_commands();
            if !self.server.has_input_work(&self.to_server) {
                break;
            }
        }
        cpu_time() - start
    }

    /// The engine answers every command with success at once.
    fn engine_turn(&mut self) {
        while let Some(Request { tag, command, .. }) = self.requests.try_next() {
            let response = match command {
                Command::Send { messages } => {
                    Response::Sent(Ok(messages.iter().map(|_| SequenceNumber(1)).collect()))
                }
                Command::SendEach { messages } => {
                    Response::SentEach(messages.iter().map(|_| Ok(SequenceNumber(1))).collect())
                }
                Command::Settle { .. } => Response::Settled(Vec::new()),
                Command::OpenReceiver { .. } => Response::Opened(Ok(None)),
                _ => continue,
            };
            if let Some(tag) = tag {
                self.mailbox.put(Output::Response { tag, response });
            }
        }
    }

    fn client_listens(&mut self) -> Vec<Event> {
        self.slices.drain(..).for_each(|slice| self.to_client.extend_from_slice(&slice));
        let mut events = Vec::new();
        loop {
            self.client.handle_input(&mut self.to_client, 0);
            events.extend(std::iter::from_fn(|| self.client.poll_event()));
            if !self.client.has_input_work(&self.to_client) {
                return events;
            }
        }
    }

    /// Repeats the steps above until a round produces nothing new.
    fn settle_down(&mut self) {
        for _ in 0..8 {
            self.client_speaks();
            self.server_turn();
            self.engine_turn();
            self.client_listens();
        }
    }

    pub(crate) fn link(&mut self, role: Role) -> LinkId {
        self.settle_down();
        let session = self.client.begin().unwrap();
        let link = self.client.attach(session, attach(role)).unwrap();
        self.settle_down();
        link
    }
}

/// CPU time of this thread: other work on the machine does not count.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap(), u32::try_from(now.tv_nsec).unwrap())
}

fn attach(role: Role) -> Attach {
    let queue = Terminus { address: Some("queue".into()), ..Terminus::default() };
    Attach {
        name: "link".into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(queue.clone()),
        target: Some(Target::Node(queue)),
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }
}

/// A message as Python's SDK encodes it: header, properties with or without an id, one data section.
pub(crate) fn message(id: Option<&str>) -> Bytes {
    let mut output = BytesMut::new();
    Header::default().encode(&mut output);
    let message_id = id.map_or(Value::Null, |id| Value::String(id.into()));
    MessageProperties { message_id, ..MessageProperties::default() }.encode(&mut output);
    output.extend_from_slice(&[0x00, 0x53, 0x75, 0xb0]);
    output.extend_from_slice(&u32::try_from(BODY_BYTES).unwrap().to_be_bytes());
    output.resize(output.len() + BODY_BYTES, b'x');
    output.freeze()
}

/// Sends `count` messages; returns the broker's CPU time.
pub(crate) fn send(pair: &mut Pair, link: LinkId, payload: &Bytes, count: u64) -> Duration {
    let mut timed = Duration::ZERO;
    let mut accepted = 0;
    for _ in 0..count.div_ceil(BATCH) {
        for number in 0..BATCH {
            let tag = u128::from(number).to_be_bytes();
            let payload = SmallVec::from_iter([payload.clone()]);
            pair.client.send(link, Outgoing { tag: Some(tag), settled: false, message_format: 0, payload });
        }
        pair.client_speaks();
        timed += pair.server_turn();
        pair.engine_turn();
        timed += pair.server_turn();
        for event in pair.client_listens() {
            if let Event::Disposition { tags, state: Some(DeliveryState::Accepted), .. } = event {
                accepted += u64::try_from(tags.len()).unwrap();
            }
        }
    }
    assert_eq!(accepted, count.div_ceil(BATCH) * BATCH);
    timed
}

/// Delivers `count` messages and has them accepted; returns the broker's CPU time.
pub(crate) fn receive(
    pair: &mut Pair,
    link: LinkId,
    content: &Bytes,
    count: u64,
    number: &mut u64,
) -> Duration {
    let mut timed = Duration::ZERO;
    for _ in 0..count.div_ceil(BATCH) {
        pair.client.set_credit(link, u32::try_from(BATCH).unwrap(), false);
        pair.client_speaks();
        timed += pair.server_turn();
        pair.engine_turn();
        for _ in 0..BATCH {
            *number += 1;
            pair.mailbox.put(Output::Delivery(Box::new(delivery(*number, content.clone()))));
        }
        timed += pair.server_turn();
        let got: Vec<IncomingId> = pair
            .client_listens()
            .into_iter()
            .filter_map(|event| match event {
                Event::Message { id, .. } => Some(id),
                _ => None,
            })
            .collect();
        assert_eq!(u64::try_from(got.len()).unwrap(), BATCH);
        for id in got {
            pair.client.update_incoming(id, DeliveryState::Accepted);
            // One frame each, as the SDKs do.
            pair.client_speaks();
        }
        timed += pair.server_turn();
        pair.engine_turn();
        timed += pair.server_turn();
        pair.client_listens();
    }
    timed
}

fn delivery(number: u64, content: Bytes) -> Delivery {
    let view = MessageView { enqueued_at: Timestamp(1), ..MessageView::new(QUEUE, SequenceNumber(number)) };
    let lock = Some(Lock { token: LockToken(u128::from(number)), locked_until: Timestamp(1) });
    Delivery {
        receiver: ReceiverId(1),
        message: Received { view, content, lock },
        departing: None,
        share: None,
    }
}
