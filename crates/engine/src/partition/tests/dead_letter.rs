use super::rig::{Rig, abandon, dead_letter, defer, message, options, path, with_ttl};
use crate::{Command, QueueOptions, ReceiveMode, Refusal, Reply, SequenceNumber, Settlement, SubQueue};

fn with_one_dead_letter(options: QueueOptions) -> Rig {
    let mut rig = Rig::new(options);
    rig.send(with_ttl("a", 1000));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("bad")).unwrap();
    rig
}

#[test]
fn it_can_be_received_and_completed() {
    let mut rig = with_one_dead_letter(options());
    assert_eq!(rig.counts(), (0, 1, 0));
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, Settlement::Complete).unwrap();
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn it_can_be_received_and_deleted() {
    let mut rig = with_one_dead_letter(options());
    assert_eq!(rig.take(SubQueue::DeadLetter, ReceiveMode::ReceiveAndDelete, 9).len(), 1);
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn it_can_not_be_dead_lettered_again_and_stays_locked() {
    let mut rig = with_one_dead_letter(options());
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    assert_eq!(rig.settle(token, dead_letter("worse")), Err(Refusal::AlreadyDeadLettered));
    assert!(rig.take_one_from(SubQueue::DeadLetter).is_none());
    assert_eq!(rig.settle(token, Settlement::Complete), Ok(()));
}

#[test]
fn its_deliveries_are_neither_counted_nor_limited() {
    let mut rig = with_one_dead_letter(QueueOptions { max_delivery_count: 2, ..options() });
    for _ in 0..3 {
        let (view, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
        assert_eq!(view.delivery_count, 0);
        rig.settle(token, abandon()).unwrap();
    }
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.advance(options().lock_duration_ms);
    assert_eq!(rig.settle(token, Settlement::Complete), Err(Refusal::MessageLockLost));
    assert_eq!(rig.take_one_from(SubQueue::DeadLetter).unwrap().0.delivery_count, 0);
    rig.restart();
    assert_eq!(rig.peek(SubQueue::DeadLetter)[0].delivery_count, 0);
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn it_keeps_the_delivery_count_that_it_came_with() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, abandon()).unwrap();
    let (view, token) = rig.take_one().unwrap();
    assert_eq!(view.delivery_count, 1);
    rig.settle(token, dead_letter("bad")).unwrap();
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, abandon()).unwrap();
    assert_eq!(rig.take_one_from(SubQueue::DeadLetter).unwrap().0.delivery_count, 1);
}

#[test]
fn its_time_to_live_is_not_observed() {
    let mut rig = with_one_dead_letter(options());
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 10, false);
    rig.advance(100_000);
    assert_eq!(rig.counts(), (0, 1, 0));
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, abandon()).unwrap();
    assert_eq!(rig.counts(), (0, 1, 0));
}

#[test]
fn it_can_be_deferred_inside_the_dead_letter_queue_and_never_expires_there() {
    let mut rig = Rig::new(options());
    rig.send(with_ttl("x", 1000));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("test")).unwrap();
    let (_, token) = rig.take_one_from(SubQueue::DeadLetter).unwrap();
    rig.settle(token, defer()).unwrap();
    assert!(rig.take_one_from(SubQueue::DeadLetter).is_none());
    rig.restart();
    rig.advance(5000);
    let numbers = vec![SequenceNumber(1)];
    let mode = ReceiveMode::PeekLock;
    let main = Command::ReceiveDeferred {
        numbers: numbers.clone(),
        source: path(SubQueue::Main),
        mode,
        receiver: None,
        bytes_max: usize::MAX,
    };
    assert_eq!(rig.ask(main), Reply::Received(Err(Refusal::DeferredNotFound(1))));
    let command = Command::ReceiveDeferred {
        numbers,
        source: path(SubQueue::DeadLetter),
        mode,
        receiver: None,
        bytes_max: usize::MAX,
    };
    let Reply::Received(Ok(received)) = rig.ask(command) else { panic!() };
    assert_eq!(received[0].0.delivery_count, 0);
}

#[test]
fn messages_dead_lettered_for_the_same_reason_share_it_even_after_a_restart() {
    let options = QueueOptions { dead_lettering_on_message_expiration: true, ..options() };
    let mut rig = Rig::new(options);
    rig.try_send((0..3).map(|_| with_ttl("x", 0)).collect()).unwrap();
    assert!(rig.take_one().is_none());
    rig.restart();
    let shown = rig.peek(SubQueue::DeadLetter);
    assert_eq!(shown.len(), 3);
    let first = shown[0].dead_letter.as_ref().unwrap();
    assert!(shown.iter().all(|view| std::sync::Arc::ptr_eq(view.dead_letter.as_ref().unwrap(), first)));
    assert_eq!(rig.send(message("y")), 4);
}
