use super::rig::{LOCK_MS, Rig, abandon, deliveries, message, numbers, options, path};
use crate::{
    Command, CreditLimit, Effect, Event, QueueOptions, ReceiveMode, ReceiverId, ReceiverOptions, Refusal,
    Reply, Settlement, SubQueue,
};

#[test]
fn nothing_is_delivered_without_credit() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    assert_eq!(rig.credit(receiver, 0, false), vec![]);
    assert_eq!(numbers(rig.credit(receiver, 1, false)), [1]);
}

#[test]
fn a_first_delivery_has_count_0_and_a_lock() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let delivered = deliveries(rig.credit(receiver, 1, false));
    let (to, view, lock) = &delivered[0];
    assert_eq!((*to, view.delivery_count), (receiver, 0));
    assert_eq!(lock.unwrap().locked_until, rig.now.plus_ms(super::rig::LOCK_MS));
    assert_eq!(rig.counts(), (1, 0, 0), "a locked message counts as active");
}

#[test]
fn a_message_sent_while_a_receiver_waits_is_delivered_at_once() {
    let mut rig = Rig::new(options());
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 10, false);
    let messages = smallvec::smallvec![message("a"), message("b")];
    assert_eq!(numbers(rig.handle(None, Command::Send { messages })), [1, 2]);
}

#[test]
fn competing_receivers_take_turns() {
    let mut rig = Rig::new(options());
    let receivers: Vec<_> = (0..3).map(|_| rig.open(SubQueue::Main, ReceiveMode::PeekLock)).collect();
    for receiver in &receivers {
        rig.credit(*receiver, 3, false);
    }
    let messages = (0..7).map(|_| message("x")).collect();
    let delivered = deliveries(rig.handle(None, Command::Send { messages }));
    let got: Vec<_> = delivered.iter().map(|(to, view, _)| (to.0, view.sequence_number.0)).collect();
    assert_eq!(got, [(1, 1), (2, 2), (3, 3), (1, 4), (2, 5), (3, 6), (1, 7)]);
}

#[test]
fn credit_is_cumulative_and_can_be_lowered() {
    let mut rig = Rig::new(options());
    rig.try_send((0..9).map(|_| message("x")).collect()).unwrap();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    assert_eq!(numbers(rig.credit(receiver, 2, false)), [1, 2]);
    assert_eq!(numbers(rig.credit(receiver, 2, false)), []);
    assert_eq!(numbers(rig.credit(receiver, 1, false)), []);
    assert_eq!(numbers(rig.credit(receiver, 4, false)), [3, 4]);
}

#[test]
fn lowered_credit_stops_a_waiting_receiver() {
    let mut rig = Rig::new(options());
    let (one, other) =
        (rig.open(SubQueue::Main, ReceiveMode::PeekLock), rig.open(SubQueue::Main, ReceiveMode::PeekLock));
    rig.credit(one, 5, false);
    rig.credit(other, 5, false);
    rig.credit(one, 0, false);
    let delivered =
        deliveries(rig.handle(None, Command::Send { messages: (0..3).map(|_| message("x")).collect() }));
    assert_eq!(delivered.iter().map(|(to, ..)| *to).collect::<Vec<_>>(), [other; 3]);
}

#[test]
fn the_message_that_crosses_the_byte_limit_is_still_delivered() {
    let mut rig = Rig::new(options());
    rig.try_send((0..5).map(|_| message("xx")).collect()).unwrap();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let credit =
        |bytes| Command::Credit { receiver, limit: CreditLimit { messages: 100, bytes }, drain: false };
    assert_eq!(numbers(rig.handle(None, credit(3))), [1, 2]);
    assert_eq!(numbers(rig.handle(None, credit(4))), []);
    assert_eq!(numbers(rig.handle(None, credit(5))), [3]);
    assert_eq!(numbers(rig.handle(None, credit(u64::MAX))), [4, 5]);
}

#[test]
fn a_drain_delivers_the_available_messages_then_voids_the_rest() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let effects = rig.credit(receiver, 5, true);
    assert!(matches!(effects[..], [Effect::Deliver { .. }, Effect::Drained { .. }]), "{effects:?}");
    rig.send(message("b"));
    assert_eq!(rig.counts(), (2, 0, 0));
    assert_eq!(numbers(rig.credit(receiver, 2, false)), [2], "limits still count from the opening");
}

#[test]
fn a_drain_without_messages_or_credit_is_answered_at_once() {
    let mut rig = Rig::new(options());
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    assert_eq!(rig.credit(receiver, 5, true), [Effect::Drained { receiver }]);
    assert_eq!(rig.credit(receiver, 0, true), [Effect::Drained { receiver }]);
    rig.send(message("a"));
    assert_eq!(rig.credit(receiver, 0, true), [Effect::Drained { receiver }]);
}

#[test]
fn a_drain_is_answered_at_the_byte_limit() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("aa"), message("bb")]).unwrap();
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let credit = |bytes| Command::Credit { receiver, limit: CreditLimit { messages: 9, bytes }, drain: true };
    for bytes in [1, 9] {
        let effects = rig.handle(None, credit(bytes));
        assert!(matches!(effects[..], [Effect::Deliver { .. }, Effect::Drained { .. }]), "{effects:?}");
    }
}

#[test]
fn receive_and_delete_removes_delivered_messages_and_counts_nothing_else() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..options() });
    rig.send(message("a"));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::ReceiveAndDelete);
    let first = deliveries(rig.credit(receiver, 1, false))[0].2.unwrap();
    assert_eq!(rig.counts(), (1, 0, 0), "it has not left");
    let effects = rig.advance(LOCK_MS);
    assert_eq!(rig.settle(first.token, Settlement::Complete), Err(Refusal::MessageLockLost));
    assert_eq!(numbers(effects), [0; 0]);
    let (_, view, lock) = deliveries(rig.credit(receiver, 2, false)).pop().unwrap();
    assert_eq!(view.delivery_count, 0, "an undelivered message has no failed delivery");
    rig.settle(lock.unwrap().token, Settlement::Complete).unwrap();
    assert_eq!(rig.counts(), (0, 0, 0));
    assert!(rig.store.entries(peeklock_storage::Space::Body).is_empty());
}

#[test]
fn an_abandoned_message_is_delivered_before_later_ones() {
    let mut rig = Rig::new(options());
    rig.try_send((0..5).map(|_| message("x")).collect()).unwrap();
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, 3);
    rig.settle(taken[1].1.unwrap().token, abandon()).unwrap();
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, 9);
    let got: Vec<_> = taken.iter().map(|(view, _)| (view.sequence_number.0, view.delivery_count)).collect();
    assert_eq!(got, [(2, 1), (4, 0), (5, 0)]);
}

#[test]
fn a_closed_receiver_keeps_its_locks_until_they_end() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    assert!(rig.take_one().is_none(), "locked although its receiver is closed");
    rig.settle(token, Settlement::Complete).unwrap();
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn a_closed_receiver_gets_nothing() {
    let mut rig = Rig::new(options());
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 5, false);
    rig.handle(None, Command::CloseReceiver { receiver });
    assert_eq!(rig.handle(None, Command::CloseReceiver { receiver }), vec![]);
    assert_eq!(rig.credit(receiver, 5, true), vec![], "credit for a receiver that is gone is ignored");
    assert_eq!(rig.handle(None, Command::Send { messages: smallvec::smallvec![message("a")] }), vec![]);
}

#[test]
fn a_receiver_can_not_be_opened_twice() {
    let mut rig = Rig::new(options());
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let reply = rig.ask(Command::OpenReceiver {
        receiver,
        options: ReceiverOptions { source: path(SubQueue::Main), mode: ReceiveMode::PeekLock },
        session: None,
    });
    assert!(matches!(reply, Reply::Opened(Err(Refusal::InvalidArgument(_)))));
}

#[test]
fn receivers_of_the_dead_letter_queue_get_nothing_of_the_main_queue() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    assert_eq!(rig.take(SubQueue::DeadLetter, ReceiveMode::PeekLock, 5), vec![]);
    assert_eq!(rig.take(SubQueue::TransferDeadLetter, ReceiveMode::PeekLock, 5), vec![]);
}

#[test]
fn a_message_that_came_and_went_in_one_turn_leaves_only_the_next_number() {
    let mut rig = Rig::new(options());
    let receiver = rig.open(SubQueue::Main, ReceiveMode::ReceiveAndDelete);
    rig.credit(receiver, 5, false);
    let sent = rig.handle(None, Command::Send { messages: smallvec::smallvec![message("a")] });
    let mut events = std::mem::take(&mut rig.events);
    rig.settle(deliveries(sent)[0].2.unwrap().token, Settlement::Complete).unwrap();
    events.append(&mut rig.events);
    assert_eq!(events.iter().filter(|event| event.durability() == crate::Durability::Sync).count(), 2);
    let mut batch = peeklock_storage::Batch::new();
    super::super::persist(super::rig::ID, &events, &mut batch);
    assert_eq!(batch.len(), 1, "{batch:?}");
    assert!(events.iter().any(|event| matches!(event, Event::Removed { .. })));
    assert_eq!(rig.send(message("b")), 2);
    assert_eq!(receiver, ReceiverId(1));
}
