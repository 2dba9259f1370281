//! A client's endpoint, a broker's endpoint with its logic, and the engine's side of the mailbox, connected in memory.

use std::task::Waker;

use bytes::{Bytes, BytesMut};
use peeklock_access::Access;
use peeklock_engine::runtime::{MailboxReceiver, Requests, Response};
use peeklock_engine::{
    AcceptedSession, Delivery, Lock, LockToken, MessageView, Received, SequenceNumber, Tier, Timestamp,
};

use super::super::*;
use super::entities::{Commits, SomeEntities, Work};
pub(super) use super::entities::{QUEUE, SESSIONS, SUBSCRIPTION, TOPIC};
use crate::endpoint::{Config, IncomingId, Outgoing};
use crate::server::ApplicationFactory;
use crate::wire::Value;
use crate::wire::message::{MessageProperties, encode_application_properties, encode_body_value};
use crate::wire::performative::{
    Attach, DeliveryState, Error, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus,
};

/// Turns after which a conversation that does not end counts as endless.
const TURNS_MAX: usize = 10_000;

/// The broker's time.
pub(super) const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// How long messages are locked.
pub(super) const LOCK_MS: u64 = 60_000;

pub(super) struct Harness {
    pub(super) client: Connection,
    pub(super) server: Connection,
    pub(super) broker: ConnectionHandler,
    to_client: BytesMut,
    to_server: BytesMut,
    events: Vec<Event>,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
    requests: Requests,
    commits: Commits,
    pub(super) register: Register,
    pub(super) session: u16,
    links: u32,
    now: NowMs,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with(Access::open(), &Peer::default())
    }

    /// A client with an incoming window of this many transfer frames.
    pub(super) fn with_window(frames: u32) -> Self {
        Self::of(Access::open(), &Peer::default(), frames)
    }

    /// A broker that requires authentication.
    pub(super) fn with(access: Access, peer: &Peer) -> Self {
        Self::of(access, peer, Config::default().incoming_window)
    }

    /// A broker whose namespace has this tier.
    pub(super) fn of_tier(tier: Tier) -> Self {
        let config = DialectConfig { tier, ..DialectConfig::default() };
        Self::configured(Access::open(), &Peer::default(), Config::default().incoming_window, config)
    }

    /// A broker that ends unused links and connections.
    pub(super) fn with_idle_limits(idle: IdleLimits) -> Self {
        let config = DialectConfig { idle, ..DialectConfig::default() };
        Self::configured(Access::open(), &Peer::default(), Config::default().incoming_window, config)
    }

    fn of(access: Access, peer: &Peer, incoming_window: u32) -> Self {
        Self::configured(access, peer, incoming_window, DialectConfig::default())
    }

    fn configured(access: Access, peer: &Peer, incoming_window: u32, config: DialectConfig) -> Self {
        let (partition, requests) = PartitionHandle::new();
        let commits = Commits::default();
        let entities = SomeEntities::new(partition, Arc::clone(&commits));
        let (mailbox, outputs) = Mailbox::new();
        let config = DialectConfig { seed: Some(1), ..config };
        let register = Register::default();
        let bus = ServiceBus::new(Arc::new(entities), access, config).registered(register.clone());
        let broker = bus.accept(peer, mailbox.clone());
        let plain = Config { idle_time_out_ms: None, sasl_optional: true, ..Config::default() };
        let bare = Config { sasl_mechanisms: Vec::new(), incoming_window, ..plain.clone() };
        let mut harness = Self {
            client: Connection::client(bare, "localhost", 0),
            server: Connection::server(plain, 0),
            broker,
            to_client: BytesMut::new(),
            to_server: BytesMut::new(),
            events: Vec::new(),
            mailbox,
            outputs,
            requests,
            commits,
            register,
            session: 0,
            links: 0,
            now: 0,
        };
        harness.session = harness.client.begin().unwrap();
        harness.pump();
        harness
    }

    /// Transfers bytes and engine outputs until there is nothing more to transfer.
    pub(super) fn pump(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut quiet = transmit(&mut self.client, &mut self.to_server) == 0;
            quiet &= !self.server_turn();
            quiet &= transmit(&mut self.server, &mut self.to_client) == 0;
            self.broker.after_transmit(&mut self.server);
            self.client.handle_input(&mut self.to_client, 0);
            while let Some(event) = self.client.poll_event() {
                self.events.push(event);
            }
            quiet &= !self.client.has_input_work(&self.to_client);
            if quiet {
                return;
            }
        }
        panic!("the conversation does not come to rest");
    }

    /// Runs one turn of the broker, including its write.
    pub(super) fn one_turn(&mut self) {
        self.server_turn();
        assert!(transmit(&mut self.server, &mut self.to_client) > 0);
        self.broker.after_transmit(&mut self.server);
    }

    /// Runs one turn of the broker at that time, while the client reads nothing; returns the commands that reached the
    /// engine.
    pub(super) fn turn_unread(&mut self, passed_ms: NowMs) -> Vec<(Option<u64>, Command)> {
        self.now += passed_ms;
        self.server_turn();
        transmit(&mut self.server, &mut self.to_client);
        self.broker.after_transmit(&mut self.server);
        std::iter::from_fn(|| self.requests.try_next()).map(|one| (one.tag, one.command)).collect()
    }

    /// Transfers the client's current output, in a frame of its own.
    pub(super) fn client_speaks(&mut self) {
        transmit(&mut self.client, &mut self.to_server);
    }

    /// One turn of the broker's driver without writing.
    pub(super) fn server_turn(&mut self) -> bool {
        let mut busy = false;
        self.server.handle_input(&mut self.to_server, 0);
        while let Some(event) = self.server.poll_event() {
            busy = true;
            self.broker.handle_event(event, &mut self.server, self.now);
        }
        while let Ok(output) = self.outputs.try_recv() {
            busy = true;
            self.broker.handle_output(output, &mut self.server, self.now);
        }
        if self.broker.poll_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.broker.handle_timeout(&mut self.server, self.now);
        }
        let _ = self.broker.poll_wake(&mut Context::from_waker(Waker::noop()));
        self.broker.end_of_turn(&mut self.server, self.now);
        busy || self.broker.is_busy() || self.server.has_input_work(&self.to_server)
    }

    /// Advances the connection's time.
    pub(super) fn advance(&mut self, duration_ms: NowMs) {
        self.now += duration_ms;
        self.pump();
    }

    /// The client's events since the last call.
    pub(super) fn events(&mut self) -> Vec<Event> {
        self.pump();
        std::mem::take(&mut self.events)
    }

    /// Commands that reached the engine since the last call, with their tags.
    pub(super) fn commands(&mut self) -> Vec<(Option<u64>, Command)> {
        self.pump();
        std::iter::from_fn(|| self.requests.try_next())
            .map(|request| (request.tag, request.command))
            .collect()
    }

    /// The one command that reached the engine since the last call.
    pub(super) fn command(&mut self) -> (Option<u64>, Command) {
        let mut commands = self.commands();
        assert_eq!(commands.len(), 1, "{commands:?}");
        commands.remove(0)
    }

    /// Joint steps committed since the last call.
    pub(super) fn commits(&mut self) -> Vec<(u64, Vec<Work>)> {
        self.pump();
        std::mem::take(&mut *self.commits.lock().unwrap())
    }

    /// Sends an answer of the engine.
    pub(super) fn answer(&mut self, tag: Option<u64>, response: Response) {
        self.mailbox.put(Output::Response { tag: tag.expect("an answer is awaited"), response });
        self.pump();
    }

    pub(super) fn output(&mut self, output: Output) {
        self.mailbox.put(output);
    }

    /// Attaches a link of the client; its answer is among the events.
    pub(super) fn attach(&mut self, attach: Attach) -> LinkId {
        let link = self.client.attach(self.session, attach).unwrap();
        self.pump();
        link
    }

    pub(super) fn next_link_name(&mut self) -> String {
        self.links += 1;
        format!("link {}", self.links)
    }

    pub(super) fn sender_attach(&mut self, address: &str) -> Attach {
        let name = self.next_link_name();
        let rcv_settle_mode = ReceiverSettleMode::First;
        Attach { rcv_settle_mode, ..plain_attach(&name, Role::Sender, "client", address) }
    }

    pub(super) fn receiver_attach(&mut self, address: &str) -> Attach {
        let name = self.next_link_name();
        plain_attach(&name, Role::Receiver, address, "client")
    }

    /// A sender that the broker has accepted; the commands for it are discarded.
    pub(super) fn sender(&mut self, address: &str) -> LinkId {
        let attach = self.sender_attach(address);
        let link = self.attach(attach);
        assert!(self.refusal().is_none(), "accepted");
        assert!(self.commands().iter().all(|(_, command)| matches!(command, Command::Watch { .. })));
        link
    }

    /// A receiver that engine and broker have accepted, and its id.
    pub(super) fn receiver(&mut self, address: &str) -> (LinkId, ReceiverId) {
        let attach = self.receiver_attach(address);
        let link = self.attach(attach);
        let (tag, Command::OpenReceiver { receiver, .. }) = self.command() else {
            panic!("a receiver opens")
        };
        self.answer(tag, Response::Opened(Ok(None)));
        assert!(self.refusal().is_none(), "accepted");
        (link, receiver)
    }

    /// A receiver in the mode receive-and-delete.
    pub(super) fn deleting_receiver(&mut self, address: &str) -> (LinkId, ReceiverId) {
        let attach = self.receiver_attach(address);
        let link = self.attach(Attach { snd_settle_mode: SenderSettleMode::Settled, ..attach });
        let (tag, Command::OpenReceiver { receiver, .. }) = self.command() else {
            panic!("a receiver opens")
        };
        self.answer(tag, Response::Opened(Ok(None)));
        assert!(self.refusal().is_none(), "accepted");
        (link, receiver)
    }

    /// A receiver of the session that engine and broker have accepted, and its id.
    pub(super) fn session_receiver(&mut self, session: &str) -> (LinkId, ReceiverId) {
        let mut attach = self.receiver_attach("sessions");
        attach.source.as_mut().unwrap().filter = vec![(SESSION_FILTER.into(), session.into())];
        let link = self.attach(attach);
        let (tag, Command::OpenReceiver { receiver, .. }) = self.command() else {
            panic!("a receiver opens")
        };
        self.answer(tag, accepted(session));
        assert!(self.refusal().is_none(), "accepted");
        (link, receiver)
    }

    /// A sender and a receiver on a request-response node.
    pub(super) fn requester(&mut self, address: &str) -> LinkId {
        let attach = self.receiver_attach(address);
        let responses = self.attach(attach);
        self.client.set_credit(responses, 10, false);
        self.sender(address)
    }

    /// The error with which the broker refused or ended a link, from the client's events.
    pub(super) fn refusal(&mut self) -> Option<Error> {
        self.events().into_iter().find_map(|event| match event {
            Event::Detached { error, .. } => error,
            _ => None,
        })
    }

    pub(super) fn send(&mut self, link: LinkId, settled: bool, message_format: u32, payload: Bytes) {
        self.write(link, settled, message_format, payload);
        self.pump();
    }

    /// The same, but the broker gets it in its next turn, together with what else the client writes before.
    pub(super) fn write(&mut self, link: LinkId, settled: bool, message_format: u32, payload: Bytes) {
        let payload = [payload].into_iter().collect();
        let outgoing = Outgoing { tag: Some([7; 16]), settled, message_format, payload };
        self.client.send(link, outgoing).unwrap();
    }

    /// The outcome of the client's last delivery.
    pub(super) fn outcome(&mut self) -> Option<DeliveryState> {
        self.events().into_iter().find_map(|event| match event {
            Event::Disposition { state, settled: true, .. } => state,
            _ => None,
        })
    }

    /// Messages that the client received.
    pub(super) fn messages(&mut self) -> Vec<(IncomingId, Bytes, Bytes)> {
        self.events()
            .into_iter()
            .filter_map(|event| match event {
                Event::Message { id, tag, payload, .. } => Some((id, Bytes::copy_from_slice(&tag), payload)),
                _ => None,
            })
            .collect()
    }

    /// Lets the engine deliver a message of 100 bytes under the lock of that number.
    pub(super) fn deliver(&mut self, receiver: ReceiverId, number: u64) {
        let lock = Some(Lock { token: LockToken(number.into()), locked_until: NOW.plus_ms(LOCK_MS) });
        let message = Received { view: view(number), content: message(&"x".repeat(50)), lock };
        self.output(Output::Delivery(Box::new(Delivery { receiver, message, departing: None, share: None })));
    }
}

pub(super) const SESSION_FILTER: &str = "com.microsoft:session-filter";

/// The engine's grant of a session, locked for a second.
pub(super) fn accepted(session: &str) -> Response {
    let locked_until = NOW.plus_ms(1000);
    Response::Opened(Ok(Some(AcceptedSession { id: session.into(), locked_until, token: None })))
}

fn transmit(from: &mut Connection, to: &mut BytesMut) -> usize {
    let mut slices: Vec<Bytes> = Vec::new();
    from.poll_transmit(&mut slices, usize::MAX, 0);
    for slice in &slices {
        to.extend_from_slice(slice);
    }
    slices.iter().map(Bytes::len).sum()
}

fn terminus(address: &str) -> Terminus {
    Terminus { address: Some(address.into()), ..Terminus::default() }
}

/// An attach as Python's receiver sends it.
pub(in crate::servicebus) fn plain_attach(name: &str, role: Role, source: &str, target: &str) -> Attach {
    Attach {
        name: name.into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(terminus(source)),
        target: Some(Target::Node(terminus(target))),
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }
}

pub(super) fn view(number: u64) -> MessageView {
    MessageView { enqueued_at: Timestamp(1), ..MessageView::new(QUEUE, SequenceNumber(number)) }
}

/// A message with an id.
pub(super) fn message(text: &str) -> Bytes {
    request(Value::String("id".into()), &[], &Value::String(text.into()))
}

/// A request as a client encodes it.
pub(super) fn request(message_id: Value, properties: &[(&str, Value)], body: &Value) -> Bytes {
    let mut output = BytesMut::new();
    MessageProperties { message_id, ..MessageProperties::default() }.encode(&mut output);
    let entries: Vec<_> =
        properties.iter().map(|(key, value)| (Value::String((*key).into()), value.clone())).collect();
    encode_application_properties(&entries, &mut output);
    encode_body_value(body, &mut output);
    output.freeze()
}
