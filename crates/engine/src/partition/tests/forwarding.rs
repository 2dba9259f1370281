//! Receivers of forwarding queues.

use bytes::Bytes;
use peeklock_storage::Entry;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::rig::{QUEUE, Rig, message, options, path};
use crate::partition::{Outputs, Partition};
use crate::{
    BodyRef, Command, CreditLimit, Effect, Event, Forwarding, LockToken, QueueOptions, ReceiveMode,
    ReceiverId, ReceiverOptions, Refusal, Reply, SequenceNumber, SubQueue, Timestamp,
};

fn forwarding() -> QueueOptions {
    let forwarding = Forwarding { forward_to: Some("target".into()), ..Forwarding::default() };
    QueueOptions { forwarding, ..options() }
}

fn try_open(rig: &mut Rig, receiver: u64, mode: ReceiveMode) -> Reply {
    let options = ReceiverOptions { source: path(SubQueue::Main), mode };
    rig.ask(Command::OpenReceiver { receiver: ReceiverId(receiver), options, session: None })
}

fn read(rig: &mut Rig, receiver: u64) -> Vec<(u64, LockToken)> {
    let limit = CreditLimit { messages: 10, bytes: u64::MAX };
    let effects = rig.handle(None, Command::Credit { receiver: ReceiverId(receiver), limit, drain: false });
    let delivered = |effect| match effect {
        Effect::Deliver { view, lock, departing: Some(_), .. } => {
            Some((view.sequence_number.0, lock.unwrap().token))
        }
        _ => None,
    };
    effects.into_iter().filter_map(delivered).collect()
}

/// A forwarder that is ending may still have a batch under way when its successor starts: if both read, a message would be
/// forwarded twice, or stay locked forever.
#[test]
fn of_two_forwarders_the_second_waits_until_the_first_has_let_go() {
    let mut rig = Rig::new(forwarding());
    for content in ["one", "two", "three"] {
        rig.send(message(content));
    }
    assert_eq!(try_open(&mut rig, 91, ReceiveMode::Forward), Reply::Opened(Ok(None)));
    let first = read(&mut rig, 91);
    assert_eq!(first.len(), 3);
    for change in [options(), forwarding()] {
        rig.change_options(change);
        for mode in [ReceiveMode::Forward, ReceiveMode::PeekLock] {
            assert!(matches!(try_open(&mut rig, 92, mode), Reply::Opened(Err(_))));
        }
    }
    assert_eq!(
        try_open(&mut rig, 92, ReceiveMode::Forward),
        Reply::Opened(Err(Refusal::Unavailable)),
        "it comes back"
    );
    rig.handle(None, Command::CloseReceiver { receiver: ReceiverId(91) });
    assert_eq!(try_open(&mut rig, 92, ReceiveMode::Forward), Reply::Opened(Ok(None)));
    let second = read(&mut rig, 92);
    let numbers =
        |messages: &[(u64, LockToken)]| messages.iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert_eq!(numbers(&second), numbers(&first));
}

/// Versions up to 0.1 left a tombstone in place of a forwarded message.
#[test]
fn a_tombstone_of_an_earlier_version_is_deleted_with_its_body() {
    let trace = Entry { number: 7, value: Bytes::from_static(&[4, 5, 10]) };
    let mut partition = Partition::restore(QUEUE, forwarding(), [], [trace]).unwrap();
    assert_eq!(partition.counts().size_bytes, 10);
    let (mut random, mut outputs) = (StdRng::seed_from_u64(1), Outputs::default());
    partition.handle(Timestamp(1), &mut random, None, Command::Tick, &mut outputs);
    let erased = Event::TombstoneRemoved { queue: QUEUE, number: SequenceNumber(7), body: Some(BodyRef(5)) };
    assert!(outputs.events.contains(&erased), "{:?}", outputs.events);
    assert_eq!((partition.counts().size_bytes, partition.next_deadline()), (0, None));
}
