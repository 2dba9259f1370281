//! Requirements of transactions on an endpoint: coordinator links, states of transfers and dispositions, two-step
//! settlement.

use bytes::Bytes;

use super::super::{Event, IncomingId, OutgoingId, condition};
use super::pair::{Pair, config, message, receiver, sender};
use super::peer::{Peer, transfer};
use crate::wire::performative::{DeliveryState, Disposition, Flow, Performative, Role, Target, Transfer};
use crate::wire::transaction::Control;
use crate::wire::{Str, Value};

fn work(outcome: Option<DeliveryState>) -> DeliveryState {
    DeliveryState::Transactional { txn_id: Bytes::from_static(b"txn"), outcome: outcome.map(Box::new) }
}

fn delivered(events: &[Event]) -> (IncomingId, Option<DeliveryState>, Bytes) {
    let messages = events.iter().find_map(|event| match event {
        Event::Message { id, state, payload, .. } => Some((*id, state.as_deref().cloned(), payload.clone())),
        _ => None,
    });
    messages.expect("a message")
}

/// (state, settled) of the disposition among the events.
fn disposition(events: &[Event]) -> Option<(Option<DeliveryState>, bool)> {
    events.iter().find_map(|event| match event {
        Event::Disposition { state, settled, .. } => Some((state.clone(), *settled)),
        _ => None,
    })
}

#[test]
fn a_coordinator_link_is_announced_and_its_messages_are_delivered() {
    let mut pair = Pair::new();
    let mut attach = sender("coordinator");
    attach.target = Some(Target::Coordinator(Vec::new()));
    let session = pair.client.endpoint.begin().unwrap();
    let link = pair.client.endpoint.attach(session, attach).unwrap();
    pair.pump();
    let events = pair.server.take();
    let target = events.iter().find_map(|event| match event {
        Event::Attach { link, attach, .. } => Some((*link, attach.clone())),
        _ => None,
    });
    let (theirs, attach) = target.unwrap();
    assert_eq!(attach.target, Some(Target::Coordinator(Vec::new())));
    pair.server.endpoint.accept_attach(theirs, *attach, 10);
    let declare = Control::Declare { global_id: Value::Null };
    pair.client.endpoint.send(link, message(0, declare.encode()));
    pair.pump();
    let (id, state, payload) = delivered(&pair.server.take());
    assert_eq!((state, Control::decode(&payload).unwrap()), (None, declare));
    let declared = DeliveryState::Declared { txn_id: Bytes::from_static(b"txn") };
    pair.server.endpoint.settle_incoming(id, declared.clone());
    pair.pump();
    assert_eq!(disposition(&pair.client.take()), Some((Some(declared), true)));
}

#[test]
fn states_of_transfers_and_their_outcomes_arrive() {
    let mut pair = Pair::new();
    let (link, _) = pair.link(sender("s"), 100);
    pair.client.endpoint.send_with_state(link, message(0, vec![7; 500_000]), work(None)).unwrap();
    pair.client.endpoint.send(link, message(1, "plain")).unwrap();
    pair.pump();
    let events = pair.server.take();
    let (id, state, payload) = delivered(&events);
    assert_eq!((state, payload.len()), (Some(work(None)), 500_000));
    assert!(matches!(events.last(), Some(Event::Message { state: None, .. })), "one link carries both");
    pair.server.endpoint.settle_incoming(id, work(Some(DeliveryState::Accepted)));
    pair.pump();
    let answer = disposition(&pair.client.take());
    assert_eq!(answer, Some((Some(work(Some(DeliveryState::Accepted))), true)));
}

/// Only the id of the transaction has an effect; the rest could take much memory until the last frame has arrived.
#[test]
fn of_the_state_of_a_transfer_only_the_transaction_is_kept() {
    let refused = || DeliveryState::Rejected(Some(condition::error(condition::NOT_ALLOWED, "no")));
    let cases =
        [(work(Some(refused())), Some(work(None))), (work(None), Some(work(None))), (refused(), None)];
    for (sent, kept) in cases {
        for frames in [1, 2, 3] {
            let (mut peer, _) = Peer::attached(config(), sender("s"), 10);
            for number in 1..=frames {
                let state = Some(Box::new(sent.clone()));
                peer.transfer(Transfer { more: number < frames, state, ..transfer(0, 0) }, b"part");
            }
            let (_, state, _) = delivered(&peer.server.take());
            assert_eq!(state, kept, "{sent:?} in {frames} frames");
        }
    }
}

/// The client's side: a delivery sent to the client on a link on which it receives.
fn receiving() -> (Pair, IncomingId, OutgoingId) {
    let mut pair = Pair::new();
    let (client, server) = pair.link(receiver("r"), 0);
    pair.client.endpoint.set_credit(client, 10, false);
    pair.pump();
    let sent = pair.server.endpoint.send(server, message(0, "x")).unwrap();
    pair.pump();
    pair.server.take();
    let (received, ..) = delivered(&pair.client.take());
    (pair, received, sent)
}

#[test]
fn a_settlement_is_answered_unsettled_and_settled_later() {
    let (mut pair, received, sent) = receiving();
    let complete = work(Some(DeliveryState::Accepted));
    pair.client.endpoint.update_incoming(received, complete.clone());
    pair.pump();
    assert_eq!(disposition(&pair.server.take()), Some((Some(complete.clone()), false)));

    pair.server.endpoint.update_outgoing(sent, complete.clone());
    pair.pump();
    let updated = pair.client.take();
    assert!(
        matches!(&updated[..], [Event::Updated { id, state }] if *id == received && *state == complete),
        "{updated:?}"
    );
    pair.server.endpoint.settle_outgoing(sent, complete.clone());
    pair.pump();
    let settled = pair.client.take();
    assert!(
        matches!(&settled[..], [Event::Settled { id, state: Some(state) }] if *id == received && *state == complete),
        "{settled:?}"
    );
}

#[test]
fn after_a_roll_back_the_same_delivery_is_settled_again() {
    let (mut pair, received, sent) = receiving();
    for outcome in [DeliveryState::Accepted, DeliveryState::Released] {
        let stand = work(Some(outcome));
        pair.client.endpoint.update_incoming(received, stand.clone());
        pair.pump();
        assert_eq!(disposition(&pair.server.take()), Some((Some(stand.clone()), false)));
        pair.server.endpoint.update_outgoing(sent, stand);
        pair.pump();
        pair.client.take();
        // Nothing is sent for a rollback.
    }
    pair.client.endpoint.update_incoming(received, DeliveryState::Accepted);
    pair.pump();
    assert_eq!(disposition(&pair.server.take()), Some((Some(DeliveryState::Accepted), false)));
    pair.server.endpoint.settle_outgoing(sent, DeliveryState::Accepted);
    pair.server.endpoint.settle_outgoing(sent, DeliveryState::Accepted);
    pair.pump();
    assert!(matches!(pair.client.take()[..], [Event::Settled { .. }]), "settled once");
}

/// A client need not wait for the answer to an outcome in a transaction.
#[test]
fn outcomes_in_transactions_are_reported_until_a_terminal_one() {
    let (mut pair, received, _) = receiving();
    let elsewhere = DeliveryState::Transactional {
        txn_id: Bytes::from_static(b"other"),
        outcome: Some(Box::new(DeliveryState::Accepted)),
    };
    let accepted = work(Some(DeliveryState::Accepted));
    for state in [accepted.clone(), accepted.clone(), elsewhere, DeliveryState::Accepted] {
        pair.client.endpoint.update_incoming(received, state.clone());
        pair.pump();
        assert_eq!(disposition(&pair.server.take()), Some((Some(state), false)));
    }
    for ignored in [DeliveryState::Accepted, DeliveryState::Released, accepted] {
        pair.client.endpoint.update_incoming(received, ignored);
        pair.pump();
        assert_eq!(disposition(&pair.server.take()), None);
    }
}

#[test]
fn settlements_are_counted_once() {
    let (mut pair, _, sent) = receiving();
    let settle = |pair: &mut Pair| pair.server.endpoint.settle_consecutive(sent, 3, &DeliveryState::Accepted);
    assert_eq!([settle(&mut pair), settle(&mut pair)], [1, 0]);
}

/// Frames that follow a discharge on the wire must not overtake the settlements of the discharge.
#[test]
fn flushed_settlements_leave_before_later_ones_of_other_sessions() {
    let (mut pair, received, sent) = receiving();
    let (coordinator, _) = pair.link(sender("coordinator"), 10);
    for number in 0..2 {
        pair.client.endpoint.send(coordinator, message(number, "control"));
    }
    pair.client.endpoint.update_incoming(received, work(Some(DeliveryState::Accepted)));
    pair.pump();
    let controls: Vec<IncomingId> = pair
        .server
        .take()
        .into_iter()
        .filter_map(|event| match event {
            Event::Message { id, .. } => Some(id),
            _ => None,
        })
        .collect();
    // The coordinator's session comes first in writing order.
    pair.server.endpoint.settle_incoming(controls[0], DeliveryState::Accepted);
    pair.server.endpoint.settle_outgoing(sent, DeliveryState::Accepted);
    pair.server.endpoint.flush_settlements();
    pair.server.endpoint.settle_incoming(controls[1], DeliveryState::Accepted);
    pair.pump();
    let heard = pair.client.take();
    assert!(
        matches!(heard[..], [Event::Disposition { .. }, Event::Settled { .. }, Event::Disposition { .. }]),
        "{heard:?}"
    );
}

#[test]
fn credit_of_a_transaction_ends_the_link() {
    let (mut peer, _) = Peer::attached(config(), receiver("r"), 0);
    let properties = vec![(Str::from("txn-id"), Value::Binary(Bytes::from_static(b"txn")))];
    let flow = Flow { handle: Some(0), link_credit: Some(10), properties, ..Flow::default() };
    peer.say(Performative::Flow(flow));
    let heard = peer.hear_frames();
    let Some(Performative::Detach(detach)) = heard.last() else { panic!("{heard:?}") };
    assert_eq!(&*detach.error.as_ref().unwrap().condition, "amqp:not-implemented");
}

#[test]
fn states_without_an_outcome_and_of_unknown_deliveries_do_no_harm() {
    let (mut peer, _) = Peer::attached(config(), receiver("r"), 0);
    for (first, last, state) in
        [(0, None, work(None)), (5, Some(u32::MAX), work(Some(DeliveryState::Accepted)))]
    {
        peer.say(Performative::Disposition(Disposition {
            role: Role::Receiver,
            first,
            last,
            settled: false,
            state: Some(state),
            batchable: false,
        }));
    }
    assert!(peer.hear_frames().is_empty());
    assert!(peer.server.take().is_empty());
}
