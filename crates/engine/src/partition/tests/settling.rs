use bytes::Bytes;
use smallvec::smallvec;

use super::rig::{QUEUE, Rig, abandon, dead_letter, defer, message, options};
use crate::{
    Command, DeadLetter, Durability, LockToken, MessageState, NewMessage, Properties, Property, ReceiveMode,
    Refusal, Reply, Settlement, SubQueue,
};

fn property(name: &str, value: &'static str) -> Property {
    Property { name: name.into(), value: Bytes::from_static(value.as_bytes()) }
}

#[test]
fn complete_removes_for_good() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    assert_eq!(rig.settle(token, Settlement::Complete), Ok(()));
    assert_eq!(rig.partition.counts(), super::super::Counts::default());
    assert_eq!(rig.settle(token, Settlement::Complete), Err(Refusal::MessageLockLost));
    assert_eq!(rig.partition.state.locks.len(), 0);
}

#[test]
fn delivery_count_grows_by_abandon_and_defer_but_not_by_release() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (view, token) = rig.take_one().unwrap();
    assert_eq!(view.delivery_count, 0);
    rig.settle(token, Settlement::Release).unwrap();
    assert!(rig.events.iter().all(|event| event.durability() == Durability::Volatile));
    let (view, token) = rig.take_one().unwrap();
    assert_eq!(view.delivery_count, 0);
    rig.settle(token, abandon()).unwrap();
    assert_eq!(rig.events[0].durability(), Durability::Lazy);
    let (view, token) = rig.take_one().unwrap();
    assert_eq!(view.delivery_count, 1);
    rig.settle(token, defer()).unwrap();
    let received = rig.receive_deferred(&[1], ReceiveMode::PeekLock).unwrap();
    assert_eq!(received[0].0.delivery_count, 2);
    assert_eq!(received[0].0.state, MessageState::Deferred);
}

#[test]
fn the_nth_failed_delivery_dead_letters_at_once() {
    let mut rig = Rig::new(crate::QueueOptions { max_delivery_count: 3, ..options() });
    rig.send(message("a"));
    for count in 0..3 {
        let (view, token) = rig.take_one().unwrap();
        assert_eq!(view.delivery_count, count);
        rig.settle(token, abandon()).unwrap();
    }
    assert_eq!(rig.counts(), (0, 1, 0));
    let view = &rig.peek(SubQueue::DeadLetter)[0];
    let why = view.dead_letter.as_ref().unwrap();
    assert_eq!(why.reason.as_deref(), Some("MaxDeliveryCountExceeded"));
    assert_eq!(why.description.as_deref(), Some("Message could not be consumed after 3 delivery attempts."));
    assert_eq!((view.sequence_number.0, view.delivery_count), (1, 3));
}

#[test]
fn release_never_dead_letters() {
    let mut rig = Rig::new(crate::QueueOptions { max_delivery_count: 1, ..options() });
    rig.send(message("a"));
    for _ in 0..3 {
        let (_, token) = rig.take_one().unwrap();
        rig.settle(token, Settlement::Release).unwrap();
    }
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn each_token_is_settled_on_its_own() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b")]).unwrap();
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, 2);
    let token = |index: usize| taken[index].1.unwrap().token;
    let tokens = smallvec![token(0), LockToken(42), token(1), token(0)];
    let Reply::Settled(failures) =
        rig.ask(Command::Settle { queue: QUEUE, tokens, settlement: Settlement::Complete })
    else {
        panic!()
    };
    assert_eq!(failures.iter().map(|failure| failure.index).collect::<Vec<_>>(), [1, 3]);
    assert!(failures.iter().all(|failure| failure.refusal == Refusal::MessageLockLost));
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn modified_properties_are_merged_by_name_and_survive() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    let modify = vec![property("a", "1"), property("b", "2"), property("a", "3")];
    rig.settle(token, Settlement::Abandon { modify }).unwrap();
    assert_eq!(rig.events[0].durability(), Durability::Sync);
    rig.restart();
    let (view, token) = rig.take_one().unwrap();
    let merged = |properties: &Properties| {
        properties.iter().map(|one| format!("{}={:?}", one.name, one.value)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(merged(&view.modified.unwrap()), r#"a=b"3" b=b"2""#);
    rig.settle(token, Settlement::Defer { modify: vec![property("b", "4"), property("c", "5")] }).unwrap();
    let received = rig.receive_deferred(&[1], ReceiveMode::PeekLock).unwrap();
    assert_eq!(merged(received[0].0.modified.as_ref().unwrap()), r#"a=b"3" b=b"4" c=b"5""#);
}

#[test]
fn properties_that_make_the_header_too_large_dead_letter_the_message_as_it_was() {
    let large = |bytes| vec![Property { name: "a".into(), value: Bytes::from(vec![0; bytes]) }];
    let why = |bytes| DeadLetter { reason: Some("x".repeat(bytes).into()), description: None };
    for settlement in [
        Settlement::Abandon { modify: large(55_536) },
        Settlement::Defer { modify: large(55_536) },
        Settlement::DeadLetter { why: why(55_537).into(), modify: vec![] },
        Settlement::DeadLetter { why: why(30_000).into(), modify: large(30_000) },
    ] {
        let mut rig = Rig::new(options());
        rig.send(NewMessage { header_bytes: 10_000, ..message("a") });
        rig.restart();
        let (_, token) = rig.take_one().unwrap();
        assert_eq!(rig.settle(token, settlement.clone()), Ok(()));
        let (view, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
        let reason = view.dead_letter.as_ref().unwrap().reason.as_deref();
        assert_eq!((reason, view.modified.as_ref()), (Some("HeaderSizeExceeded"), None), "{settlement:?}");
        let refused = rig.settle(token, Settlement::Abandon { modify: large(55_536) });
        assert!(matches!(refused, Err(Refusal::InvalidArgument(_))), "no way further, so the lock is kept");
        assert_eq!(rig.settle(token, Settlement::Complete), Ok(()));
    }
}

#[test]
fn properties_that_just_fit_are_kept() {
    let mut rig = Rig::new(options());
    rig.send(NewMessage { header_bytes: 10_000, ..message("a") });
    let (_, token) = rig.take_one().unwrap();
    let modify = vec![Property { name: "a".into(), value: Bytes::from(vec![0; 55_535]) }];
    assert_eq!(rig.settle(token, Settlement::Abandon { modify }), Ok(()));
    assert!(rig.take_one().unwrap().0.modified.is_some());
}

#[test]
fn a_message_with_too_large_a_header_is_refused() {
    let mut rig = Rig::new(options());
    let refused = rig.try_send(vec![message("fits"), NewMessage { header_bytes: 65_537, ..message("a") }]);
    assert_eq!(refused, Err(Refusal::HeaderTooLarge { size_bytes: 65_537, limit_bytes: 65_536 }));
    assert_eq!(rig.counts(), (0, 0, 0), "all or none");
}

#[test]
fn dead_letter_keeps_number_times_and_content() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (before, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("bad")).unwrap();
    rig.restart();
    let (after, _) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    assert_eq!(after.dead_letter.as_ref().unwrap().reason.as_deref(), Some("bad"));
    let expected = crate::MessageView {
        queue: QUEUE,
        sub_queue: SubQueue::DeadLetter,
        dead_letter: after.dead_letter.clone(),
        ..before
    };
    assert_eq!(after, expected);
}
