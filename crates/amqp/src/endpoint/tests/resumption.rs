//! Links and deliveries that a peer resumes, and delivery-ids used twice.

use super::super::Event;
use super::pair::{config, receiver, sender};
use super::peer::{Peer, transfer};
use crate::wire::performative::{Attach, DeliveryState, Performative, Transfer};

fn payloads(events: Vec<Event>) -> Vec<Vec<u8>> {
    let payloads = events.into_iter().filter_map(|event| match event {
        Event::Message { payload, .. } => Some(payload.to_vec()),
        _ => None,
    });
    payloads.collect()
}

/// Settles the received deliveries as accepted.
fn accept(peer: &mut Peer) -> Vec<Vec<u8>> {
    let mut came = Vec::new();
    while let Some(position) =
        peer.server.events.iter().position(|event| matches!(event, Event::Message { settled: false, .. }))
    {
        let Event::Message { id, payload, .. } = peer.server.events.remove(position) else { unreachable!() };
        came.push(payload.to_vec());
        peer.server.endpoint.settle_incoming(id, DeliveryState::Accepted);
        // Transfers that waited for the settlement.
        peer.bytes(b"");
    }
    came
}

#[test]
fn a_resumed_transfer_of_an_unknown_delivery_is_ignored() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    let resumed = |id| Transfer { resume: true, ..transfer(0, id) };
    peer.transfer(resumed(0), b"before");
    peer.transfer(Transfer { more: true, ..resumed(1) }, b"before, ");
    peer.transfer(Transfer { delivery_id: None, more: true, ..transfer(0, 1) }, b"in three ");
    peer.transfer(Transfer { delivery_id: None, ..transfer(0, 1) }, b"frames");
    peer.transfer(Transfer { more: true, ..resumed(2) }, b"never completed");
    peer.transfer(transfer(0, 3), b"new");
    assert_eq!(payloads(peer.server.take()), [b"new".to_vec()]);
    assert_eq!(peer.server.endpoint.incoming_unsettled(), (1, 3));
    assert!(peer.hear_frames().iter().all(|frame| !matches!(frame, Performative::Disposition(_))));
}

#[test]
fn ignored_deliveries_give_their_credit_back() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 4);
    for id in 0..40 {
        peer.transfer(Transfer { resume: true, ..transfer(0, id) }, b"x");
    }
    let frames = peer.hear_frames();
    let Some(Performative::Flow(flow)) = frames.last() else { panic!("{frames:?}") };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(40), Some(4)));
}

#[test]
fn a_link_with_a_map_of_unsettled_deliveries_is_answered_with_an_empty_one() {
    for resumes in [false, true] {
        for attach in [sender("up"), receiver("down")] {
            let mut peer = Peer::begun(config());
            peer.attach(Attach { resumes, ..attach }, 1);
            let frames = peer.hear_frames();
            let Some(Performative::Attach(reply)) = frames.first() else { panic!("{frames:?}") };
            assert_eq!(reply.resumes, resumes);
        }
    }
}

#[test]
fn a_delivery_id_that_is_not_settled_yet_waits_until_it_is() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    // Two threads of Python that share a link send this: both requests have the same delivery-id.
    for (id, payload) in [(0, b"a"), (1, b"b"), (1, b"c"), (3, b"d")] {
        peer.transfer(transfer(0, id), payload);
    }
    assert_eq!(peer.server.endpoint.incoming_unsettled(), (2, 2));
    assert!(!peer.server.endpoint.accepts_input(), "nothing is read past it");
    assert_eq!(accept(&mut peer), [b"a", b"b", b"c", b"d"]);
    let settled = peer.hear_frames().into_iter().filter_map(|frame| match frame {
        Performative::Disposition(disposition) => Some((disposition.first, disposition.last)),
        _ => None,
    });
    assert_eq!(settled.collect::<Vec<_>>(), [(0, Some(1)), (1, Some(1)), (3, Some(3))]);
}

#[test]
fn a_delivery_id_used_again_after_its_settlement_does_not_wait() {
    let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
    for payload in [b"a", b"b"] {
        peer.transfer(transfer(0, 7), payload);
        assert_eq!(accept(&mut peer), [payload]);
    }
}
