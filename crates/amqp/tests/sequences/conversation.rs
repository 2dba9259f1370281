//! A broker in memory behind its real driver, and a client that sends the frames of an input; the assertions hold for
//! every input. The fuzz target `sequence` and `cargo test` run the same code.

use std::future::pending;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use peeklock_access::{Access, EntityRules, Policy};
use peeklock_amqp::endpoint::Config;
use peeklock_amqp::server::{Connections, ListenerOptions, Peer};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus};
use peeklock_amqp::wire::frame::{
    FrameHeader, FrameKind, decode_body, decode_sasl, encode_frame, encode_sasl,
};
use peeklock_amqp::wire::performative::{DeliveryState, Open, Performative, SaslFrame};
use peeklock_engine::runtime::{ManualClock, Namespace, NamespaceOptions};
use peeklock_engine::{QueueOptions, Rule, SubscriptionOptions, Timestamp, TopicOptions};
use peeklock_storage::{MemoryStore, ShardId, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{JoinHandle, yield_now};

use super::script::{Script, Seen, Step};

/// The time at which every conversation begins.
const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// Maximum number of steps of one script; the rest is ignored.
const STEPS_MAX: usize = 300;

/// Bytes between client and broker, each way.
const PIPE_BYTES: usize = 16 * 1024;

/// The largest frame that either side accepts.
const FRAME_BYTES_MAX: u32 = 4096;

/// Turns of all tasks without output of the broker after which it counts as idle.
const QUIET_TURNS: usize = 12;

/// Turns of all tasks after which a broker that still sends, or does not yet read, counts as endless.
const TURNS_MAX: usize = 200_000;

/// Maximum output that a script of a few kilobytes may cause.
const OUTPUT_BYTES_MAX: usize = 32 << 20;

struct Client {
    socket: DuplexStream,
    served: JoinHandle<()>,
    clock: ManualClock,
    unread: BytesMut,
    read_bytes: usize,
    is_reading: bool,
    /// Whether the client ever stopped reading: the broker may have given up in the middle of a frame.
    has_paused: bool,
    has_ended: bool,
    has_closed: bool,
    seen: Seen,
}

/// Runs one conversation. The first byte selects how the client begins, the second the size of the pieces in which its
/// bytes are sent; the rest is a script, or raw bytes.
pub(crate) fn exercise(input: &[u8]) {
    let Some(([how, cut], rest)) = input.split_first_chunk::<2>().map(|(head, rest)| (*head, rest)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let clock = ManualClock::new(NOW);
        let namespace = namespace(&clock).await;
        let mut client = Client::connect(&namespace, &clock, how & 1 == 1);
        let piece_bytes = if cut == 0 { usize::MAX } else { usize::from(cut) };
        match how >> 1 & 3 {
            0 => client.say_hello(None).await,
            1 => client.say_hello(Some(("ANONYMOUS", ""))).await,
            2 => client.say_hello(Some(("PLAIN", "\0RootManageSharedAccessKey\0SAS_KEY_VALUE"))).await,
            _ => {
                client.write(rest, piece_bytes).await;
                return client.hang_up().await;
            }
        }
        client.follow(rest, piece_bytes).await;
        client.hang_up().await;
        assert!(namespace.describe("q").is_some(), "the namespace lives");
        namespace.shutdown().await;
    });
}

async fn namespace(clock: &ManualClock) -> Namespace {
    let shard = MemoryStore::new().acquire(ShardId(0)).await.expect("a shard");
    let options =
        NamespaceOptions { body_cache_bytes: 1 << 16, seed: Some(1), ..NamespaceOptions::default() };
    let namespace = Namespace::start(shard, Arc::new(clock.clone()), options).await.expect("a namespace");
    let queue = QueueOptions { max_message_size_bytes: 8 * 1024, ..QueueOptions::default() };
    let sessions = QueueOptions { requires_session: true, ..queue.clone() };
    namespace.declare("q", queue).await.expect("a queue");
    namespace.declare("sessions", sessions).await.expect("a queue");
    let topic = TopicOptions { max_message_size_bytes: 8 * 1024, ..TopicOptions::default() };
    namespace.declare("t", topic).await.expect("a topic");
    let rules = vec![Rule::default_rule()];
    let subscription = namespace.create_subscription("t", "s", SubscriptionOptions::default(), rules);
    subscription.await.expect("a subscription");
    namespace
}

impl Client {
    fn connect(namespace: &Namespace, clock: &ManualClock, is_guarded: bool) -> Self {
        let access = if is_guarded {
            let entities: Arc<dyn EntityRules> = Arc::new(namespace.clone());
            Access::new(Policy::development(), entities, Arc::new(clock.clone()))
        } else {
            Access::open()
        };
        let config = DialectConfig { seed: Some(1), ..DialectConfig::default() };
        let bus = ServiceBus::new(Arc::new(namespace.clone()), access, config);
        let endpoint = Config {
            max_frame_size: FRAME_BYTES_MAX,
            sasl_optional: true,
            links_max: 16,
            sessions_max: 4,
            reassembly_bytes_max: 32 * 1024,
            ..Config::default()
        };
        let options = ListenerOptions { connections_max: 1, endpoint, grace_ms: 0 };
        let connections = Connections::new(Arc::new(bus), Arc::new(clock.clone()), options);
        let (socket, other) = tokio::io::duplex(PIPE_BYTES);
        let served = tokio::spawn(async move {
            connections.serve(other, BytesMut::new(), Peer::default(), pending()).await;
        });
        Self {
            socket,
            served,
            clock: clock.clone(),
            unread: BytesMut::new(),
            read_bytes: 0,
            is_reading: true,
            has_paused: false,
            has_ended: false,
            has_closed: false,
            seen: Seen::default(),
        }
    }

    async fn say_hello(&mut self, sasl: Option<(&str, &str)>) {
        let mut hello = BytesMut::new();
        if let Some((mechanism, response)) = sasl {
            hello.extend_from_slice(b"AMQP\x03\x01\x00\x00");
            let initial_response = Some(Bytes::copy_from_slice(response.as_bytes()));
            let init = SaslFrame::Init { mechanism: mechanism.into(), initial_response, hostname: None };
            encode_sasl(&init, &mut hello);
        }
        hello.extend_from_slice(b"AMQP\x00\x01\x00\x00");
        let open = Open {
            container_id: "client".into(),
            hostname: Some("localhost".into()),
            max_frame_size: Some(FRAME_BYTES_MAX),
            ..Open::default()
        };
        encode_frame(0, &Performative::Open(open), 0, &mut hello);
        self.write(&hello, usize::MAX).await;
    }

    async fn follow(&mut self, script: &[u8], piece_bytes: usize) {
        let mut script = Script::new(script);
        for _ in 0..STEPS_MAX {
            match script.next(&self.seen) {
                Some(Step::Write(bytes)) => self.write(&bytes, piece_bytes).await,
                Some(Step::Pause(duration_ms)) => {
                    self.clock.advance(duration_ms);
                    self.settle().await;
                }
                Some(Step::Read(is_reading)) => {
                    self.is_reading = is_reading;
                    self.has_paused |= !is_reading;
                }
                None => return,
            }
            if self.has_ended {
                return;
            }
        }
    }

    /// Writes in pieces. If the broker stops reading because its answers are not read, the client reads.
    async fn write(&mut self, bytes: &[u8], piece_bytes: usize) {
        for mut piece in bytes.chunks(piece_bytes) {
            let mut turns = 0;
            while !piece.is_empty() && !self.has_ended {
                let written = tokio::select! {
                    biased;
                    written = self.socket.write(piece) => written,
                    () = yield_now() => Ok(0),
                };
                // A broker that has closed the connection reads nothing more.
                let Ok(written) = written else { break };
                piece.advance(written);
                if written == 0 {
                    turns += 1;
                    self.is_reading |= turns > QUIET_TURNS;
                    assert!(turns < TURNS_MAX, "the broker does not listen");
                    self.read().await;
                }
            }
            // Each piece is handled separately; its effects need not be complete before the next.
            yield_now().await;
            self.read().await;
        }
        self.settle().await;
    }

    /// Lets all tasks run until the broker has no more output.
    async fn settle(&mut self) {
        let (mut quiet, mut turns) = (0, 0);
        while quiet < QUIET_TURNS {
            yield_now().await;
            quiet = if self.read().await { 0 } else { quiet + 1 };
            turns += 1;
            assert!(turns < TURNS_MAX, "the conversation does not come to rest");
        }
    }

    /// Reads the available output; returns whether there was any.
    async fn read(&mut self) -> bool {
        if !self.is_reading || self.has_ended {
            return false;
        }
        let before = self.unread.len();
        let read = tokio::select! {
            biased;
            read = self.socket.read_buf(&mut self.unread) => read.expect("memory does not fail"),
            () = std::future::ready(()) => return false,
        };
        self.has_ended = read == 0;
        self.read_bytes += self.unread.len() - before;
        assert!(self.read_bytes < OUTPUT_BYTES_MAX, "the broker says too much");
        while self.read_frame() {}
        read > 0
    }

    /// Checks that all output of the broker is AMQP, and that nothing follows its close.
    fn read_frame(&mut self) -> bool {
        let Some(head) = self.unread.first_chunk::<8>() else { return false };
        if head.starts_with(b"AMQP") {
            self.unread.advance(8);
            return true;
        }
        let header = FrameHeader::decode(*head).expect("a frame");
        assert!(header.size <= FRAME_BYTES_MAX, "a frame of {} bytes", header.size);
        let size = header.size as usize;
        if self.unread.len() < size {
            return false;
        }
        let mut body = self.unread.split_to(size).freeze();
        body.advance(header.body_offset as usize);
        assert!(!self.has_closed, "a frame after the close");
        match header.kind {
            FrameKind::Sasl => drop(decode_sasl(body).expect("a SASL frame")),
            FrameKind::Amqp => match decode_body(body).expect("a performative") {
                Some((Performative::Close(_), _)) => self.has_closed = true,
                Some((Performative::Transfer(transfer), _)) => {
                    self.seen.delivery_id = transfer.delivery_id.unwrap_or(self.seen.delivery_id);
                    self.seen.tag = Bytes::copy_from_slice(&transfer.delivery_tag.unwrap_or_default());
                }
                Some((Performative::Disposition(disposition), _)) => {
                    if let Some(DeliveryState::Declared { txn_id }) = disposition.state {
                        self.seen.txn_id = txn_id;
                    }
                }
                _ => {}
            },
        }
        true
    }

    /// Closes the client's side; the broker must end the connection as well.
    async fn hang_up(mut self) {
        self.is_reading = true;
        let _ = self.socket.shutdown().await;
        let mut turns = 0;
        while !self.has_ended {
            self.settle().await;
            self.clock.advance(1_000);
            turns += 1;
            assert!(turns < 1_000, "the broker does not end the connection");
        }
        while !self.served.is_finished() {
            self.clock.advance(1_000);
            yield_now().await;
            turns += 1;
            assert!(turns < TURNS_MAX, "the connection's task does not end");
        }
        self.served.await.expect("the connection's task ends without a panic");
        assert!(self.unread.is_empty() || self.has_paused, "the broker stops in the middle of a frame");
    }
}
