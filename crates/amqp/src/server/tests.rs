//! Connections over sockets, in memory and over TCP.

mod cut;
mod memory;
mod turns;

use std::collections::HashMap;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::{Clock, Mailbox, MailboxReceiver, Output, Response};
use smallvec::smallvec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::*;
use crate::endpoint::{Config, Connection, Event, IncomingId, LinkId, NowMs, Outgoing};
use crate::wire::frame::{encode_frame, encode_sasl};
use crate::wire::performative::{
    Attach, Begin, DeliveryState, Performative, ReceiverSettleMode, Role, SaslFrame, SenderSettleMode,
    Target, Terminus,
};
use cut::stop_signal;

/// A clock that advances only when a test advances it.
#[derive(Debug)]
struct StillClock(watch::Sender<u64>);

impl StillClock {
    fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(0)))
    }

    fn advance(&self, duration_ms: u64) {
        self.0.send_modify(|now| *now += duration_ms);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp(*self.0.borrow())
    }

    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut time = self.0.subscribe();
        Box::pin(async move {
            if time.wait_for(|now| *now >= deadline.0).await.is_err() {
                pending::<()>().await;
            }
        })
    }
}

/// A minimal broker: accepts links, answers messages through its mailbox, or never.
struct Broker {
    mailbox: Mailbox,
    answers: bool,
    credit: u32,
    waiting: HashMap<u64, IncomingId>,
    seen: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Application for Broker {
    fn handle_event(&mut self, event: Event, connection: &mut Connection, _now: NowMs) {
        match event {
            Event::Authenticate { .. } => connection.sasl_outcome(true),
            Event::Attach { link, attach, .. } => connection.accept_attach(link, *attach, self.credit),
            Event::Message { id, .. } => {
                let tag = self.seen.fetch_add(1, Ordering::SeqCst) as u64;
                self.waiting.insert(tag, id);
                if self.answers {
                    self.mailbox.put(Output::Response { tag, response: Response::Done(Ok(())) });
                }
            }
            Event::Closed { .. } => {
                self.closed.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    fn handle_output(&mut self, output: Output, connection: &mut Connection, _now: NowMs) {
        if let Output::Response { tag, .. } = output
            && let Some(id) = self.waiting.remove(&tag)
        {
            connection.settle_incoming(id, DeliveryState::Accepted);
        }
    }

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {}
}

/// Creates brokers.
#[derive(Default)]
struct Brokers {
    mute: bool,
    seen: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl ApplicationFactory for Brokers {
    type Application = Broker;

    fn accept(&self, _peer: &Peer, mailbox: Mailbox) -> Broker {
        Broker {
            mailbox,
            answers: !self.mute,
            credit: if self.mute { 100_000 } else { 200 },
            waiting: HashMap::new(),
            seen: Arc::clone(&self.seen),
            closed: Arc::clone(&self.closed),
        }
    }
}

/// Sends messages as credit allows and closes when all are accepted.
struct Client {
    link: LinkId,
    to_send: u64,
    sent: u64,
    accepted: u64,
}

impl Application for Client {
    fn handle_event(&mut self, event: Event, connection: &mut Connection, _now: NowMs) {
        match event {
            Event::Credit { limit, .. } => {
                while self.sent < limit.min(self.to_send) {
                    connection.send(self.link, message());
                    self.sent += 1;
                }
            }
            Event::Disposition { tags, .. } => {
                self.accepted += tags.len() as u64;
                if self.accepted == self.to_send {
                    connection.close(None);
                }
            }
            _ => {}
        }
    }

    fn handle_output(&mut self, _output: Output, _connection: &mut Connection, _now: NowMs) {}

    fn end_of_turn(&mut self, _connection: &mut Connection, _now: NowMs) {}
}

fn message() -> Outgoing {
    Outgoing {
        tag: Some([1; 16]),
        settled: false,
        message_format: 0,
        payload: smallvec![Bytes::from_static(&[5; 6_000])],
    }
}

fn sender() -> Attach {
    Attach {
        name: "link".into(),
        handle: 0,
        role: Role::Sender,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::First,
        source: Some(Terminus::default()),
        target: Some(Target::Node(Terminus::default())),
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }
}

fn client(to_send: u64) -> (Connection, (Client, MailboxReceiver)) {
    let mut connection =
        Connection::client(Config { idle_time_out_ms: None, ..Config::default() }, "host", 0);
    let session = connection.begin().unwrap();
    let link = connection.attach(session, sender()).unwrap();
    let (_, outputs) = Mailbox::new();
    (connection, (Client { link, to_send, sent: 0, accepted: 0 }, outputs))
}

fn never() -> StopSignal {
    Box::pin(pending())
}

fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    socket: S,
    brokers: &Brokers,
    clock: &Arc<StillClock>,
    stop: StopSignal,
) -> JoinHandle<Ended> {
    let (mailbox, outputs) = Mailbox::new();
    let broker = brokers.accept(&Peer::default(), mailbox);
    let connection = Connection::server(Config::default(), 0);
    let clock = Arc::clone(clock);
    tokio::spawn(Transport::new(socket, BytesMut::new(), connection, (broker, outputs), clock, stop).run())
}

/// Waits for `reached`, yielding to the tasks under test.
async fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn messages_cross_a_socket_of_any_width() {
    for (width, messages) in [(7, 20), (64, 100), (4_096, 500), (1 << 20, 500)] {
        let (near, far) = duplex(width);
        let (brokers, clock) = (Brokers::default(), StillClock::new());
        let server = serve(far, &brokers, &clock, never());
        let (connection, application) = client(messages);
        let ended =
            Transport::new(near, BytesMut::new(), connection, application, clock, never()).run().await;
        assert_eq!(ended, Ended { error: None, by_peer: false });
        assert_eq!(server.await.unwrap(), Ended { error: None, by_peer: true });
        assert_eq!(brokers.seen.load(Ordering::SeqCst) as u64, messages);
        assert_eq!(brokers.closed.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_broken_socket_ends_the_connection_once() {
    let (near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let server = serve(far, &brokers, &clock, never());
    drop(near);
    assert!(server.await.unwrap().by_peer);
    assert_eq!(brokers.closed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_peer_with_too_much_unanswered_is_not_read_from() {
    let (near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers { mute: true, ..Brokers::default() }, StillClock::new());
    serve(far, &brokers, &clock, never());
    let (mut connection, (application, outputs)) = client(0);
    for _ in 0..10_000 {
        connection.send(application.link, message());
    }
    let limit_by_bytes = limits::UNANSWERED_BYTES_MAX / 6_000;
    let most = limit_by_bytes + (limits::READ_BYTES_MAX + (1 << 18)) / 6_000;
    let client = Transport::new(near, BytesMut::new(), connection, (application, outputs), clock, never());
    let seen = Arc::clone(&brokers.seen);
    let client = tokio::spawn(client.run());
    until(|| seen.load(Ordering::SeqCst) >= limit_by_bytes).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!((limit_by_bytes..most).contains(&seen.load(Ordering::SeqCst)));
    client.abort();
}

#[tokio::test]
async fn silence_and_stalls_are_noticed_by_the_clock() {
    let (mut near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let server = serve(far, &brokers, &clock, never());
    near.write_all(b"AMQP\x03\x01\x00\x00").await.unwrap();
    let mut header = [0; 8];
    near.read_exact(&mut header).await.unwrap();
    assert_eq!(&header, b"AMQP\x03\x01\x00\x00");
    // The open time-out, then the time-out of the close.
    until(|| clock.0.receiver_count() > 0).await;
    clock.advance(30_000);
    until(|| brokers.closed.load(Ordering::SeqCst) == 1).await;
    clock.advance(limits::LINGER_MS);
    let ended = server.await.unwrap();
    assert_eq!(&*ended.error.unwrap().condition, "amqp:connection:forced");
}

/// The frames that open a connection without waiting for answers, and frames that may be repeated any number of times.
fn endless_begins() -> (Vec<u8>, BytesMut) {
    let (mechanism, initial_response, hostname) = ("ANONYMOUS".into(), None, None);
    let mut said = BytesMut::from(&b"AMQP\x03\x01\x00\x00"[..]);
    encode_sasl(&SaslFrame::Init { mechanism, initial_response, hostname }, &mut said);
    let mut plain = Connection::client(Config { sasl_mechanisms: Vec::new(), ..Config::default() }, "h", 0);
    let mut slices = Vec::new();
    plain.poll_transmit(&mut slices, usize::MAX, 0);
    said.extend_from_slice(&slices.concat());
    let mut flood = BytesMut::new();
    encode_frame(0, &Performative::Begin(Begin::default()), 0, &mut flood);
    encode_frame(0, &Performative::End(None), 0, &mut flood);
    (said.to_vec(), flood)
}

#[tokio::test]
async fn a_stop_closes_with_connection_forced() {
    let (near, far) = duplex(1 << 16);
    let (brokers, clock) = (Brokers::default(), StillClock::new());
    let (stop, signal) = stop_signal(Stop::Close);
    let server = serve(far, &brokers, &clock, signal);
    let (connection, application) = client(1_000_000);
    let client =
        tokio::spawn(Transport::new(near, BytesMut::new(), connection, application, clock, never()).run());
    until(|| brokers.seen.load(Ordering::SeqCst) > 100).await;
    stop.send(()).unwrap();
    let ended = client.await.unwrap();
    assert!(ended.by_peer);
    assert_eq!(&*ended.error.unwrap().condition, "amqp:connection:forced");
    assert!(!server.await.unwrap().by_peer);
}

async fn listen(options: ListenerOptions) -> (SocketAddr, oneshot::Sender<()>, JoinHandle<()>, Arc<Brokers>) {
    let brokers = Arc::new(Brokers::default());
    let clock: Arc<StillClock> = StillClock::new();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(any, Arc::clone(&brokers), clock, options).await.unwrap();
    let address = listener.local_address().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let run = tokio::spawn(listener.run(async move { stopped.await.unwrap_or(()) }));
    (address, stop, run, brokers)
}

#[tokio::test]
async fn a_listener_serves_and_takes_leave() {
    let options = ListenerOptions { connections_max: 8, endpoint: Config::default(), grace_ms: 0 };
    let (address, stop, run, brokers) = listen(options).await;
    let mut clients = Vec::new();
    for to_send in [300, 300, 1_000_000] {
        let (connection, application) = client(to_send);
        let socket = TcpStream::connect(address).await.unwrap();
        let transport =
            Transport::new(socket, BytesMut::new(), connection, application, StillClock::new(), never());
        clients.push(tokio::spawn(transport.run()));
    }
    let endless = clients.pop().unwrap();
    for client in clients {
        assert_eq!(client.await.unwrap(), Ended { error: None, by_peer: false });
    }
    until(|| brokers.seen.load(Ordering::SeqCst) > 700).await;
    stop.send(()).unwrap();
    run.await.unwrap();
    assert_eq!(&*endless.await.unwrap().error.unwrap().condition, "amqp:connection:forced");
    assert_eq!(brokers.closed.load(Ordering::SeqCst), 3);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn connections_beyond_the_limit_are_hung_up_on() {
    let options = ListenerOptions { connections_max: 1, endpoint: Config::default(), grace_ms: 0 };
    let (address, stop, run, _) = listen(options).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(b"AMQP\x03\x01\x00\x00").await.unwrap();
    assert_eq!(first.read_u8().await.unwrap(), b'A');
    let mut second = TcpStream::connect(address).await.unwrap();
    assert!(matches!(second.read(&mut [0; 8]).await, Ok(0) | Err(_)));
    drop((first, second));
    stop.send(()).unwrap();
    run.await.unwrap();
}
