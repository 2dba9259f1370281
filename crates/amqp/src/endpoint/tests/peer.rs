//! A scripted peer: sends the frames of a test and decodes the server's frames.

use bytes::{Buf, Bytes, BytesMut};

use super::super::{Config, Event, LinkId};
use super::pair::{End, Pair, plain_client};
use crate::wire::frame::{FrameHeader, FrameKind, decode_body, decode_sasl, encode_frame, encode_sasl};
use crate::wire::performative::{
    Attach, Begin, DeliveryState, Disposition, Error, Flow, Open, Performative, Role, SaslFrame, Tag,
    Transfer,
};

pub(super) const AMQP: &[u8] = b"AMQP\x00\x01\x00\x00";
pub(super) const SASL: &[u8] = b"AMQP\x03\x01\x00\x00";

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) server: End,
    pub(super) now: u64,
}

/// Something a server sent.
#[derive(Debug)]
pub(super) enum Said {
    Header(u8),
    Sasl(SaslFrame),
    Heartbeat,
    Frame(Performative),
}

impl Peer {
    pub(super) fn new(config: Config) -> Self {
        Self { server: Pair::with(plain_client(), config).server, now: 0 }
    }

    /// With the connection open.
    pub(super) fn open(config: Config) -> Self {
        let mut peer = Self::new(config);
        peer.bytes(AMQP);
        peer.say(Performative::Open(Open { container_id: "peer".into(), ..Open::default() }));
        peer.hear();
        peer.server.take();
        peer
    }

    /// With a session on channel 0.
    pub(super) fn begun(config: Config) -> Self {
        let mut peer = Self::open(config);
        peer.say(Performative::Begin(begin()));
        peer.hear();
        peer
    }

    /// With a link that the server has accepted, on handle 0.
    pub(super) fn attached(config: Config, attach: Attach, credit: u32) -> (Self, LinkId) {
        let mut peer = Self::begun(config);
        let link = peer.attach(attach, credit);
        peer.hear();
        (peer, link)
    }

    pub(super) fn attach(&mut self, attach: Attach, credit: u32) -> LinkId {
        self.say(Performative::Attach(Box::new(attach)));
        let (link, attach) = self.attach_event().expect("an attach event");
        self.server.endpoint.accept_attach(link, attach, credit);
        link
    }

    /// Takes the events and returns the attach among them.
    pub(super) fn attach_event(&mut self) -> Option<(LinkId, Attach)> {
        self.server.take().into_iter().find_map(|event| match event {
            Event::Attach { link, attach, .. } => Some((link, *attach)),
            _ => None,
        })
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.server.feed(bytes, self.now);
    }

    pub(super) fn say(&mut self, performative: Performative) {
        self.say_with(0, performative, b"");
    }

    pub(super) fn say_with(&mut self, channel: u16, performative: Performative, payload: &[u8]) {
        self.bytes(&frame(channel, &performative, payload));
    }

    pub(super) fn transfer(&mut self, transfer: Transfer, payload: &[u8]) {
        self.say_with(0, Performative::Transfer(transfer), payload);
    }

    /// Everything the server sends now.
    pub(super) fn hear(&mut self) -> Vec<Said> {
        let bytes = self.server.output(usize::MAX, self.now);
        parse(&bytes)
    }

    pub(super) fn hear_frames(&mut self) -> Vec<Performative> {
        let frames = self.hear().into_iter().filter_map(|said| match said {
            Said::Frame(performative) => Some(performative),
            _ => None,
        });
        frames.collect()
    }

    /// The error of the close frame that the server sends now.
    pub(super) fn hear_close(&mut self) -> Error {
        let frames = self.hear_frames();
        match frames.last() {
            Some(Performative::Close(Some(error))) => error.clone(),
            _ => panic!("no close with error: {frames:?}"),
        }
    }
}

pub(super) fn parse(bytes: &[u8]) -> Vec<Said> {
    let mut bytes = Bytes::copy_from_slice(bytes);
    let mut said = Vec::new();
    while !bytes.is_empty() {
        if bytes.starts_with(b"AMQP") {
            said.push(Said::Header(bytes[4]));
            bytes.advance(8);
            continue;
        }
        let header = FrameHeader::decode(bytes[..8].try_into().unwrap()).unwrap();
        let mut body = bytes.split_to(header.size as usize);
        body.advance(header.body_offset as usize);
        said.push(match header.kind {
            FrameKind::Sasl => Said::Sasl(decode_sasl(body).unwrap()),
            FrameKind::Amqp => match decode_body(body).unwrap() {
                Some((performative, _)) => Said::Frame(performative),
                None => Said::Heartbeat,
            },
        });
    }
    said
}

pub(super) fn frame(channel: u16, performative: &Performative, payload: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    encode_frame(channel, performative, payload.len(), &mut bytes);
    bytes.extend_from_slice(payload);
    bytes.to_vec()
}

pub(super) fn sasl_init(mechanism: &str) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    let init =
        SaslFrame::Init { mechanism: mechanism.into(), initial_response: Some(Bytes::new()), hostname: None };
    encode_sasl(&init, &mut bytes);
    bytes.to_vec()
}

pub(super) fn begin() -> Begin {
    Begin { incoming_window: 2_048, outgoing_window: 2_048, ..Begin::default() }
}

pub(super) fn transfer(handle: u32, delivery_id: u32) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(delivery_id),
        delivery_tag: Some(Tag::from_slice(&delivery_id.to_be_bytes())),
        message_format: Some(0),
        ..Transfer::default()
    }
}

pub(super) fn link_flow(handle: u32, delivery_count: u32, link_credit: u32) -> Flow {
    Flow {
        next_incoming_id: Some(0),
        incoming_window: 2_048,
        outgoing_window: 2_048,
        handle: Some(handle),
        delivery_count: Some(delivery_count),
        link_credit: Some(link_credit),
        ..Flow::default()
    }
}

pub(super) fn disposition(
    first: u32,
    last: u32,
    state: Option<DeliveryState>,
    settled: bool,
) -> Performative {
    let role = Role::Receiver;
    Performative::Disposition(Disposition { role, first, last: Some(last), settled, state, batchable: false })
}
