//! A grammar of a client's frames: bytes in, frames out, in any order, with any gaps. Every input is a script.

#[path = "transactions.rs"]
mod transactions;

use bytes::{Bytes, BytesMut};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::frame::{encode_frame, encode_heartbeat};
use peeklock_amqp::wire::performative::{
    Attach, Begin, DeliveryState, Detach, Disposition, Error, Flow, Performative, ReceiverSettleMode, Role,
    SenderSettleMode, Tag, Target, Terminus, Transfer,
};

pub(crate) const ADDRESSES: [&str; 16] = [
    "q",
    "amqps://localhost/Q",
    "q/$DeadLetterQueue",
    "q/$management",
    "$cbs",
    "t",
    "t/Subscriptions/s",
    "t/subscriptions/s/$DeadLetterQueue",
    "t/Subscriptions/s/$management",
    "sessions",
    "sessions/$management",
    "q/$Transfer/$DeadLetterQueue",
    "nowhere",
    "q/$x",
    "",
    "a%2fb//c",
];

/// Steps of time, in milliseconds: each passes some deadline.
const PAUSES_MS: [u64; 8] = [1, 100, 2_000, 11_000, 31_000, 61_000, 250_000, 4_000_000];

/// The next action of the driver.
pub(crate) enum Step {
    /// Writes these bytes.
    Write(Bytes),
    /// Lets time pass, in milliseconds.
    Pause(u64),
    /// Stops reading, or resumes it.
    Read(bool),
}

/// What the client has received, for answers that match.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) delivery_id: u32,
    pub(crate) tag: Bytes,
    /// The id of the transaction declared last.
    pub(crate) txn_id: Bytes,
}

/// The bytes of a script, read from the front, and the client's sessions and links: a step begins and attaches what it
/// needs, so that most scripts get far. Only wild steps omit this.
pub(crate) struct Script<'a> {
    rest: &'a [u8],
    sessions: [Option<Session>; 3],
    output: BytesMut,
    /// The state of the next transfer.
    state: Option<DeliveryState>,
}

#[derive(Default)]
struct Session {
    next_delivery: u32,
    next_handle: u32,
    links: Vec<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    handle: u32,
    role: Role,
    /// Index of the address.
    node: usize,
}

/// Addresses of nodes by the kind of messages sent to them.
const MESSAGES: [usize; 4] = [0, 1, 5, 9];
const CBS: [usize; 1] = [4];
const MANAGEMENT: [usize; 3] = [3, 8, 10];

impl<'a> Script<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, sessions: [None, None, None], output: BytesMut::new(), state: None }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => i32::MAX as u32,
            253 => u32::from(self.byte()) << 8 | u32::from(self.byte()),
            small => small.into(),
        }
    }

    /// The next step; `None` at the end.
    pub(crate) fn next(&mut self, seen: &Seen) -> Option<Step> {
        if self.rest.is_empty() {
            return None;
        }
        let kind = self.byte();
        let channel = u16::from(kind >> 5) % 3;
        match kind & 31 {
            0 => return Some(Step::Pause(self.one_of(&PAUSES_MS))),
            1 => return Some(Step::Read(self.flag())),
            2 => self.wild(channel, seen),
            3 => {
                self.sessions[usize::from(channel)] = None;
                self.put(channel, &Performative::End(None), b"");
            }
            4..=8 => {
                let role = if self.flag() { Role::Receiver } else { Role::Sender };
                let node = usize::from(self.byte()) % ADDRESSES.len();
                self.attach(channel, role, node);
            }
            9 => self.detach(channel),
            10..=14 => self.flow(channel),
            15..=19 => self.disposition(channel, seen, kind & 31 == 19),
            20..=24 => {
                self.state = (kind & 31 == 24).then(|| Self::work(seen, None));
                let message = self.message();
                self.transfer(channel, &MESSAGES, &message);
            }
            25 | 26 => {
                let request = self.put_token();
                self.transfer(channel, &CBS, &request);
            }
            _ => {
                let request = self.request(seen);
                self.state = (kind & 31 == 31).then(|| Self::work(seen, None));
                self.transfer(channel, &MANAGEMENT, &request);
            }
        }
        Some(Step::Write(self.output.split().freeze()))
    }

    fn put(&mut self, channel: u16, performative: &Performative, payload: &[u8]) {
        encode_frame(channel, performative, payload.len(), &mut self.output);
        self.output.extend_from_slice(payload);
    }

    /// Frames that no well-behaved client sends, and rare ones.
    fn wild(&mut self, channel: u16, seen: &Seen) {
        match self.byte() % 9 {
            0 => encode_heartbeat(&mut self.output),
            1 => {
                let bytes = self.raw();
                self.output.extend_from_slice(bytes);
            }
            2 => self.put(channel, &Performative::Close(None), b""),
            3 => {
                let begin = Begin {
                    next_outgoing_id: self.number(),
                    incoming_window: self.number(),
                    outgoing_window: self.number(),
                    ..Begin::default()
                };
                self.put(channel, &Performative::Begin(begin), b"");
            }
            4 => {
                let transfer = Transfer {
                    handle: self.number(),
                    delivery_id: Some(self.number()),
                    ..Transfer::default()
                };
                let payload = self.raw();
                self.put(channel, &Performative::Transfer(transfer), payload);
            }
            5 => self.raw_frame(channel),
            _ => self.control(channel, seen),
        }
    }

    pub(crate) fn raw(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()) | usize::from(self.byte() & 3) << 8;
        self.take(length)
    }

    /// Arbitrary contents in a valid frame.
    fn raw_frame(&mut self, channel: u16) {
        let body = self.raw();
        self.output.extend_from_slice(&u32::try_from(body.len() + 8).unwrap_or(8).to_be_bytes());
        self.output.extend_from_slice(&[2, 0]);
        self.output.extend_from_slice(&channel.to_be_bytes());
        self.output.extend_from_slice(body);
    }

    /// The session, begun if necessary.
    fn session(&mut self, channel: u16) -> &mut Session {
        let at = usize::from(channel);
        if self.sessions[at].is_none() {
            let windows = [5000, 5000, 5000, 5000, 5000, 5000, 1, 0];
            let begin = Begin {
                next_outgoing_id: 0,
                incoming_window: self.one_of(&windows),
                outgoing_window: 5000,
                ..Begin::default()
            };
            self.put(channel, &Performative::Begin(begin), b"");
        }
        self.sessions[at].get_or_insert_default()
    }

    /// A link of that role to one of these nodes, attached if necessary.
    fn link(&mut self, channel: u16, role: Option<Role>, nodes: &[usize]) -> Link {
        let fits = |link: &&Link| role.is_none_or(|role| role == link.role) && nodes.contains(&link.node);
        let links: Vec<Link> = self.session(channel).links.iter().filter(fits).copied().collect();
        if !links.is_empty() {
            return self.one_of(&links);
        }
        let node = self.one_of(nodes);
        let role = role.unwrap_or(Role::Receiver);
        if role == Role::Sender && !MESSAGES.contains(&node) {
            let responses = self.attach(channel, Role::Receiver, node);
            self.credit(channel, responses, 100, false);
        }
        self.attach(channel, role, node)
    }

    fn attach(&mut self, channel: u16, role: Role, node: usize) -> Link {
        let session = self.session(channel);
        let link = Link { handle: session.next_handle, role, node };
        session.next_handle += 1;
        session.links.push(link);
        let address = Some(ADDRESSES[node].into());
        let address = Terminus { address, ..Terminus::default() };
        let own = Terminus { address: Some("client".into()), ..Terminus::default() };
        let (mut source, target) = if role == Role::Sender { (own, address) } else { (address, own) };
        let requested = self.byte();
        source.dynamic = requested == 7;
        if ADDRESSES[node] == "sessions" && requested < 128 {
            let session = self.one_of(&[Some("a"), Some("b"), None]);
            let session = session.map_or(Value::Null, |id| Value::String(id.into()));
            source.filter = vec![("com.microsoft:session-filter".into(), session)];
        } else if (1..7).contains(&requested) {
            source.filter = vec![("com.microsoft:session-filter".into(), self.value(2))];
        }
        let target = match requested {
            8 => Some(Target::Coordinator(Vec::new())),
            9 => None,
            _ => Some(Target::Node(target)),
        };
        // Repeated names belong to the same link.
        let name = if requested == 12 { "link 0".into() } else { format!("link {channel} {}", link.handle) };
        let attach = Attach {
            name: name.into(),
            handle: link.handle,
            role,
            snd_settle_mode: self.one_of(&[
                SenderSettleMode::Unsettled,
                SenderSettleMode::Settled,
                SenderSettleMode::Mixed,
            ]),
            rcv_settle_mode: self.one_of(&[ReceiverSettleMode::Second, ReceiverSettleMode::First]),
            source: (requested != 10).then_some(source),
            target,
            resumes: requested == 14,
            initial_delivery_count: (role == Role::Sender).then_some(0),
            max_message_size: (requested == 11).then_some(1),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: match requested {
                13 => vec![("com.microsoft:transfer-destination-address".into(), Value::String("t".into()))],
                _ => Vec::new(),
            },
        };
        self.put(channel, &Performative::Attach(Box::new(attach)), b"");
        link
    }

    fn detach(&mut self, channel: u16) {
        let at = self.byte();
        let links = &mut self.session(channel).links;
        if links.is_empty() {
            return;
        }
        let link = links.remove(usize::from(at) % links.len());
        let detach = Detach { handle: link.handle, closed: self.flag(), error: None };
        self.put(channel, &Performative::Detach(detach), b"");
    }

    fn flow(&mut self, channel: u16) {
        let all: Vec<usize> = (0..ADDRESSES.len()).collect();
        let link = self.link(channel, None, &all);
        let (credit, drain) = (self.number(), self.byte() < 64);
        self.credit(channel, link, credit, drain);
    }

    fn credit(&mut self, channel: u16, link: Link, credit: u32, drain: bool) {
        let next_outgoing_id = self.session(channel).next_delivery;
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: 5000,
            next_outgoing_id,
            outgoing_window: 5000,
            handle: Some(link.handle),
            delivery_count: Some(0),
            link_credit: Some(credit),
            drain,
            ..Flow::default()
        };
        self.put(channel, &Performative::Flow(flow), b"");
    }

    fn disposition(&mut self, channel: u16, seen: &Seen, is_work: bool) {
        let _ = self.session(channel);
        let first = seen.delivery_id.wrapping_sub(u32::from(self.byte() % 4));
        let state = match self.byte() % 10 {
            0 => None,
            1..=4 => Some(DeliveryState::Accepted),
            5 => Some(DeliveryState::Released),
            6 => Some(DeliveryState::Rejected(Some(Error {
                condition: "com.microsoft:dead-letter".into(),
                description: None,
                info: vec![("DeadLetterReason".into(), self.value(2))],
            }))),
            7 => Some(DeliveryState::Modified {
                delivery_failed: self.flag(),
                undeliverable_here: self.flag(),
                message_annotations: vec![("x".into(), self.value(2))],
            }),
            8 => Some(DeliveryState::Received { section_number: 0, section_offset: self.number().into() }),
            _ => Some(DeliveryState::Transactional { txn_id: Bytes::from_static(b"t"), outcome: None }),
        };
        let state = if is_work { Some(Self::work(seen, state)) } else { state };
        let disposition = Disposition {
            role: if self.byte() < 220 { Role::Receiver } else { Role::Sender },
            first,
            last: self.flag().then_some(seen.delivery_id),
            settled: self.flag(),
            state,
            batchable: false,
        };
        self.put(channel, &Performative::Disposition(disposition), b"");
    }

    /// A delivery in one frame or several; one that is never finished, or aborted, or resumed. The next one may have
    /// the same delivery-id.
    fn transfer(&mut self, channel: u16, nodes: &[usize], message: &Bytes) {
        let link = self.link(channel, Some(Role::Sender), nodes);
        let (how, state) = (self.byte(), self.state.take());
        let pieces = if how & 4 == 0 { 1 } else { usize::from(self.byte() % 5) + 1 };
        let piece_bytes = message.len().div_ceil(pieces).clamp(1, 3500);
        let session = self.session(channel);
        let number = session.next_delivery;
        session.next_delivery = number.wrapping_add(u32::from(how & 10 != 10));
        let count = message.chunks(piece_bytes).count();
        for (at, piece) in message.chunks(piece_bytes).enumerate() {
            let is_last = at + 1 == count;
            let transfer = Transfer {
                handle: link.handle,
                delivery_id: (at == 0 || how & 8 == 0).then_some(number),
                delivery_tag: (at == 0).then(|| Tag::from_slice(&number.to_be_bytes())),
                message_format: Some(if how & 16 == 0 { 0 } else { 0x8001_3700 }),
                settled: Some(how & 1 == 1),
                more: !is_last || how & 96 == 96,
                aborted: is_last && how & 224 == 224,
                state: state.clone().filter(|_| at == 0).map(Box::new),
                resume: how & 146 == 146,
                ..Transfer::default()
            };
            self.put(channel, &Performative::Transfer(transfer), piece);
        }
    }
}
