//! Frames and messages respect the peer's size limits.

use super::super::{Config, Event};
use super::pair::{config, message, receiver, sender};
use super::peer::{AMQP, Peer, begin, link_flow, transfer};
use crate::endpoint::condition::{self, error};
use crate::endpoint::limits::NAME_BYTES_MAX;
use crate::wire::Value;
use crate::wire::frame::{FrameHeader, encode_frame};
use crate::wire::performative::{Attach, DeliveryState, Open, Performative, Target, Terminus};

/// A session of a peer with a max-frame-size of 512 bytes.
fn small_peer() -> Peer {
    let mut peer = Peer::new(Config { idle_time_out_ms: None, ..config() });
    peer.bytes(AMQP);
    peer.say(Performative::Open(Open { max_frame_size: Some(512), ..Open::default() }));
    peer.say(Performative::Begin(begin()));
    peer.hear();
    peer.server.take();
    peer
}

/// The size of the largest frame sent, without the protocol header.
fn largest_frame(sent: &[u8]) -> u32 {
    let (mut rest, mut largest) = (&sent[AMQP.len()..], 0);
    while let Some(header) = rest.first_chunk::<8>() {
        let size = FrameHeader::decode(*header).unwrap().size;
        largest = largest.max(size);
        rest = &rest[size as usize..];
    }
    largest
}

fn with_address(attach: Attach, address: &str) -> Attach {
    let node = || Terminus { address: Some(address.into()), ..Terminus::default() };
    Attach { source: Some(node()), target: Some(Target::Node(node())), ..attach }
}

fn with_properties(attach: Attach, bytes: usize) -> Attach {
    Attach { properties: vec![("note".into(), Value::String("x".repeat(bytes).into()))], ..attach }
}

#[test]
fn an_answer_to_an_attach_loses_its_properties_before_it_is_too_large() {
    for (bytes, is_kept) in [(200, true), (440, false), (4000, false)] {
        let mut peer = small_peer();
        let attach = with_properties(with_address(receiver("r"), "a queue"), bytes);
        peer.attach(attach.clone(), 0);
        let frames = peer.hear_frames();
        let [Performative::Attach(reply)] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!(reply.source, attach.source);
        assert_eq!(!reply.properties.is_empty(), is_kept, "{bytes} bytes");
        assert!(largest_frame(&peer.server.sent) <= 512);
    }
}

#[test]
fn a_link_whose_answer_can_not_be_small_enough_is_refused() {
    let mut peer = small_peer();
    peer.attach(with_address(sender("s"), &"a".repeat(250)), 10);
    let frames = peer.hear_frames();
    let [Performative::Attach(reply), Performative::Detach(detach)] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert!(reply.source.is_none() && reply.target.is_none());
    let error = detach.error.as_ref().unwrap();
    assert_eq!(&*error.condition, condition::FRAME_SIZE_TOO_SMALL);
    assert!(matches!(peer.server.now()[..], [Event::Detached { .. }]));
    assert!(largest_frame(&peer.server.sent) <= 512);
}

#[test]
fn a_link_whose_name_leaves_no_room_for_an_answer_ends_its_session() {
    let mut peer = small_peer();
    peer.say(Performative::Attach(Box::new(sender(&"n".repeat(460)))));
    assert!(peer.attach_event().is_none());
    let frames = peer.hear_frames();
    let [Performative::End(Some(error))] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(&*error.condition, condition::FRAME_SIZE_TOO_SMALL);
}

#[test]
fn errors_are_truncated_to_the_frame_size_of_the_peer() {
    let long = "a reason of many words – ".repeat(60);
    let mut peer = small_peer();
    peer.say(Performative::Attach(Box::new(sender("refused"))));
    let (link, _) = peer.attach_event().unwrap();
    peer.server.endpoint.refuse_attach(link, error("test:why", long.clone()));
    peer.say(Performative::Attach(Box::new(Attach { handle: 1, ..sender("s") })));
    let (link, attach) = peer.attach_event().unwrap();
    peer.server.endpoint.accept_attach(link, attach, 10);
    peer.transfer(transfer(1, 0), b"m");
    let Some(Event::Message { id, .. }) = peer.server.take().pop() else { panic!("a message") };
    let mut why = error("test:why", long.clone());
    why.info = vec![("more".into(), Value::String(long.clone().into()))];
    peer.server.endpoint.settle_incoming(id, DeliveryState::Rejected(Some(why)));
    peer.hear();
    peer.server.endpoint.close(Some(error("test:why", long.clone())));
    assert_eq!(&*peer.hear_close().condition, "test:why");
    let sent = &peer.server.sent;
    let largest = largest_frame(sent);
    assert!((490..=512).contains(&largest), "{largest} bytes");
    let mut uncut = bytes::BytesMut::new();
    encode_frame(0, &Performative::Close(Some(error("test:why", long))), 0, &mut uncut);
    assert!(uncut.len() > 512);
}

#[test]
fn a_message_larger_than_its_receiver_takes_ends_the_link() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.server.endpoint.limit_deliveries(link, Some(10));
    peer.say(Performative::Flow(link_flow(0, 0, 10)));
    peer.server.take();
    assert!(peer.server.endpoint.send(link, message(0, "0123456789")).is_some());
    assert!(peer.server.endpoint.send(link, message(1, "0123456789+")).is_none());
    let events = peer.server.now();
    let [Event::Detached { link: gone, error: Some(error), .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!((*gone, &*error.condition), (link, condition::MESSAGE_SIZE_EXCEEDED));
    let frames = peer.hear_frames();
    assert!(matches!(frames.last(), Some(Performative::Detach(_))), "{frames:?}");
    assert_eq!(peer.server.endpoint.pending_bytes(), 0);
}

#[test]
fn no_limit_or_a_limit_of_zero_lets_any_message_pass() {
    for limit in [None, Some(0)] {
        let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
        peer.server.endpoint.limit_deliveries(link, limit);
        assert!(peer.server.endpoint.send(link, message(0, vec![0; 5000])).is_some());
    }
}

#[test]
fn how_many_messages_wait_is_said_where_it_is_known() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    let available = |peer: &mut Peer, drain| {
        let flow = crate::wire::performative::Flow { echo: true, drain, ..link_flow(0, 0, 0) };
        peer.say(Performative::Flow(flow));
        if drain {
            peer.server.endpoint.drained(link);
        }
        let flows = peer.hear_frames().into_iter().filter_map(|frame| match frame {
            Performative::Flow(flow) => Some(flow.available),
            _ => None,
        });
        flows.last().expect("a flow")
    };
    assert_eq!(available(&mut peer, false), None, "the upper layer's messages are unknown");
    assert_eq!(available(&mut peer, true), Some(0), "it has said that it has nothing");
    peer.server.endpoint.send(link, message(0, "m")).unwrap();
    assert_eq!(available(&mut peer, false), Some(1));
}

/// The name is kept as long as the link.
#[test]
fn a_link_with_too_long_a_name_ends_its_session() {
    let named = |bytes: usize| Performative::Attach(Box::new(receiver(&"n".repeat(bytes))));
    let mut peer = Peer::begun(config());
    peer.say(named(NAME_BYTES_MAX));
    assert!(peer.attach_event().is_some());
    let mut peer = Peer::begun(config());
    peer.say(named(NAME_BYTES_MAX + 1));
    let frames = peer.hear_frames();
    let [Performative::End(Some(error))] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(&*error.condition, condition::RESOURCE_LIMIT_EXCEEDED);
}
