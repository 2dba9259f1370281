//! Deliveries that are given up in the middle of a frame.

use super::super::Event;
use super::pair::{config, sender};
use super::peer::{Peer, frame, transfer};
use crate::endpoint::condition;
use crate::wire::performative::{DeliveryState, Disposition, Error, Performative, Transfer};

fn why() -> Error {
    condition::error(condition::RESOURCE_LIMIT_EXCEEDED, "no memory")
}

/// Sends part of a frame, gives up its rest, and then sends that rest in pieces.
fn say_in_part(peer: &mut Peer, transfer: Transfer, payload_bytes: usize) {
    let bytes = frame(0, &Performative::Transfer(transfer), &vec![0; payload_bytes]);
    let (begun, rest) = bytes.split_at(bytes.len() / 2);
    peer.bytes(begun);
    assert!(peer.server.endpoint.give_up_frame(&mut peer.server.arrived, &why()));
    assert!(peer.server.arrived.is_empty() && peer.server.endpoint.reassembly_bytes() == 0);
    let (first, last) = rest.split_at(rest.len() / 2);
    peer.bytes(first);
    assert!(peer.server.arrived.is_empty() && peer.hear_frames().is_empty());
    peer.bytes(last);
    assert!(peer.server.arrived.is_empty() && peer.server.endpoint.reassembly_bytes() == 0);
}

fn assert_refused(peer: &mut Peer) {
    let frames = peer.hear_frames();
    let [Performative::Disposition(Disposition { first: 0, settled: true, state, .. })] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert_eq!(*state, Some(DeliveryState::Rejected(Some(why()))));
    peer.transfer(transfer(0, 1), &[0; 100]);
    let events = peer.server.take();
    assert!(matches!(&events[..], [Event::Message { payload, .. }] if payload.len() == 100), "{events:?}");
}

#[test]
fn a_delivery_of_one_frame_is_refused_when_that_is_over_and_the_link_goes_on() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    say_in_part(&mut peer, transfer(0, 0), 1_000);
    assert_refused(&mut peer);
}

#[test]
fn a_delivery_of_several_frames_is_refused_when_the_last_is_over() {
    for given_up in 0..3 {
        let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
        for number in 0..3 {
            let transfer = Transfer { more: number < 2, ..transfer(0, 0) };
            if number == given_up {
                say_in_part(&mut peer, transfer, 1_000);
            } else {
                peer.transfer(transfer, &[0; 1_000]);
            }
        }
        assert_refused(&mut peer);
    }
}

#[test]
fn an_aborted_delivery_that_was_given_up_gets_no_outcome() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    peer.transfer(Transfer { more: true, ..transfer(0, 0) }, &[0; 1_000]);
    say_in_part(&mut peer, Transfer { aborted: true, ..transfer(0, 0) }, 1_000);
    assert!(peer.hear_frames().is_empty());
}

#[test]
fn a_sender_that_wants_no_outcome_loses_the_link() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    say_in_part(&mut peer, Transfer { settled: Some(true), ..transfer(0, 0) }, 1_000);
    let frames = peer.hear_frames();
    assert!(matches!(&frames[..], [Performative::Detach(_)]), "{frames:?}");
}

#[test]
fn only_begun_transfers_on_a_link_are_aborted() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    let whole = frame(0, &Performative::Transfer(transfer(0, 0)), &[0; 100]);
    let unknown = frame(0, &Performative::Transfer(transfer(7, 0)), &[0; 100]);
    for bytes in [&b""[..], &whole[..4], &whole[..12], &whole[..], &unknown[..100]] {
        let mut input = bytes::BytesMut::from(bytes);
        assert!(!peer.server.endpoint.give_up_frame(&mut input, &why()), "{bytes:?}");
        assert_eq!(input, bytes);
    }
    assert!(!peer.server.endpoint.is_closed());
}
