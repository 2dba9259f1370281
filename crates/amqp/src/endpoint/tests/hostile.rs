//! Bad input: an error to that peer, bounded memory, no panic.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{Config, Event};
use super::pair::{End, Pair, config, message, plain_client, receiver, sender};
use super::peer::{AMQP, Peer, disposition, frame, link_flow, transfer};
use crate::endpoint::{Connection, condition};
use crate::wire::performative::{Attach, DeliveryState, Detach, Disposition, Performative, Transfer};

fn detach_error(peer: &mut Peer) -> String {
    let frames = peer.hear_frames();
    match frames.last() {
        Some(Performative::Detach(Detach { error: Some(error), closed: true, .. })) => {
            error.condition.to_string()
        }
        _ => panic!("no detach with error: {frames:?}"),
    }
}

#[test]
fn frame_sizes_below_eight_are_framing_errors() {
    for size in 0..8 {
        let mut peer = Peer::open(config());
        peer.bytes(&[0, 0, 0, size, 2, 0, 0, 0]);
        assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR);
        peer.bytes(&[0; 100]);
        assert!(peer.hear().is_empty());
    }
}

#[test]
fn extended_headers_are_skipped_and_wrong_offsets_refused() {
    let mut peer = Peer::open(config());
    peer.bytes(&[0, 0, 0, 16, 4, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(peer.hear().is_empty() && !peer.server.endpoint.is_closed());
    let mut begin = frame(0, &Performative::Begin(super::peer::begin()), b"");
    begin.splice(8..8, [0xee; 4]);
    begin[3] += 4;
    begin[4] = 3;
    peer.bytes(&begin);
    assert!(matches!(peer.hear_frames()[..], [Performative::Begin(_)]));
    for doff in [0, 1, 3, 255] {
        let mut peer = Peer::open(config());
        peer.bytes(&[0, 0, 0, 8, doff, 0, 0, 0]);
        assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR, "doff {doff}");
    }
}

#[test]
fn frames_beyond_our_maximum_are_refused_by_their_header() {
    let mut peer = Peer::open(Config { max_frame_size: 4_096, ..config() });
    peer.bytes(&[0, 0, 16, 1, 2, 0, 0, 0]);
    assert_eq!(&*peer.hear_close().condition, condition::FRAMING_ERROR);
}

#[test]
fn garbage_in_a_frame_is_a_decode_error() {
    let mut peer = Peer::open(config());
    peer.bytes(&[0, 0, 0, 12, 2, 0, 0, 0, 0x00, 0x53, 0x99, 0x45]);
    assert_eq!(&*peer.hear_close().condition, condition::DECODE_ERROR);
    assert_eq!(peer.server.closed_because(), Some(condition::DECODE_ERROR));
}

#[test]
fn a_disposition_of_all_numbers_touches_only_unsettled_deliveries() {
    let (mut peer, link) = Peer::attached(config(), receiver("r"), 0);
    peer.say(Performative::Flow(link_flow(0, 0, 100)));
    for number in 0..3 {
        peer.server.endpoint.send(link, message(number, "m"));
    }
    peer.hear();
    peer.server.take();
    // Ten thousand times: a loop over the whole range would take far too long.
    for _ in 0..10_000 {
        peer.say(disposition(0, u32::MAX, Some(DeliveryState::Accepted), false));
    }
    let events = peer.server.take();
    assert!(
        matches!(&events[..], [Event::Disposition { first: 0, tags, settled: false, .. }] if tags.len() == 3)
    );
    peer.say(disposition(5, 4, Some(DeliveryState::Released), true));
    let events = peer.server.take();
    assert!(
        matches!(&events[..], [Event::Disposition { first: 0, tags, settled: true, .. }] if tags.len() == 3)
    );
    peer.say(disposition(0, u32::MAX, None, true));
    assert!(peer.server.take().is_empty() && peer.hear().is_empty());
}

/// The error is in the outcome, where Python 7.15.0 and JS 7.9.5 expect it.
#[test]
fn oversized_messages_are_rejected_and_the_link_goes_on() {
    let limited = || Attach { max_message_size: Some(1_000), ..sender("s") };
    for frames in [1, 10] {
        let (mut peer, _) = Peer::attached(config(), limited(), 10);
        for number in 1..=frames {
            peer.transfer(Transfer { more: number < frames, ..transfer(0, 0) }, &vec![0; 2_000 / frames]);
            assert!(peer.server.endpoint.reassembly_bytes <= 1_000);
        }
        let frames = peer.hear_frames();
        let [Performative::Disposition(Disposition { first: 0, settled: true, state, .. })] = &frames[..]
        else {
            panic!("{frames:?}")
        };
        let Some(DeliveryState::Rejected(Some(error))) = state else { panic!("{state:?}") };
        assert_eq!(&*error.condition, condition::MESSAGE_SIZE_EXCEEDED);
        assert_eq!(peer.server.endpoint.reassembly_bytes, 0);
        peer.transfer(transfer(0, 1), &[0; 1_000]);
        assert!(matches!(peer.server.take()[..], [Event::Message { .. }]));
    }
}

#[test]
fn a_partly_received_delivery_that_is_given_up_is_refused_at_its_end_and_the_link_goes_on() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    peer.transfer(Transfer { more: true, ..transfer(0, 0) }, &[0; 2_000]);
    assert_eq!(peer.server.endpoint.reassembly_bytes(), 2_000);
    let why = condition::error(condition::RESOURCE_LIMIT_EXCEEDED, "no memory");
    peer.server.endpoint.give_up_partial_deliveries(&why);
    assert_eq!(peer.server.endpoint.reassembly_bytes(), 0);
    peer.transfer(Transfer { more: true, ..transfer(0, 0) }, &[0; 2_000]);
    assert_eq!(peer.server.endpoint.reassembly_bytes(), 0);
    peer.transfer(transfer(0, 0), &[0; 10]);
    let frames = peer.hear_frames();
    let [Performative::Disposition(Disposition { first: 0, settled: true, state, .. })] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!(*state, Some(DeliveryState::Rejected(Some(why))));
    peer.transfer(transfer(0, 1), &[0; 100]);
    assert!(matches!(peer.server.take()[..], [Event::Message { .. }]));
}

#[test]
fn an_oversized_message_without_outcome_costs_the_link() {
    let attach = Attach { max_message_size: Some(1_000), ..sender("s") };
    let (mut peer, _) = Peer::attached(config(), attach, 10);
    peer.transfer(Transfer { more: true, settled: Some(true), ..transfer(0, 0) }, &[0; 600]);
    peer.transfer(transfer(0, 0), &[0; 600]);
    assert_eq!(detach_error(&mut peer), condition::MESSAGE_SIZE_EXCEEDED);
    assert!(matches!(peer.server.take()[..], [Event::Detached { .. }]));
    assert_eq!(peer.server.endpoint.reassembly_bytes, 0);
}

#[test]
fn partly_received_deliveries_are_bounded_per_connection() {
    let mut peer = Peer::begun(Config { reassembly_bytes_max: 10_000, ..config() });
    for handle in 0..10 {
        peer.attach(Attach { handle, ..sender(&handle.to_string()) }, 10);
    }
    peer.hear();
    for handle in 0..3 {
        peer.transfer(Transfer { more: true, ..transfer(handle, handle) }, &[0; 3_333]);
    }
    assert!(peer.hear().is_empty());
    peer.transfer(Transfer { more: true, ..transfer(3, 3) }, &[0; 3_333]);
    assert_eq!(detach_error(&mut peer), condition::RESOURCE_LIMIT_EXCEEDED);
    assert_eq!(peer.server.endpoint.reassembly_bytes, 9_999);
    peer.transfer(Transfer { delivery_id: None, delivery_tag: None, ..transfer(0, 0) }, b"end");
    assert!(
        matches!(&peer.server.take()[..], [Event::Detached { .. }, Event::Message { payload, .. }] if payload.len() == 3_336)
    );
    assert_eq!(peer.server.endpoint.reassembly_bytes, 6_666);
}

#[test]
fn aborted_deliveries_leave_nothing() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    peer.transfer(Transfer { more: true, ..transfer(0, 0) }, b"part");
    peer.transfer(Transfer { aborted: true, ..transfer(0, 0) }, b"");
    peer.transfer(Transfer { aborted: true, ..transfer(0, 1) }, b"all");
    peer.transfer(transfer(0, 2), b"whole");
    assert!(matches!(&peer.server.take()[..], [Event::Message { payload, .. }] if payload == "whole"));
    assert_eq!(peer.server.endpoint.reassembly_bytes, 0);
    assert_eq!(peer.server.endpoint.incoming_unsettled(), (1, 5));
}

#[test]
fn deliveries_of_several_links_may_interleave() {
    let mut peer = Peer::begun(config());
    for handle in 0..2 {
        peer.attach(Attach { handle, ..sender(&handle.to_string()) }, 10);
    }
    for part in ["a", "b", "c"] {
        for handle in 0..2 {
            let settled = (part == "c" && handle == 1).then_some(true);
            peer.transfer(
                Transfer { more: part != "c", settled, ..transfer(handle, handle) },
                part.as_bytes(),
            );
        }
    }
    let events = peer.server.take();
    assert!(
        matches!(&events[..], [Event::Message { payload: a, settled: false, .. }, Event::Message { payload: b, settled: true, .. }] if a == "abc" && b == "abc")
    );
}

#[test]
fn transfers_against_the_rules_end_the_link_or_session() {
    let cases: [(Transfer, &str); 2] = [
        (Transfer { delivery_id: None, ..transfer(0, 0) }, condition::INVALID_FIELD),
        (transfer(0, 9), condition::INVALID_FIELD),
    ];
    for (wrong, expected) in cases {
        let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
        if wrong.delivery_id.is_some() {
            peer.transfer(Transfer { more: true, ..transfer(0, 0) }, b"part");
        }
        peer.transfer(wrong, b"");
        assert_eq!(detach_error(&mut peer), expected);
    }
    let (mut backwards, _) = Peer::attached(config(), receiver("r"), 10);
    backwards.transfer(transfer(0, 0), b"");
    assert_eq!(detach_error(&mut backwards), condition::NOT_ALLOWED);

    // Each delivery-id is used for deliveries of two links.
    let (mut twice, _) = Peer::attached(config(), sender("s"), 10);
    twice.attach(Attach { handle: 1, ..sender("t") }, 10);
    twice.hear();
    twice.transfer(Transfer { more: true, ..transfer(0, 0) }, b"");
    twice.transfer(transfer(1, 0), b"");
    twice.transfer(transfer(0, 0), b"");
    assert!(
        matches!(&twice.hear_frames()[..], [Performative::End(Some(error))] if &*error.condition == condition::INVALID_FIELD)
    );
}

#[test]
fn an_upper_layer_that_takes_no_events_stops_the_input() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    let mut flood = bytes::BytesMut::new();
    for id in 0..5_000 {
        flood.extend_from_slice(&frame(0, &Performative::Transfer(transfer(0, id)), b"m"));
    }
    peer.server.endpoint.handle_input(&mut flood, 0);
    assert_eq!(peer.server.endpoint.events.len(), 64);
    assert!(!peer.server.endpoint.has_input_work(&flood));
    assert!(peer.server.endpoint.poll_event().is_some());
    assert!(peer.server.endpoint.has_input_work(&flood));
}

/// The client's bytes in a conversation that covers all frames.
fn valid_conversation() -> Vec<u8> {
    let client = Config { sasl_mechanisms: vec!["ANONYMOUS".to_owned()], ..config() };
    let mut pair =
        Pair::with(Config { max_frame_size: 1_024, ..client }, Config { max_frame_size: 512, ..config() });
    let (send, _) = pair.link(sender("s"), 100);
    let (receive, deliver) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(receive, 20, false);
    for number in 0..6 {
        pair.client.endpoint.send(send, message(number, vec![3; 300 * number as usize]));
    }
    pair.pump();
    for number in 0..5 {
        pair.server.endpoint.send(deliver, message(number, "down"));
    }
    pair.pump();
    for event in pair.client.take() {
        if let Event::Message { id, .. } = event {
            let state = DeliveryState::Modified {
                delivery_failed: true,
                undeliverable_here: false,
                message_annotations: vec![("key".into(), crate::wire::Value::Int(1))],
            };
            pair.client.endpoint.update_incoming(id, state);
        }
    }
    pair.client.endpoint.set_credit(receive, 5, true);
    pair.pump();
    pair.client.endpoint.detach(send, None);
    pair.client.endpoint.end(1, None);
    pair.client.endpoint.close(None);
    pair.pump();
    assert!(pair.server.endpoint.is_closed());
    pair.client.sent
}

/// Answers as a dialect would; returns the payload bytes it has queued.
fn answer(end: &mut End) {
    for event in end.take() {
        match event {
            Event::Attach { link, attach, .. } => {
                if attach.name.len() % 7 == 3 {
                    end.endpoint.refuse_attach(link, condition::error(condition::NOT_FOUND, "no"));
                } else {
                    end.endpoint.accept_attach(link, Attach { max_message_size: Some(4_096), ..*attach }, 10);
                }
            }
            Event::Message { id, settled: false, .. } => {
                end.endpoint.settle_incoming(id, DeliveryState::Accepted);
            }
            Event::Credit { link, limit, drain } => {
                let (sent, _) = end.endpoint.transmitted(link);
                for number in sent..limit.min(sent + 3) {
                    end.endpoint.send(link, message(u32::try_from(number).unwrap_or(0), vec![1; 700]));
                }
                if drain {
                    end.endpoint.drained(link);
                }
            }
            Event::Disposition { link, first, settled: false, .. } => {
                let id = crate::endpoint::OutgoingId { link, delivery_id: first };
                end.endpoint.settle_outgoing(id, DeliveryState::Accepted);
            }
            _ => {}
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..6) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = rng.random(),
            2 => {
                bytes.remove(at);
            }
            3 => bytes.insert(at, rng.random()),
            4 => {
                // Repeats a piece: whole frames, or part of one.
                let end = (at + rng.random_range(1..200)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at.max(8)),
        }
    }
}

#[test]
fn mutated_conversations_neither_panic_nor_pile_up() {
    let valid = valid_conversation();
    let rounds =
        std::env::var("PEEKLOCK_MUTATIONS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3_000);
    let first_seed = std::env::var("PEEKLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first_seed..first_seed + rounds {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut bytes = valid.clone();
        mutate(&mut bytes, &mut rng);
        let server = Config { reassembly_bytes_max: 2_000, max_frame_size: 1_024, ..config() };
        let mut end = Peer::new(server).server;
        let mut rest = &bytes[..];
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while !rest.is_empty() {
                let size = rng.random_range(1..=400).min(rest.len());
                let (chunk, later) = rest.split_at(size);
                end.feed(chunk, 0);
                answer(&mut end);
                let said = end.output(usize::MAX, 0);
                super::peer::parse(&said);
                assert!(end.endpoint.reassembly_bytes <= 2_000);
                assert!(end.endpoint.pending_bytes() <= 1 << 20);
                rest = later;
            }
            end.endpoint.handle_timeout(1_000_000);
            end.endpoint.handle_end_of_input();
            end.feed(b"", 1_000_000);
            let closed = end.events.iter().filter(|event| matches!(event, Event::Closed { .. })).count();
            assert!(closed <= 1 && end.endpoint.is_closed());
        }));
        assert!(outcome.is_ok(), "seed {seed} (PEEKLOCK_SEED={seed} PEEKLOCK_MUTATIONS=1)");
    }
}

#[test]
fn random_bytes_after_the_header_end_the_connection() {
    for seed in 0..500 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut end = Peer::new(config()).server;
        end.feed(AMQP, 0);
        let noise: Vec<u8> = (0..600).map(|_| rng.random()).collect();
        end.feed(&noise, 0);
        end.endpoint.handle_timeout(1 << 40);
        assert!(end.endpoint.poll_event().is_some() || end.closed_because().is_some(), "seed {seed}");
    }
}

#[test]
fn a_client_that_never_reads_is_not_listened_to() {
    let mut endpoint = Connection::server(config(), 0);
    let mut client = Connection::client(plain_client(), "h", 0);
    let mut slices = Vec::new();
    client.poll_transmit(&mut slices, usize::MAX, 0);
    let mut input = bytes::BytesMut::from(&slices.concat()[..]);
    for _ in 0..50_000 {
        input.extend_from_slice(&frame(0, &Performative::Begin(super::peer::begin()), b""));
        input.extend_from_slice(&frame(0, &Performative::End(None), b""));
    }
    let before = input.len();
    for _ in 0..1_000 {
        endpoint.handle_input(&mut input, 0);
        while endpoint.poll_event().is_some() {}
    }
    assert!(!endpoint.accepts_input());
    assert!(before - input.len() < 1 << 20, "{} bytes taken without an answer read", before - input.len());
}
