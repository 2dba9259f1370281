//! A client: its connection, its links, and the answers that it expects.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, Bytes, BytesMut};
use peeklock_amqp::endpoint::{Config, Connection, Event, IncomingId, LinkId, Outgoing};
use peeklock_amqp::wire::performative::{
    Attach, ReceiverSettleMode, Role, SenderSettleMode, Target, Terminus,
};
use smallvec::SmallVec;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::bus::{Path, Place};
use super::message::Token;
use super::outcome::{Outcome, Refused};

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Receives {
        path: Path,
        place: Place,
        deletes: bool,
    },
    /// To an entity, perhaps by way of another.
    Sends {
        path: Path,
        via: Option<Path>,
    },
    /// Carries requests to a node, or its responses.
    Requests,
    Responses,
    Coordinates,
}

/// A management node as a client uses it: a link for requests and one for responses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// Distinguishes the links for responses.
    pub(crate) key: u32,
    pub(crate) path: Path,
    pub(crate) place: Place,
    /// Several nodes of one client may belong to one entity.
    pub(crate) copy: u8,
    pub(crate) requests: LinkId,
    pub(crate) responses: LinkId,
}

/// Something that is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Attach(LinkId),
    /// A delivery of ours.
    Sent(LinkId, u32),
    /// A request by its number, and the link for the response.
    Request(u64, LinkId),
    /// A delivery that we settle: the link and the delivery-id.
    Settled(LinkId, u32),
}

/// A message that was received and is not settled, as far as the client knows.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) path: Path,
    pub(crate) place: Place,
    pub(crate) token: Token,
    pub(crate) session: Option<String>,
    /// Present if it came on a link that exists.
    pub(crate) id: Option<IncomingId>,
    /// The transaction in which it is settled.
    pub(crate) work: Option<usize>,
}

pub(crate) struct Peer {
    pub(crate) connection: Connection,
    socket: DuplexStream,
    unread: BytesMut,
    unwritten: BytesMut,
    pub(crate) session: u16,
    /// The AMQP session of the coordinator's link: on a session that begins with such a link, other rules hold.
    pub(crate) control: u16,
    pub(crate) links: BTreeMap<LinkId, Purpose>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) expected: BTreeMap<Asked, Outcome>,
    pub(crate) expected_ends: BTreeMap<LinkId, Refused>,
    /// Links that we have ended.
    pub(crate) left: BTreeSet<LinkId>,
    pub(crate) deliveries: Vec<Delivery>,
    /// Transactions by the delivery that declares them.
    pub(crate) declared: BTreeMap<(LinkId, u32), usize>,
    /// Requests made so far.
    pub(crate) requests: u64,
    /// Where requests ask for messages, by number of the request.
    pub(crate) asked_at: BTreeMap<u64, (Path, Place, Option<String>)>,
    /// Names of links and tags of deliveries made so far.
    pub(crate) names: u32,
}

impl Peer {
    pub(crate) fn new(socket: DuplexStream) -> Self {
        let config = Config {
            idle_time_out_ms: None,
            sasl_optional: true,
            sasl_mechanisms: Vec::new(),
            ..Config::default()
        };
        let mut connection = Connection::client(config, "localhost", 0);
        let session = connection.begin().expect("a session");
        let control = connection.begin().expect("a session");
        Self {
            connection,
            socket,
            unread: BytesMut::new(),
            unwritten: BytesMut::new(),
            session,
            control,
            links: BTreeMap::new(),
            nodes: Vec::new(),
            expected: BTreeMap::new(),
            expected_ends: BTreeMap::new(),
            left: BTreeSet::new(),
            deliveries: Vec::new(),
            declared: BTreeMap::new(),
            requests: 0,
            asked_at: BTreeMap::new(),
            names: 0,
        }
    }

    /// Brings what was done so far into the order in which it was done.
    pub(crate) fn speak(&mut self) {
        let mut slices: Vec<Bytes> = Vec::new();
        self.connection.poll_transmit(&mut slices, usize::MAX, 0);
        slices.iter().for_each(|slice| self.unwritten.extend_from_slice(slice));
    }

    /// Whether an attach is not answered that later steps depend on: of a link on which we send, because what we sent
    /// there waits for credit, or of a receiver of a session.
    pub(crate) fn waits_for_attach(&self) -> bool {
        self.links.iter().any(|(link, purpose)| match self.expected.get(&Asked::Attach(*link)) {
            Some(Outcome::Attached(Some(_))) => true,
            Some(_) => !matches!(purpose, Purpose::Receives { .. } | Purpose::Responses),
            None => false,
        })
    }

    /// Writes and reads as much as is possible at once; returns what happened, and whether bytes were moved.
    pub(crate) async fn pump(&mut self) -> (Vec<Event>, bool) {
        self.speak();
        let mut has_moved = false;
        if !self.unwritten.is_empty() {
            let written = tokio::select! {
                biased;
                written = self.socket.write(&self.unwritten) => written.unwrap_or(0),
                () = std::future::ready(()) => 0,
            };
            self.unwritten.advance(written);
            has_moved |= written > 0;
        }
        let read = tokio::select! {
            biased;
            read = self.socket.read_buf(&mut self.unread) => read.expect("memory does not fail"),
            () = std::future::ready(()) => 0,
        };
        has_moved |= read > 0;
        let mut events = Vec::new();
        loop {
            self.connection.handle_input(&mut self.unread, 0);
            events.extend(std::iter::from_fn(|| self.connection.poll_event()));
            if !self.connection.has_input_work(&self.unread) {
                break;
            }
        }
        has_moved |= !events.is_empty();
        (events, has_moved)
    }

    pub(crate) fn expect(&mut self, asked: Asked, outcome: Outcome) {
        let earlier = self.expected.insert(asked, outcome);
        assert!(earlier.is_none(), "{asked:?} was asked before");
    }

    /// Attaches a link; the answer is still to be expected.
    pub(crate) fn attach(&mut self, purpose: Purpose, change: impl FnOnce(&mut Attach)) -> LinkId {
        self.names += 1;
        let (role, address) = match purpose {
            Purpose::Receives { path, place, .. } => (Role::Receiver, address(path, place)),
            Purpose::Sends { path, via } => (Role::Sender, via.unwrap_or(path).to_owned()),
            Purpose::Requests | Purpose::Coordinates => (Role::Sender, String::new()),
            Purpose::Responses => (Role::Receiver, String::new()),
        };
        let node = |address: &str| Terminus { address: Some(address.into()), ..Terminus::default() };
        let deletes = matches!(purpose, Purpose::Receives { deletes: true, .. });
        let mut attach = Attach {
            name: format!("link {}", self.names).as_str().into(),
            handle: 0,
            role,
            snd_settle_mode: if deletes { SenderSettleMode::Settled } else { SenderSettleMode::Unsettled },
            rcv_settle_mode: ReceiverSettleMode::Second,
            source: Some(node(&address)),
            target: Some(Target::Node(node(&address))),
            resumes: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        };
        if purpose == Purpose::Coordinates {
            attach.target = Some(Target::Coordinator(Vec::new()));
        }
        change(&mut attach);
        let session = if purpose == Purpose::Coordinates { self.control } else { self.session };
        let link = self.connection.attach(session, attach).expect("a link");
        self.links.insert(link, purpose);
        link
    }

    /// Sends a message; `tag` distinguishes deliveries. Returns its number on the link.
    pub(crate) fn send(
        &mut self,
        link: LinkId,
        (settled, message_format): (bool, u32),
        payload: Bytes,
        transaction: Option<Bytes>,
    ) -> Option<u32> {
        self.names += 1;
        let tag = Some(u128::from(self.names).to_be_bytes());
        let outgoing = Outgoing { tag, settled, message_format, payload: SmallVec::from_iter([payload]) };
        let sent = match transaction {
            Some(txn_id) => {
                let state =
                    peeklock_amqp::wire::performative::DeliveryState::Transactional { txn_id, outcome: None };
                self.connection.send_with_state(link, outgoing, state)
            }
            None => self.connection.send(link, outgoing),
        };
        sent.map(|id| id.delivery_id)
    }

    /// Ends a link of ours.
    pub(crate) fn leave(&mut self, link: LinkId) {
        self.connection.detach(link, None);
        self.left.insert(link);
        self.forget(link);
    }

    /// Forgets a link that has ended.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.links.remove(&link);
        self.expected.retain(|asked, _| match asked {
            Asked::Attach(of) | Asked::Sent(of, _) | Asked::Settled(of, _) | Asked::Request(_, of) => {
                *of != link
            }
        });
        for delivery in &mut self.deliveries {
            delivery.id = delivery.id.filter(|id| id.link != link);
        }
        self.nodes.retain(|node| node.requests != link && node.responses != link);
    }

    pub(crate) fn links_where(&self, suits: impl Fn(&Purpose) -> bool) -> Vec<LinkId> {
        self.links.iter().filter(|(_, purpose)| suits(purpose)).map(|(link, _)| *link).collect()
    }
}

/// The address of a queue or its dead letters.
pub(crate) fn address(path: Path, place: Place) -> String {
    match place {
        Place::Main => path.to_owned(),
        Place::Dead => format!("{path}/$deadletterqueue"),
        Place::Transfer => format!("{path}/$Transfer/$deadletterqueue"),
    }
}
