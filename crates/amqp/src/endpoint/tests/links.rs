//! Sessions and links: begin, end, attach, detach, limits.

use super::super::{Config, Event};
use super::pair::{Pair, config, message, receiver, sender};
use super::peer::{Peer, begin, link_flow, transfer};
use crate::endpoint::condition::{self, error};
use crate::wire::performative::{Attach, Begin, DeliveryState, Detach, Performative, Role};

fn attach_on(handle: u32, attach: Attach) -> Performative {
    Performative::Attach(Box::new(Attach { handle, ..attach }))
}

fn detach(handle: u32) -> Performative {
    Performative::Detach(Detach { handle, closed: true, error: None })
}

#[test]
fn an_accepted_attach_is_echoed_with_the_fields_of_the_link() {
    let mut peer = Peer::begun(config());
    peer.say(attach_on(7, receiver("down")));
    let (link, reply) = peer.attach_event().unwrap();
    peer.server.endpoint.accept_attach(link, Attach { name: "wrong".into(), ..reply }, 50);
    let frames = peer.hear_frames();
    let [Performative::Attach(attach)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((&*attach.name, attach.role, attach.initial_delivery_count), ("down", Role::Sender, Some(0)));
    assert_eq!(attach.source, receiver("down").source);

    peer.say(attach_on(8, sender("up")));
    let (link, reply) = peer.attach_event().unwrap();
    peer.server.endpoint.accept_attach(link, reply, 50);
    let frames = peer.hear_frames();
    let [Performative::Attach(attach), Performative::Flow(flow)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((attach.role, attach.initial_delivery_count), (Role::Receiver, None));
    assert_eq!(
        (flow.handle, flow.link_credit, flow.delivery_count),
        (Some(attach.handle), Some(50), Some(0))
    );
}

#[test]
fn a_refusal_is_a_null_attach_and_a_detach_in_one_go() {
    for attach in [sender("x"), receiver("x")] {
        let mut peer = Peer::begun(config());
        peer.say(attach_on(0, attach));
        let (link, request) = peer.attach_event().unwrap();
        peer.server.endpoint.refuse_attach(link, error(condition::NOT_FOUND, "no such entity"));
        let frames = peer.hear_frames();
        let [Performative::Attach(reply), Performative::Detach(detached)] = &frames[..] else {
            panic!("{frames:?}")
        };
        assert!(reply.source.is_none() && reply.target.is_none());
        assert_eq!(reply.rcv_settle_mode, request.rcv_settle_mode);
        assert_eq!(reply.handle, detached.handle);
        assert!(detached.closed);
        assert_eq!(&*detached.error.as_ref().unwrap().condition, condition::NOT_FOUND);
        // Frames sent before the peer's answer are ignored; then the handle is free.
        if request.role == Role::Sender {
            peer.transfer(transfer(0, 0), b"on its way");
        } else {
            peer.say(Performative::Flow(link_flow(0, 0, 10)));
        }
        peer.say(detach(0));
        peer.say(attach_on(0, sender("again")));
        assert!(peer.attach_event().is_some());
        assert!(peer.hear_frames().is_empty());
    }
}

#[test]
fn a_second_attach_with_the_same_name_steals_the_link() {
    let mut peer = Peer::begun(config());
    let old = peer.attach(sender("same"), 10);
    peer.hear();
    peer.say(attach_on(1, receiver("same")));
    assert!(
        !peer.server.events.iter().any(|event| matches!(event, Event::Detached { .. })),
        "other direction"
    );
    peer.server.take();
    peer.say(attach_on(2, sender("same")));
    let events = peer.server.take();
    let [Event::Detached { link, error: Some(error), .. }, Event::Attach { link: new, .. }] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((*link, &*error.condition), (old, condition::LINK_STOLEN));
    assert_ne!(*new, old);
    let frames = peer.hear_frames();
    assert!(matches!(&frames[..], [Performative::Detach(Detach { error: Some(_), .. })]));
    // The old handle's detach is answered by the peer; the new link is untouched by it.
    peer.say(detach(0));
    assert_eq!(peer.server.endpoint.links_and_sessions(), (2, 1));
}

/// The upper layer has to act first: it answers, with an error if that failed.
#[test]
fn a_detach_waits_for_the_upper_layer_where_that_is_asked_for() {
    for failure in [None, Some(condition::error(condition::NOT_ALLOWED, "no"))] {
        let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
        peer.server.endpoint.hold_end(link);
        let detach = Performative::Detach(Detach { handle: 0, closed: true, error: None });
        peer.say(detach.clone());
        assert!(
            matches!(peer.server.take()[..], [Event::Ending { link: ending, closed: true }] if ending == link)
        );
        assert!(peer.hear_frames().is_empty());
        // A repeated detach is no second end.
        peer.say(detach);
        assert!(peer.server.take().is_empty() && peer.hear_frames().is_empty());
        peer.server.endpoint.release_end(link, failure.clone());
        let frames = peer.hear_frames();
        assert!(
            matches!(&frames[..], [Performative::Detach(Detach { closed: true, error, .. })] if *error == failure)
        );
        assert_eq!(peer.server.endpoint.links_and_sessions().0, 0);
        peer.server.endpoint.release_end(link, None);
        assert!(peer.hear_frames().is_empty() && peer.server.take().is_empty());
    }
}

#[test]
fn no_detach_follows_a_close() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.server.endpoint.hold_end(link);
    peer.say(Performative::Detach(Detach { handle: 0, closed: true, error: None }));
    peer.server.endpoint.close(None);
    assert!(matches!(peer.hear_frames()[..], [Performative::Close(None)]));
    peer.server.endpoint.release_end(link, None);
    assert!(peer.hear_frames().is_empty());
}

#[test]
fn a_detach_is_answered_in_kind() {
    for closed in [true, false] {
        let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
        peer.say(Performative::Detach(Detach { handle: 0, closed, error: None }));
        assert!(
            matches!(peer.server.take()[..], [Event::Detached { link: gone, closed: how, error: None }] if gone == link && how == closed)
        );
        assert!(
            matches!(peer.hear_frames()[..], [Performative::Detach(Detach { closed: how, .. })] if how == closed)
        );
        assert!(peer.server.endpoint.send(link, message(1, "late")).is_none());
        peer.server.endpoint.drained(link);
        peer.server.endpoint.detach(link, None);
        assert!(peer.hear().is_empty());
    }
}

#[test]
fn a_detach_before_the_answer_is_answered_with_attach_and_detach() {
    let mut peer = Peer::begun(config());
    peer.say(attach_on(0, receiver("r")));
    let (link, reply) = peer.attach_event().unwrap();
    peer.say(detach(0));
    assert!(matches!(peer.server.take()[..], [Event::Detached { .. }]));
    peer.server.endpoint.accept_attach(link, reply, 1);
    assert!(matches!(peer.hear_frames()[..], [Performative::Attach(_), Performative::Detach(_)]));
}

#[test]
fn a_detach_of_ours_is_quiet_and_follows_settlements() {
    let (mut peer, link) = Peer::attached(config(), sender("s"), 10);
    peer.transfer(transfer(0, 0), b"m");
    let Some(Event::Message { id, .. }) = peer.server.take().pop() else { panic!() };
    peer.server.endpoint.settle_incoming(id, DeliveryState::Accepted);
    peer.server.endpoint.detach(link, Some(error("test:why", "because")));
    assert!(matches!(peer.hear_frames()[..], [Performative::Disposition(_), Performative::Detach(_)]));
    peer.transfer(transfer(0, 1), b"on its way");
    peer.say(detach(0));
    assert!(peer.server.take().is_empty());
    assert!(peer.hear().is_empty());
}

#[test]
fn unknown_handles_end_the_session_only() {
    for frame in [Performative::Flow(link_flow(5, 0, 1)), Performative::Transfer(transfer(5, 0))] {
        let (mut peer, link) = Peer::attached(config(), sender("s"), 10);
        peer.say(frame);
        let events = peer.server.take();
        assert!(
            matches!(events[..], [Event::Detached { link: gone, .. }, Event::SessionEnded { session: 0 }] if gone == link)
        );
        let frames = peer.hear_frames();
        let [Performative::End(Some(error))] = &frames[..] else { panic!("{frames:?}") };
        assert_eq!(&*error.condition, condition::UNATTACHED_HANDLE);
        // A frame sent before the answer; then the answer, and the channel is free again.
        peer.transfer(transfer(0, 0), b"m");
        peer.say(Performative::End(None));
        peer.say(Performative::Begin(begin()));
        assert!(matches!(peer.hear_frames()[..], [Performative::Begin(_)]));
    }
}

/// Who gets what a link held is the same in each run.
#[test]
fn the_links_of_a_session_end_in_the_order_in_which_they_were_attached() {
    let mut peer = Peer::begun(config());
    let attach = |peer: &mut Peer, handle| {
        peer.say(attach_on(handle, receiver(&format!("link {handle}"))));
        let (link, reply) = peer.attach_event().unwrap();
        peer.server.endpoint.accept_attach(link, reply, 0);
        link
    };
    let first: Vec<_> = (0..3).map(|handle| attach(&mut peer, handle)).collect();
    peer.say(detach(0));
    peer.server.take();
    // Its handle is that of the first, which is free again.
    let last = attach(&mut peer, 3);
    peer.say(Performative::End(None));
    let ended = |event| match event {
        Event::Detached { link, .. } => Some(link),
        _ => None,
    };
    let ended: Vec<_> = peer.server.take().into_iter().filter_map(ended).collect();
    assert_eq!(ended, [first[1], first[2], last]);
}

#[test]
fn a_second_detach_is_ignored() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    peer.say(detach(0));
    assert!(matches!(peer.hear_frames()[..], [Performative::Detach(_)]));
    peer.server.take();
    peer.say(detach(0));
    assert!(peer.server.take().is_empty());
    assert!(peer.hear().is_empty());
}

#[test]
fn a_handle_in_use_ends_the_session() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    peer.say(attach_on(0, sender("t")));
    let frames = peer.hear_frames();
    assert!(
        matches!(&frames[..], [Performative::End(Some(error))] if &*error.condition == condition::HANDLE_IN_USE)
    );
}

#[test]
fn an_ending_session_takes_its_links_along() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.say(Performative::Flow(link_flow(0, 0, 5)));
    peer.server.take();
    peer.server.endpoint.send(link, message(1, "m"));
    peer.say(Performative::End(None));
    assert!(matches!(peer.server.take()[..], [Event::Detached { .. }, Event::SessionEnded { session: 0 }]));
    assert_eq!(peer.server.endpoint.pending_bytes(), 0);
    assert!(matches!(peer.hear_frames()[..], [Performative::End(None)]));
    assert_eq!(peer.server.endpoint.links_and_sessions(), (0, 0));
}

#[test]
fn channels_are_checked() {
    let mut peer = Peer::open(Config { channel_max: 3, ..config() });
    peer.say_with(4, Performative::Begin(begin()), b"");
    assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR);

    let mut peer = Peer::begun(config());
    peer.say(Performative::Begin(begin()));
    assert_eq!(&*peer.hear_close().condition, condition::NOT_ALLOWED);

    let mut peer = Peer::begun(config());
    peer.say_with(1, detach(0), b"");
    assert_eq!(&*peer.hear_close().condition, condition::NOT_ALLOWED);

    let mut peer = Peer::begun(config());
    peer.say_with(1, Performative::Begin(Begin { remote_channel: Some(0), ..begin() }), b"");
    assert_eq!(&*peer.hear_close().condition, condition::NOT_ALLOWED);
}

#[test]
fn sessions_beyond_the_limit_are_ended() {
    let mut peer = Peer::open(Config { sessions_max: 2, ..config() });
    for channel in 0..3 {
        peer.say_with(channel, Performative::Begin(begin()), b"");
    }
    let frames = peer.hear_frames();
    assert!(
        matches!(&frames[..], [.., Performative::Begin(_), Performative::End(Some(error))] if &*error.condition == condition::RESOURCE_LIMIT_EXCEEDED)
    );
    peer.say_with(2, Performative::End(None), b"");
    peer.say_with(1, Performative::End(None), b"");
    peer.say_with(2, Performative::Begin(begin()), b"");
    assert!(matches!(peer.hear_frames()[..], [Performative::End(None), Performative::Begin(_)]));
    assert_eq!(peer.server.endpoint.links_and_sessions(), (0, 2));
}

#[test]
fn links_beyond_the_limit_are_refused() {
    let mut peer = Peer::begun(Config { links_max: 2, ..config() });
    for handle in 0..3 {
        peer.say(attach_on(handle, sender(&handle.to_string())));
    }
    assert_eq!(peer.server.take().len(), 2);
    let frames = peer.hear_frames();
    assert!(
        matches!(&frames[..], [Performative::Attach(_), Performative::Detach(Detach { error: Some(error), .. })] if &*error.condition == condition::RESOURCE_LIMIT_EXCEEDED)
    );
    // A peer that never answers detaches is eventually disconnected.
    for handle in 3..3_000 {
        peer.say(attach_on(handle, sender(&handle.to_string())));
        peer.hear();
    }
    assert_eq!(peer.server.closed_because(), Some(condition::RESOURCE_LIMIT_EXCEEDED));
}

#[test]
fn ten_thousand_links_live_on_one_connection() {
    let mut pair = Pair::new();
    let session = pair.client.endpoint.begin().unwrap();
    let mut links = Vec::new();
    for number in 0..10_000 {
        let name = number.to_string();
        let attach = if number % 2 == 0 { sender(&name) } else { receiver(&name) };
        links.push(pair.client.endpoint.attach(session, attach).unwrap());
        pair.pump();
        pair.accept(1);
    }
    pair.pump();
    assert_eq!(pair.server.endpoint.links_and_sessions(), (10_000, 1));
    pair.client.take();
    for (number, link) in links.iter().step_by(2).enumerate() {
        pair.client.endpoint.send(*link, message(u32::try_from(number).unwrap(), "m"));
    }
    pair.pump();
    assert_eq!(pair.server.take_messages().len(), 5_000);
    pair.client.endpoint.end(session, None);
    pair.pump();
    assert_eq!(pair.server.endpoint.links_and_sessions(), (0, 0));
    assert_eq!(pair.server.take().len(), 10_001);
}

#[test]
fn transfers_wait_for_the_answer_to_the_attach() {
    let mut peer = Peer::begun(config());
    peer.say(attach_on(0, sender("s")));
    let (link, reply) = peer.attach_event().unwrap();
    peer.transfer(transfer(0, 0), b"one");
    peer.transfer(transfer(0, 1), b"two");
    peer.say(detach(0));
    assert!(peer.server.take().is_empty() && !peer.server.endpoint.accepts_input());
    peer.server.endpoint.accept_attach(link, reply, 10);
    peer.bytes(b"");
    let events = peer.server.take();
    assert!(
        matches!(events[..], [Event::Message { .. }, Event::Message { .. }, Event::Detached { .. }]),
        "{events:?}"
    );

    peer.say(attach_on(0, sender("s")));
    let (link, _) = peer.attach_event().unwrap();
    peer.transfer(transfer(0, 2), b"three");
    peer.server.endpoint.refuse_attach(link, error(condition::NOT_FOUND, "no"));
    peer.bytes(b"");
    assert!(peer.server.take().is_empty() && peer.server.endpoint.accepts_input());
}

/// The answer to the attach is not taken for an attach by the peer, which would be answered in turn, without end.
#[test]
fn a_client_that_detaches_a_link_before_it_is_answered_ends_it() {
    for attach in [sender("x"), receiver("x")] {
        let mut pair = Pair::new();
        let session = pair.client.endpoint.begin().unwrap();
        pair.pump();
        let before = (pair.client.endpoint.held_bytes(), pair.server.endpoint.held_bytes());
        let link = pair.client.endpoint.attach(session, attach.clone()).unwrap();
        pair.client_speaks();
        pair.client.endpoint.detach(link, None);
        pair.client.take();
        pair.pump();
        assert!(pair.client.take().is_empty());
        let after = (pair.client.endpoint.held_bytes(), pair.server.endpoint.held_bytes());
        assert_eq!(after, before, "both have forgotten it");
        pair.server.take();
        pair.link_on(session, attach, 0);
    }
}
