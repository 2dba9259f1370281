//! Deliveries both ways: frames, settlement, joined dispositions.

use bytes::{Bytes, BytesMut};
use smallvec::smallvec;

use super::super::{Event, IncomingId, Outgoing, OutgoingId};
use super::pair::{Chunks, Pair, config, message, plain_client, receiver, sender, settled, tag};
use super::peer::{Peer, disposition, frame, link_flow};
use crate::endpoint::Config;
use crate::endpoint::limits::VISITS_MAX;
use crate::wire::performative::{DeliveryState, Performative};

fn messages(events: &[Event]) -> Vec<(IncomingId, Bytes)> {
    let messages = events.iter().filter_map(|event| match event {
        Event::Message { id, payload, .. } => Some((*id, payload.clone())),
        _ => None,
    });
    messages.collect()
}

/// (first, number of deliveries, settled) of each disposition.
fn dispositions(events: &[Event]) -> Vec<(u32, usize, bool)> {
    let dispositions = events.iter().filter_map(|event| match event {
        Event::Disposition { first, tags, settled, .. } => Some((*first, tags.len(), *settled)),
        _ => None,
    });
    dispositions.collect()
}

/// Disposition frames among sent bytes: descriptor 0x15.
fn disposition_frames(sent: &[u8]) -> usize {
    let (mut rest, mut found) = (sent, 0);
    while rest.len() >= 8 {
        let size = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        found += usize::from(rest[8..size].starts_with(&[0x00, 0x53, 0x15]));
        rest = &rest[size..];
    }
    found
}

#[test]
fn transfers_of_a_client_are_joined_and_settled_once() {
    let mut pair = Pair::new();
    let (sender, _) = pair.link(sender("s"), 100);
    for number in 0..50 {
        pair.client.endpoint.send(sender, message(number, vec![7; number as usize])).unwrap();
    }
    pair.pump();
    let received = messages(&pair.server.take());
    assert_eq!(received.len(), 50);
    assert!(received.iter().enumerate().all(|(index, (_, payload))| payload.len() == index));
    assert_eq!(pair.server.endpoint.incoming_unsettled(), (50, (0..50).sum()));

    pair.server.sent.clear();
    for (id, _) in received.iter().rev() {
        pair.server.endpoint.settle_incoming(*id, DeliveryState::Accepted);
        pair.server.endpoint.settle_incoming(*id, DeliveryState::Accepted);
    }
    pair.pump();
    assert_eq!(disposition_frames(&pair.server.sent), 1);
    assert_eq!(dispositions(&pair.client.take()), [(0, 50, true)]);
    assert_eq!(pair.server.endpoint.incoming_unsettled(), (0, 0));
}

#[test]
fn different_states_are_not_joined() {
    let mut pair = Pair::new();
    let (sender, _) = pair.link(sender("s"), 100);
    for number in 0..4 {
        pair.client.endpoint.send(sender, message(number, "x"));
    }
    pair.pump();
    let states = [
        DeliveryState::Accepted,
        DeliveryState::Accepted,
        DeliveryState::Rejected(None),
        DeliveryState::Accepted,
    ];
    for ((id, _), state) in messages(&pair.server.take()).into_iter().zip(states) {
        pair.server.endpoint.settle_incoming(id, state);
    }
    pair.pump();
    assert_eq!(dispositions(&pair.client.take()), [(0, 2, true), (2, 1, true), (3, 1, true)]);
}

#[test]
fn messages_of_many_frames_arrive_whole_in_any_chunks() {
    for (seed, chunks) in [(1, Chunks::Whole), (2, Chunks::Single), (3, Chunks::UpTo(700))] {
        println!("seed {seed}");
        let mut pair = Pair::with(
            Config { max_frame_size: 512, ..plain_client() },
            Config { max_frame_size: 1_024, ..config() },
        )
        .chunked(chunks, seed);
        let (send, _) = pair.link(sender("s"), 100);
        let (_, deliver) = pair.link(receiver("r"), 0);
        let body: Vec<u8> = (0..20_000u32).map(|index| (index % 251) as u8).collect();
        let slices = smallvec![
            Bytes::copy_from_slice(&body[..100]),
            Bytes::copy_from_slice(&body[100..9_000]),
            Bytes::copy_from_slice(&body[9_000..])
        ];
        let large =
            Outgoing { tag: Some(tag(1)), settled: false, message_format: 0x8001_3700, payload: slices };
        pair.client.endpoint.send(send, large.clone()).unwrap();
        pair.client.endpoint.send(send, message(2, "small")).unwrap();
        pair.pump();
        assert_eq!(pair.server.take_messages(), [Bytes::from(body.clone()), Bytes::from("small")]);

        let receive = pair.server.endpoint.send(deliver, large);
        assert!(receive.is_some());
        let link = crate::endpoint::LinkId(1);
        pair.client.endpoint.set_credit(link, 1, false);
        pair.pump();
        let events = pair.client.take();
        assert!(events.iter().any(|event| matches!(event, Event::Message { message_format: 0x8001_3700, payload, settled: false, .. } if *payload == body)));
        assert_eq!(pair.server.endpoint.transmitted(deliver), (1, 20_000));
        assert_eq!(pair.server.endpoint.pending_bytes(), 0);
    }
}

#[test]
fn large_payloads_are_not_copied() {
    let mut pair = Pair::with(Config { max_frame_size: 1 << 20, ..plain_client() }, config());
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, 1, false);
    pair.pump();
    let body = Bytes::from(vec![1; 100_000]);
    let mut whole = message(1, body.clone());
    whole.payload.insert(0, Bytes::from_static(b"header"));
    pair.server.endpoint.send(deliver, whole);
    let mut output = Vec::new();
    pair.server.endpoint.poll_transmit(&mut output, usize::MAX, 0);
    assert!(output.iter().any(|slice| slice.as_ptr() == body.as_ptr() && slice.len() == body.len()));
    assert!(output[0].ends_with(b"header"));
}

#[test]
fn settlement_second_takes_two_steps() {
    let mut pair = Pair::new();
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, 10, false);
    pair.pump();
    for number in 0..5 {
        pair.server.endpoint.send(deliver, message(number, "m"));
    }
    pair.pump();
    let ids: Vec<_> = messages(&pair.client.take()).into_iter().map(|(id, _)| id).collect();
    for id in &ids {
        pair.client.endpoint.update_incoming(*id, DeliveryState::Accepted);
    }
    pair.pump();
    let events = pair.server.take();
    assert_eq!(dispositions(&events), [(0, 5, false)]);
    let Some(Event::Disposition { tags, state: Some(DeliveryState::Accepted), .. }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(tags[4], tag(4));

    // A repetition causes no event.
    pair.client.endpoint.update_incoming(ids[0], DeliveryState::Accepted);
    pair.pump();
    assert!(pair.server.take().is_empty());

    for delivery_id in 0..5 {
        let id = OutgoingId { link: deliver, delivery_id };
        pair.server.endpoint.settle_outgoing(id, DeliveryState::Accepted);
    }
    pair.pump();
    let settled = pair.client.take();
    assert_eq!(settled.iter().filter(|event| matches!(event, Event::Settled { .. })).count(), 5);
    assert_eq!(pair.client.endpoint.incoming_unsettled(), (0, 0));
}

#[test]
fn a_receiver_that_settles_first_gets_no_answer() {
    let mut pair = Pair::new();
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, 10, false);
    pair.pump();
    let id = pair.server.endpoint.send(deliver, message(9, "m")).unwrap();
    pair.pump();
    let (incoming, _) = messages(&pair.client.take())[0];
    pair.client.endpoint.settle_incoming(incoming, DeliveryState::Released);
    pair.pump();
    assert_eq!(dispositions(&pair.server.take()), [(0, 1, true)]);
    pair.server.sent.clear();
    pair.server.endpoint.settle_outgoing(id, DeliveryState::Released);
    pair.pump();
    assert_eq!(disposition_frames(&pair.server.sent), 0);
}

#[test]
fn settled_deliveries_await_nothing() {
    let mut pair = Pair::new();
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, 10, false);
    let (send, _) = pair.link(sender("s"), 10);
    pair.server.endpoint.send(deliver, settled(1, "down"));
    pair.client.endpoint.send(send, settled(1, "up"));
    pair.pump();
    for end in [&mut pair.client, &mut pair.server] {
        assert!(end.take().iter().any(|event| matches!(event, Event::Message { settled: true, .. })));
        assert_eq!(end.endpoint.incoming_unsettled(), (0, 0));
    }
}

#[test]
fn interleaved_links_of_a_session_settle_in_runs_per_link() {
    let mut pair = Pair::new();
    let session = pair.client.endpoint.begin().unwrap();
    let (one, deliver_one) = pair.link_on(session, receiver("1"), 0);
    let (two, deliver_two) = pair.link_on(session, receiver("2"), 0);
    for link in [one, two] {
        pair.client.endpoint.set_credit(link, 100, false);
    }
    pair.pump();
    for number in 0..10 {
        pair.server.endpoint.send(deliver_one, message(number, "one"));
        pair.pump();
        pair.server.endpoint.send(deliver_two, message(number, "two"));
        pair.pump();
    }
    for (id, _) in messages(&pair.client.take()) {
        pair.client.endpoint.update_incoming(id, DeliveryState::Accepted);
    }
    pair.server.take();
    pair.client.sent.clear();
    pair.pump();
    assert_eq!(disposition_frames(&pair.client.sent), 1);
    assert_eq!(dispositions(&pair.server.take()), [(0, 10, false), (0, 10, false)]);
}

#[test]
fn a_link_that_is_gone_still_counts_its_remaining_deliveries() {
    let mut pair = Pair::new();
    let (send, _) = pair.link(sender("s"), 10);
    for number in 0..3 {
        pair.client.endpoint.send(send, message(number, "four"));
    }
    pair.pump();
    let received = messages(&pair.server.take());
    pair.client.endpoint.detach(send, None);
    pair.pump();
    assert_eq!(pair.server.endpoint.incoming_unsettled(), (3, 12));
    for (id, _) in received {
        pair.server.endpoint.settle_incoming(id, DeliveryState::Accepted);
    }
    assert_eq!(pair.server.endpoint.incoming_unsettled(), (0, 0));
}

#[test]
fn a_long_stream_outlives_windows_and_turns() {
    let mut pair = Pair::new();
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, u32::MAX, false);
    pair.pump();
    pair.server.take();
    let (mut seen, mut settled) = (0, 0);
    while settled < 200_000 {
        for number in 0..64 {
            pair.server.endpoint.send(deliver, message(number, "m"));
        }
        pair.server_speaks();
        for (id, _) in messages(&pair.client.take()) {
            seen += 1;
            pair.client.endpoint.settle_incoming(id, DeliveryState::Accepted);
        }
        pair.client_speaks();
        let before = settled;
        settled += dispositions(&pair.server.take()).iter().map(|(_, tags, _)| tags).sum::<usize>();
        assert_eq!(settled - before, 64, "after {settled} of {seen}");
    }
}

/// One read may have five thousand such frames, which would take the thread for seconds.
#[test]
fn dispositions_of_many_deliveries_are_handled_some_at_a_time() {
    const DELIVERIES: usize = 2000;
    const FRAMES_MAX: usize = VISITS_MAX / DELIVERIES + 1;
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.say(Performative::Flow(link_flow(0, 0, 10_000)));
    for number in 0..DELIVERIES {
        peer.server.endpoint.send(link, message(u32::try_from(number).unwrap(), "m"));
    }
    peer.hear();
    let released = disposition(0, u32::MAX, Some(DeliveryState::Released), false);
    let released = frame(0, &released, b"");
    let mut flood = BytesMut::from(&*released.repeat(10 * FRAMES_MAX));
    let mut calls = 0;
    while peer.server.endpoint.has_input_work(&flood) {
        let before = flood.len();
        peer.server.endpoint.handle_input(&mut flood, 0);
        let frames = (before - flood.len()) / released.len();
        assert!(frames <= FRAMES_MAX, "{frames} frames at once");
        while peer.server.endpoint.poll_event().is_some() {}
        calls += 1;
    }
    assert_eq!((flood.len(), calls), (0, 10));
}
