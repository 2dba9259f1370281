//! Credit, drain, windows, fairness.

use std::collections::BTreeMap;

use super::super::{Event, LinkId};
use super::pair::{Pair, config, message, receiver, sender, settled};
use super::peer::{Peer, Said, begin, disposition, link_flow, parse, transfer};
use crate::endpoint::Config;
use crate::wire::performative::{Attach, Begin, DeliveryState, Flow, Performative};

fn credits(events: Vec<Event>) -> Vec<(u64, bool)> {
    let credits = events.into_iter().filter_map(|event| match event {
        Event::Credit { limit, drain, .. } => Some((limit, drain)),
        _ => None,
    });
    credits.collect()
}

fn transfers(frames: &[Performative]) -> usize {
    frames.iter().filter(|frame| matches!(frame, Performative::Transfer(_))).count()
}

fn grant(peer: &mut Peer, delivery_count: u32, credit: u32) {
    let next_incoming_id = Some(delivery_count);
    peer.say(Performative::Flow(Flow { next_incoming_id, ..link_flow(0, delivery_count, credit) }));
}

fn send_many(peer: &mut Peer, link: LinkId, number: u32) {
    for number in 0..number {
        peer.server.endpoint.send(link, message(number, "m")).unwrap();
    }
}

#[test]
fn deliveries_keep_to_the_credit_and_the_limit_is_cumulative() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    send_many(&mut peer, link, 10);
    assert_eq!(transfers(&peer.hear_frames()), 0);
    grant(&mut peer, 0, 3);
    assert_eq!(credits(peer.server.take()), [(3, false)]);
    assert_eq!(transfers(&peer.hear_frames()), 3);
    // A flow sent before the last three deliveries arrived: it grants nothing new.
    grant(&mut peer, 0, 3);
    assert!(peer.server.take().is_empty());
    assert_eq!(transfers(&peer.hear_frames()), 0);
    grant(&mut peer, 2, 4);
    assert_eq!(credits(peer.server.take()), [(6, false)]);
    assert_eq!(transfers(&peer.hear_frames()), 3);
    assert_eq!(peer.server.endpoint.transmitted(link), (6, 6));
    assert_eq!(peer.server.endpoint.pending_bytes(), 4);
}

#[test]
fn credit_may_be_lowered() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    grant(&mut peer, 0, 100);
    grant(&mut peer, 0, 0);
    assert_eq!(credits(peer.server.take()), [(100, false), (0, false)]);
    send_many(&mut peer, link, 1);
    assert_eq!(transfers(&peer.hear_frames()), 0);
}

#[test]
fn a_drain_is_answered_once_everything_queued_has_left() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    let drain = Flow { drain: true, echo: true, ..link_flow(0, 0, 10) };
    peer.say(Performative::Flow(drain));
    assert_eq!(credits(peer.server.take()), [(10, true)]);
    assert!(peer.hear_frames().is_empty(), "not before the upper layer reports its messages");
    send_many(&mut peer, link, 4);
    peer.server.endpoint.drained(link);
    let frames = peer.hear_frames();
    let Some((Performative::Flow(flow), sent)) = frames.split_last() else { panic!("{frames:?}") };
    assert_eq!(transfers(sent), 4);
    assert_eq!((flow.delivery_count, flow.link_credit, flow.drain), (Some(10), Some(0), true));
    // The limit counts deliveries, not returned credit.
    grant(&mut peer, 10, 5);
    assert_eq!(credits(peer.server.take()), [(9, false)]);
    send_many(&mut peer, link, 5);
    assert_eq!(transfers(&peer.hear_frames()), 5);
}

/// Python closes with credit 0 and drain; JS waits for credit 0 and drain in the answer.
#[test]
fn a_drain_without_credit_is_answered_too() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.say(Performative::Flow(Flow { drain: true, ..link_flow(0, 0, 0) }));
    assert_eq!(credits(peer.server.take()), [(0, true)]);
    peer.server.endpoint.drained(link);
    let frames = peer.hear_frames();
    assert!(matches!(&frames[..], [Performative::Flow(flow)] if flow.drain && flow.link_credit == Some(0)));
}

#[test]
fn a_drain_with_other_credit_replaces_one_whose_answer_is_not_written() {
    let (mut peer, link) = Peer::attached(config(), receiver("down"), 0);
    let drain = |credit| Performative::Flow(Flow { drain: true, ..link_flow(0, 0, credit) });
    peer.say(drain(2));
    peer.server.endpoint.drained(link);
    peer.say(drain(3));
    assert!(peer.hear_frames().is_empty(), "a flow would have the drain and the credit left");
    peer.server.endpoint.drained(link);
    let frames = peer.hear_frames();
    let [Performative::Flow(flow)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((flow.drain, flow.delivery_count, flow.link_credit), (true, Some(3), Some(0)));
}

/// The upper layer may have messages for the new credit: without it, they would wait on this link for ever.
#[test]
fn a_drain_with_more_credit_is_not_answered_for_the_one_before() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    let window = |frames, credit| {
        let flow = Flow { incoming_window: frames, drain: true, ..link_flow(0, 0, credit) };
        Performative::Flow(flow)
    };
    peer.say(window(0, 1));
    send_many(&mut peer, link, 1);
    peer.server.endpoint.drained(link);
    assert!(peer.hear_frames().is_empty(), "the message waits for the window");
    peer.say(window(9, 2));
    assert_eq!(credits(peer.server.take()), [(1, true), (2, true)]);
    let frames = peer.hear_frames();
    assert_eq!((frames.len(), transfers(&frames)), (1, 1));
    send_many(&mut peer, link, 1);
    peer.server.endpoint.drained(link);
    let frames = peer.hear_frames();
    let [Performative::Transfer(_), Performative::Flow(flow)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((flow.drain, flow.delivery_count, flow.link_credit), (true, Some(2), Some(0)));
}

#[test]
fn a_drain_that_is_taken_back_is_not_answered() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.say(Performative::Flow(Flow { drain: true, ..link_flow(0, 0, 5) }));
    grant(&mut peer, 0, 5);
    assert_eq!(credits(peer.server.take()), [(5, true), (5, false)], "the layer above knows");
    peer.server.endpoint.drained(link);
    assert!(peer.hear_frames().is_empty());
    send_many(&mut peer, link, 5);
    assert_eq!(transfers(&peer.hear_frames()), 5);
}

#[test]
fn both_ends_drain() {
    let mut pair = Pair::new();
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, 7, true);
    pair.pump();
    pair.server.endpoint.send(deliver, settled(1, "only"));
    pair.server.endpoint.drained(deliver);
    pair.pump();
    let events = pair.client.take();
    assert!(matches!(events[..], [Event::Message { .. }, Event::Drained { .. }]), "{events:?}");
}

#[test]
fn echo_is_answered_for_links_and_sessions() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    send_many(&mut peer, link, 3);
    peer.say(Performative::Flow(Flow { echo: true, ..link_flow(0, 0, 2) }));
    let frames = peer.hear_frames();
    let [Performative::Flow(flow), sent @ ..] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((flow.link_credit, flow.available, flow.delivery_count), (Some(2), Some(3), Some(0)));
    assert_eq!(transfers(sent), 2);
    let session = Flow { echo: true, handle: None, ..link_flow(0, 0, 0) };
    peer.say(Performative::Flow(Flow { delivery_count: None, link_credit: None, ..session }));
    let frames = peer.hear_frames();
    assert!(
        matches!(&frames[..], [Performative::Flow(flow)] if flow.handle.is_none() && flow.next_outgoing_id == 2)
    );
}

#[test]
fn credit_that_comes_with_the_attach_counts() {
    let mut peer = Peer::begun(config());
    peer.say(Performative::Attach(Box::new(receiver("r"))));
    let (link, reply) = peer.attach_event().unwrap();
    peer.say(Performative::Flow(Flow { delivery_count: None, ..link_flow(0, 0, 5) }));
    assert!(peer.server.take().is_empty());
    let reply = Attach { initial_delivery_count: Some(u32::MAX), ..reply };
    peer.server.endpoint.accept_attach(link, reply, 0);
    assert_eq!(credits(peer.server.now()), [(5, false)]);
    send_many(&mut peer, link, 9);
    assert_eq!(transfers(&peer.hear_frames()), 5);
    // Across the wrap of the serial numbers.
    grant(&mut peer, 2, 3);
    assert_eq!(credits(peer.server.take()), [(6, false)]);
    assert_eq!(transfers(&peer.hear_frames()), 1);
}

#[test]
fn credit_from_before_the_answer_to_the_attach_counts_from_its_delivery_count() {
    let (mut peer, link) = Peer::attached(config(), receiver("down"), 0);
    let early = || Flow { delivery_count: None, ..link_flow(0, 0, 5) };
    peer.say(Performative::Flow(Flow { drain: true, ..early() }));
    peer.server.endpoint.drained(link);
    peer.say(Performative::Flow(early()));
    assert_eq!(credits(peer.server.take()), [(5, true), (0, false)], "the drain has used it up");
}

#[test]
fn the_peers_window_is_honoured() {
    let mut peer = Peer::open(config());
    peer.say(Performative::Begin(Begin { incoming_window: 2, ..begin() }));
    peer.hear();
    let link = peer.attach(receiver("r"), 0);
    peer.hear();
    peer.say(Performative::Flow(Flow { incoming_window: 2, ..link_flow(0, 0, 100) }));
    send_many(&mut peer, link, 10);
    assert_eq!(transfers(&peer.hear_frames()), 2);
    let open = |next: u32, window: u32| {
        Performative::Flow(Flow {
            next_incoming_id: Some(next),
            incoming_window: window,
            handle: None,
            delivery_count: None,
            link_credit: None,
            ..link_flow(0, 0, 0)
        })
    };
    peer.say(open(1, 1));
    assert_eq!(transfers(&peer.hear_frames()), 0, "that one was on its way");
    peer.say(open(2, 3));
    assert_eq!(transfers(&peer.hear_frames()), 3);
    peer.say(open(5, u32::MAX));
    assert_eq!(transfers(&peer.hear_frames()), 5);
}

#[test]
fn our_window_is_widened_before_it_is_used_up() {
    let config = Config { incoming_window: 10, ..config() };
    let mut peer = Peer::open(config);
    // A peer whose transfer-ids wrap.
    peer.say(Performative::Begin(Begin { next_outgoing_id: u32::MAX - 2, ..begin() }));
    peer.hear();
    peer.attach(sender("s"), 1_000);
    peer.hear();
    for id in 0..5 {
        assert!(peer.hear_frames().is_empty());
        peer.transfer(transfer(0, u32::MAX.wrapping_add(id)), b"m");
    }
    let frames = peer.hear_frames();
    assert!(
        matches!(&frames[..], [Performative::Flow(flow)] if flow.next_incoming_id == Some(2) && flow.incoming_window == 10)
    );
}

#[test]
fn credit_is_topped_up_in_batches_as_deliveries_are_settled() {
    let mut pair = Pair::new();
    let (send, _) = pair.link(sender("s"), 100);
    let mut flows = 0;
    for number in 0..1_000 {
        pair.client.endpoint.send(send, message(number, "m"));
        pair.client_speaks();
        for event in pair.server.take() {
            if let Event::Message { id, .. } = event {
                pair.server.endpoint.settle_incoming(id, DeliveryState::Accepted);
            }
        }
        pair.server_speaks();
        flows += pair.client.take().iter().filter(|event| matches!(event, Event::Credit { .. })).count();
    }
    assert_eq!(flows, 20);
}

#[test]
fn unsettled_deliveries_are_not_granted_again() {
    let mut pair = Pair::new();
    let (send, _) = pair.link(sender("s"), 10);
    for number in 0..100 {
        pair.client.endpoint.send(send, message(number, "m"));
    }
    pair.pump();
    assert_eq!(pair.server.take_messages().len(), 10);
    assert_eq!(pair.server.endpoint.incoming_unsettled(), (10, 10));
}

/// Python sends without waiting for credit.
#[test]
fn an_overrun_of_credit_is_tolerated() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 2);
    for id in 0..50 {
        peer.transfer(transfer(0, id), b"m");
    }
    let events = peer.server.take();
    assert_eq!(events.len(), 50);
    for event in events {
        let Event::Message { id, .. } = event else { panic!("{event:?}") };
        peer.server.endpoint.settle_incoming(id, DeliveryState::Accepted);
    }
    let frames = peer.hear_frames();
    let [Performative::Disposition(all), Performative::Flow(flow)] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!((all.first, all.last), (0, Some(49)));
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(50), Some(2)));
}

#[test]
fn links_take_turns() {
    let mut pair = Pair::new();
    let session = pair.client.endpoint.begin().unwrap();
    let other_session = pair.client.endpoint.begin().unwrap();
    let mut servers = Vec::new();
    for (session, name) in [(session, "a"), (session, "b"), (other_session, "c")] {
        let (receive, deliver) = pair.link_on(session, receiver(name), 0);
        pair.client.endpoint.set_credit(receive, 10_000, false);
        servers.push(deliver);
    }
    pair.pump();
    for link in &servers {
        for number in 0..1_000 {
            pair.server.endpoint.send(*link, settled(number, vec![0; 1_000]));
        }
    }
    let bytes = pair.server.output(300_000, 0);
    assert!(bytes.len() < 400_000);
    let mut shares: BTreeMap<u32, usize> = BTreeMap::new();
    for said in parse(&bytes) {
        if let Said::Frame(Performative::Transfer(transfer)) = said {
            *shares.entry(transfer.handle).or_default() += 1;
        }
    }
    // Handles 0 and 1 on the first session, 0 on the second; sessions take turns, and links within them.
    let sent: Vec<u64> = servers.iter().map(|link| pair.server.endpoint.transmitted(*link).0).collect();
    assert!(sent.iter().all(|&sent| sent > 50), "{sent:?}");
    assert_eq!(shares.values().sum::<usize>() as u64, sent.iter().sum::<u64>());
}

#[test]
fn too_many_unsettled_deliveries_stop_the_flow_until_some_are_settled() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    let wide = Flow { incoming_window: u32::MAX, ..link_flow(0, 0, u32::MAX) };
    peer.say(Performative::Flow(wide));
    send_many(&mut peer, link, 70_000);
    assert_eq!(transfers(&peer.hear_frames()), 65_536);
    peer.say(disposition(100, 199, Some(DeliveryState::Accepted), true));
    assert_eq!(transfers(&peer.hear_frames()), 100);
}

#[test]
fn credit_set_before_the_answer_to_an_attach_is_granted_with_it() {
    let mut pair = Pair::new();
    let session = pair.client.endpoint.begin().unwrap();
    let receive = pair.client.endpoint.attach(session, receiver("r")).unwrap();
    pair.client.endpoint.set_credit(receive, 3, false);
    pair.pump();
    pair.accept(0);
    pair.pump();
    assert_eq!(credits(pair.server.take()), [(3, false)]);
}
