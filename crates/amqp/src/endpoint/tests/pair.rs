//! Two endpoints connected in memory, with bytes in chunks and a manual clock.

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use smallvec::smallvec;

use super::super::{Config, Connection, Event, LinkId, NowMs, Outgoing};
use crate::wire::performative::{Attach, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus};

/// Turns after which a conversation that does not end counts as endless.
const TURNS_MAX: usize = 100_000;

/// How bytes are cut in transit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Chunks {
    /// Not cut.
    Whole,
    /// One by one.
    Single,
    /// Random pieces up to this size.
    UpTo(usize),
}

/// One end: an endpoint, the bytes it received, its events.
#[derive(Debug)]
pub(super) struct End {
    pub(super) endpoint: Connection,
    pub(super) arrived: BytesMut,
    pub(super) events: Vec<Event>,
    /// Bytes it has sent so far.
    pub(super) sent: Vec<u8>,
}

impl End {
    fn new(endpoint: Connection) -> Self {
        Self { endpoint, arrived: BytesMut::new(), events: Vec::new(), sent: Vec::new() }
    }

    /// Passes bytes to the endpoint and collects its events.
    pub(super) fn feed(&mut self, bytes: &[u8], now: NowMs) {
        self.arrived.extend_from_slice(bytes);
        loop {
            self.endpoint.handle_input(&mut self.arrived, now);
            while let Some(event) = self.endpoint.poll_event() {
                if let Event::Authenticate { .. } = event {
                    self.endpoint.sasl_outcome(true);
                }
                self.events.push(event);
            }
            if !self.endpoint.has_input_work(&self.arrived) {
                return;
            }
        }
    }

    pub(super) fn output(&mut self, bytes_max: usize, now: NowMs) -> Vec<u8> {
        let mut slices: Vec<Bytes> = Vec::new();
        self.endpoint.poll_transmit(&mut slices, bytes_max, now);
        let bytes = slices.concat();
        self.sent.extend_from_slice(&bytes);
        bytes
    }

    /// Takes the collected events.
    pub(super) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Takes the collected events and those that wait without input.
    pub(super) fn now(&mut self) -> Vec<Event> {
        self.feed(b"", 0);
        self.take()
    }

    /// Takes the payloads among the collected events.
    pub(super) fn take_messages(&mut self) -> Vec<Bytes> {
        let messages = self.take().into_iter().filter_map(|event| match event {
            Event::Message { payload, .. } => Some(payload),
            _ => None,
        });
        messages.collect()
    }

    pub(super) fn closed_because(&mut self) -> Option<&str> {
        self.feed(b"", 0);
        self.events.iter().find_map(|event| match event {
            Event::Closed { error: Some(error), .. } => Some(&*error.condition),
            Event::Closed { error: None, .. } => Some(""),
            _ => None,
        })
    }
}

#[derive(Debug)]
pub(super) struct Pair {
    pub(super) client: End,
    pub(super) server: End,
    pub(super) now: NowMs,
    pub(super) chunks: Chunks,
    pub(super) rng: StdRng,
}

/// A configuration without time-outs that would interfere.
pub(super) fn config() -> Config {
    Config { idle_time_out_ms: None, sasl_optional: true, ..Config::default() }
}

pub(super) fn plain_client() -> Config {
    Config { sasl_mechanisms: Vec::new(), ..config() }
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::with(plain_client(), config())
    }

    pub(super) fn with(client: Config, server: Config) -> Self {
        Self {
            client: End::new(Connection::client(client, "localhost", 0)),
            server: End::new(Connection::server(server, 0)),
            now: 0,
            chunks: Chunks::Whole,
            rng: StdRng::seed_from_u64(0),
        }
    }

    pub(super) fn chunked(mut self, chunks: Chunks, seed: u64) -> Self {
        self.chunks = chunks;
        self.rng = StdRng::seed_from_u64(seed);
        self
    }

    /// Transfers bytes both ways until neither side has output.
    pub(super) fn pump(&mut self) {
        for _ in 0..TURNS_MAX {
            let to_server = self.client.output(usize::MAX, self.now);
            self.carry(&to_server, true);
            let to_client = self.server.output(usize::MAX, self.now);
            self.carry(&to_client, false);
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
        }
        panic!("the conversation does not come to rest");
    }

    /// Transfers the client's current output.
    pub(super) fn client_speaks(&mut self) {
        let bytes = self.client.output(usize::MAX, self.now);
        self.carry(&bytes, true);
    }

    pub(super) fn server_speaks(&mut self) {
        let bytes = self.server.output(usize::MAX, self.now);
        self.carry(&bytes, false);
    }

    fn carry(&mut self, mut bytes: &[u8], to_server: bool) {
        while !bytes.is_empty() {
            let size = match self.chunks {
                Chunks::Whole => bytes.len(),
                Chunks::Single => 1,
                Chunks::UpTo(max) => self.rng.random_range(1..=max).min(bytes.len()),
            };
            let (chunk, rest) = bytes.split_at(size);
            let end = if to_server { &mut self.server } else { &mut self.client };
            end.feed(chunk, self.now);
            bytes = rest;
        }
    }

    /// Attaches a link from the client and lets the server accept it with `credit` (where it receives).
    pub(super) fn link(&mut self, attach: Attach, credit: u32) -> (LinkId, LinkId) {
        let session = self.client.endpoint.begin().unwrap();
        self.link_on(session, attach, credit)
    }

    pub(super) fn link_on(&mut self, session: u16, attach: Attach, credit: u32) -> (LinkId, LinkId) {
        let ours = self.client.endpoint.attach(session, attach).unwrap();
        self.pump();
        let theirs = self.accept(credit);
        self.pump();
        self.client.take();
        (ours, theirs)
    }

    /// Lets the server accept the pending attach, echoing it.
    pub(super) fn accept(&mut self, credit: u32) -> LinkId {
        let (link, attach) = self
            .server
            .take()
            .into_iter()
            .find_map(|event| match event {
                Event::Attach { link, attach, .. } => Some((link, attach)),
                _ => None,
            })
            .expect("an attach waits");
        self.server.endpoint.accept_attach(link, *attach, credit);
        link
    }
}

fn attach(name: &str, role: Role) -> Attach {
    let terminus = |address: &str| Terminus { address: Some(address.into()), ..Terminus::default() };
    Attach {
        name: name.into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: ReceiverSettleMode::Second,
        source: Some(terminus("source")),
        target: Some(Target::Node(terminus("target"))),
        resumes: false,
        initial_delivery_count: None,
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: Vec::new(),
        properties: Vec::new(),
    }
}

/// The attach of a client that sends.
pub(super) fn sender(name: &str) -> Attach {
    attach(name, Role::Sender)
}

/// The attach of a client that receives.
pub(super) fn receiver(name: &str) -> Attach {
    attach(name, Role::Receiver)
}

pub(super) fn message(number: u32, payload: impl Into<Bytes>) -> Outgoing {
    Outgoing { tag: Some(tag(number)), settled: false, message_format: 0, payload: smallvec![payload.into()] }
}

pub(super) fn settled(number: u32, payload: impl Into<Bytes>) -> Outgoing {
    Outgoing { settled: true, ..message(number, payload) }
}

pub(super) fn tag(number: u32) -> [u8; 16] {
    let mut tag = [0; 16];
    tag[..4].copy_from_slice(&number.to_be_bytes());
    tag
}
