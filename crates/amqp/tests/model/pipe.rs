//! A broker in memory behind its real driver, and the bytes between it and a client.

use std::future::pending;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use peeklock_access::Access;
use peeklock_amqp::endpoint::Config;
use peeklock_amqp::server::{Connections, ListenerOptions, Peer};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus, TransactionLimits};
use peeklock_amqp::wire::frame::{FrameHeader, decode_body, encode_frame, encode_heartbeat};
use peeklock_amqp::wire::performative::{Open, Performative};
use peeklock_engine::runtime::{Clock, ManualClock, Namespace, NamespaceOptions};
use peeklock_engine::{QueueOptions, Timestamp};
use peeklock_storage::{MemoryStore, ShardId, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;

/// Bytes between client and broker, each way.
const PIPE_BYTES: usize = 16 * 1024;
/// Turns of all tasks without output of the broker after which it counts as idle.
const QUIET_TURNS: usize = 16;
/// Turns of all tasks after which a broker that does not come to rest counts as endless.
const TURNS_MAX: usize = 200_000;

/// The largest message of the queue `q`, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 8 * 1024;
/// How long its locks last, in milliseconds.
pub(crate) const LOCK_MS: u64 = 60_000;

pub(crate) struct Broker {
    pub(crate) clock: ManualClock,
    pub(crate) namespace: Namespace,
}

impl Broker {
    pub(crate) async fn start() -> Self {
        let clock = ManualClock::new(Timestamp(1_700_000_000_000));
        let shard = MemoryStore::new().acquire(ShardId(0)).await.expect("a shard");
        let options =
            NamespaceOptions { body_cache_bytes: 1 << 16, seed: Some(1), ..NamespaceOptions::default() };
        let namespace = Namespace::start(shard, Arc::new(clock.clone()), options).await.expect("a namespace");
        let queue = QueueOptions {
            max_message_size_bytes: MESSAGE_BYTES_MAX,
            max_delivery_count: 1_000,
            lock_duration_ms: LOCK_MS,
            ..QueueOptions::default()
        };
        namespace.declare("q", queue).await.expect("a queue");
        Self { clock, namespace }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        Clock::now(&self.clock).0
    }

    /// Opens a connection of a client with this max-frame-size.
    pub(crate) async fn connect(&self, frame_bytes_max: u32) -> Pipe {
        let transactions =
            TransactionLimits { time_out_ms: u64::MAX, messages_max: 10_000, ..TransactionLimits::default() };
        let config = DialectConfig { seed: Some(1), transactions, ..DialectConfig::default() };
        let bus = ServiceBus::new(Arc::new(self.namespace.clone()), Access::open(), config);
        let endpoint = Config { max_frame_size: frame_bytes_max, sasl_optional: true, ..Config::default() };
        let options = ListenerOptions { connections_max: 1, endpoint, grace_ms: 0 };
        let connections = Connections::new(Arc::new(bus), Arc::new(self.clock.clone()), options);
        let (socket, other) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(async move {
            connections.serve(other, BytesMut::new(), Peer::default(), pending()).await;
        });
        let mut pipe = Pipe {
            socket,
            unread: BytesMut::new(),
            unwritten: BytesMut::new(),
            is_reading: true,
            has_ended: false,
            skipped_reading: false,
        };
        pipe.unwritten.extend_from_slice(b"AMQP\x00\x01\x00\x00");
        let open =
            Open { container_id: "client".into(), max_frame_size: Some(frame_bytes_max), ..Open::default() };
        pipe.say(0, Performative::Open(open), b"");
        pipe
    }
}

/// The client's end of a connection.
pub(crate) struct Pipe {
    socket: DuplexStream,
    unread: BytesMut,
    unwritten: BytesMut,
    pub(crate) is_reading: bool,
    pub(crate) has_ended: bool,
    /// Whether output of the broker may wait in the pipe or behind it.
    pub(crate) skipped_reading: bool,
}

impl Pipe {
    /// Adds a frame to what is written by the next [`Self::exchange`].
    pub(crate) fn say(&mut self, channel: u16, performative: Performative, payload: &[u8]) {
        encode_frame(channel, &performative, payload.len(), &mut self.unwritten);
        self.unwritten.extend_from_slice(payload);
    }

    /// Adds an empty frame.
    pub(crate) fn heartbeat(&mut self) {
        encode_heartbeat(&mut self.unwritten);
    }

    /// Writes what was said, lets all tasks run until the broker has no more output, and returns its frames.
    pub(crate) async fn exchange(&mut self) -> Vec<(u16, Performative, Bytes)> {
        let mut frames = Vec::new();
        let (mut quiet, mut turns) = (0, 0);
        while quiet < QUIET_TURNS && !self.has_ended {
            let written = tokio::select! {
                biased;
                written = self.socket.write(&self.unwritten), if !self.unwritten.is_empty() => written.unwrap_or(0),
                () = yield_now() => 0,
            };
            self.unwritten.advance(written);
            // A broker whose answers are not read may stop reading.
            self.is_reading |= !self.unwritten.is_empty() && turns > 4 * QUIET_TURNS;
            let read = self.read().await;
            quiet = if written > 0 || read { 0 } else { quiet + 1 };
            turns += 1;
            assert!(turns < TURNS_MAX, "the conversation does not come to rest");
            while let Some(frame) = self.next_frame() {
                frames.push(frame);
            }
        }
        self.skipped_reading = !self.is_reading;
        frames
    }

    async fn read(&mut self) -> bool {
        if !self.is_reading {
            return false;
        }
        let read = tokio::select! {
            biased;
            read = self.socket.read_buf(&mut self.unread) => read.expect("memory does not fail"),
            () = std::future::ready(()) => return false,
        };
        self.has_ended = read == 0;
        read > 0
    }

    fn next_frame(&mut self) -> Option<(u16, Performative, Bytes)> {
        loop {
            let head = *self.unread.first_chunk::<8>()?;
            if head.starts_with(b"AMQP") {
                self.unread.advance(8);
                continue;
            }
            let header = FrameHeader::decode(head).expect("a frame");
            if self.unread.len() < header.size as usize {
                return None;
            }
            let mut body = self.unread.split_to(header.size as usize).freeze();
            body.advance(header.body_offset as usize);
            if let Some((performative, payload)) = decode_body(body).expect("a performative") {
                return Some((header.channel, performative, payload));
            }
        }
    }
}
