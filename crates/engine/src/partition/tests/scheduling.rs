use super::rig::{Rig, defer, message, options, with_ttl};
use crate::{
    BodyRef, Command, MessageState, NewMessage, QueueOptions, ReceiveMode, Refusal, Reply, SequenceNumber,
    Settlement, SubQueue, Timestamp,
};

fn scheduled(rig: &Rig, delay_ms: u64) -> NewMessage {
    NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(delay_ms)), ..message("s") }
}

fn cancel(rig: &mut Rig, numbers: &[u64]) -> Result<(), Refusal> {
    let numbers = numbers.iter().copied().map(SequenceNumber).collect();
    match rig.ask(Command::CancelScheduled { numbers }) {
        Reply::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_scheduled_message_waits_for_its_time() {
    let mut rig = Rig::new(options());
    assert_eq!(rig.send(scheduled(&rig, 5000)), 1);
    assert_eq!(rig.counts(), (0, 0, 1));
    assert!(rig.take_one().is_none());
    let view = &rig.peek(SubQueue::Main)[0];
    assert_eq!((view.sequence_number.0, view.state), (1, MessageState::Scheduled));
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(5000)));
    rig.advance(4999);
    assert_eq!(rig.counts(), (0, 0, 1));
    rig.advance(1);
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn it_gets_a_new_number_at_activation_and_its_old_one_is_dead() {
    let mut rig = Rig::new(options());
    rig.send(scheduled(&rig, 5000));
    rig.send(message("b"));
    rig.advance(6000);
    let shown = rig.peek(SubQueue::Main);
    let activated = &shown[1];
    assert_eq!((activated.sequence_number.0, activated.enqueued_at), (3, rig.now));
    assert_eq!((activated.state, activated.delivery_count), (MessageState::Active, 0));
    assert_eq!(activated.body, BodyRef(1), "the content is not written again");
    assert_eq!(cancel(&mut rig, &[1]), Err(Refusal::ScheduledNotFound(1)));
    assert_eq!(cancel(&mut rig, &[3]), Err(Refusal::ScheduledNotFound(3)), "active already");
    rig.restart();
    let taken = rig.take(SubQueue::Main, ReceiveMode::PeekLock, 9);
    assert_eq!(taken.iter().map(|(view, _)| view.sequence_number.0).collect::<Vec<_>>(), [2, 3]);
    rig.settle(taken[1].1.unwrap().token, Settlement::Complete).unwrap();
    assert!(rig.store.entries(peeklock_storage::Space::Body).iter().all(|body| body.number == 2));
}

#[test]
fn a_time_in_the_past_means_now() {
    let mut rig = Rig::new(options());
    let past = NewMessage { scheduled_enqueue_time: Some(Timestamp(5)), ..message("a") };
    let now = NewMessage { scheduled_enqueue_time: Some(rig.now), ..message("b") };
    assert_eq!(rig.try_send(vec![past, now]), Ok(vec![1, 2]));
    assert_eq!(rig.counts(), (2, 0, 0));
    assert!(rig.take_one().is_some());
}

#[test]
fn s9_its_life_starts_at_activation() {
    let mut rig = Rig::new(options());
    let message = NewMessage { time_to_live_ms: Some(10_000), ..scheduled(&rig, 5000) };
    rig.send(message);
    let shown = rig.peek(SubQueue::Main);
    assert_eq!(shown[0].expires_at, rig.now.plus_ms(15_000));
    rig.advance(5000);
    rig.advance(9999);
    assert!(rig.take_one().is_some());
    let mut rig = Rig::new(options());
    rig.send(NewMessage { time_to_live_ms: Some(10_000), ..scheduled(&rig, 5000) });
    rig.advance(5000);
    rig.advance(10_000);
    assert!(rig.take_one().is_none());
}

#[test]
fn a_default_lowered_meanwhile_caps_at_activation() {
    let mut rig = Rig::new(options());
    rig.send(scheduled(&rig, 5000));
    rig.change_options(QueueOptions { default_message_time_to_live_ms: Some(7), ..options() });
    rig.advance(5000);
    assert_eq!(rig.peek(SubQueue::Main)[0].time_to_live_ms, Some(7));
}

#[test]
fn activation_follows_the_order_of_time_and_reaches_a_waiting_receiver() {
    let mut rig = Rig::new(options());
    rig.send(scheduled(&rig, 2000));
    rig.send(scheduled(&rig, 1000));
    rig.send(scheduled(&rig, 2000));
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 9, false);
    let delivered = super::rig::deliveries(rig.advance(9000));
    let got: Vec<_> = delivered.iter().map(|(_, view, _)| (view.sequence_number.0, view.body.0)).collect();
    assert_eq!(got, [(4, 2), (5, 1), (6, 3)]);
}

#[test]
fn cancelling_deletes_all_or_none() {
    let mut rig = Rig::new(options());
    rig.send(scheduled(&rig, 5000));
    rig.send(scheduled(&rig, 5000));
    rig.send(message("active"));
    assert_eq!(cancel(&mut rig, &[1, 3]), Err(Refusal::ScheduledNotFound(3)));
    assert_eq!(cancel(&mut rig, &[1, 9]), Err(Refusal::ScheduledNotFound(9)));
    assert!(matches!(cancel(&mut rig, &[1, 1]), Err(Refusal::InvalidArgument(_))));
    assert!(matches!(cancel(&mut rig, &[]), Err(Refusal::InvalidArgument(_))));
    assert_eq!(rig.counts(), (1, 0, 2));
    assert_eq!(cancel(&mut rig, &[2, 1]), Ok(()));
    assert_eq!(rig.counts(), (1, 0, 0));
    assert_eq!(rig.partition.next_deadline(), None);
    assert_eq!(rig.send(message("b")), 4);
}

#[test]
fn s42_a_scheduled_message_survives_a_restart_and_can_be_deferred_by_its_new_number() {
    let mut rig = Rig::new(options());
    rig.send(NewMessage { time_to_live_ms: Some(1000), ..scheduled(&rig, 5000) });
    rig.restart();
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(5000)));
    rig.advance(5000);
    let (view, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    rig.restart();
    rig.advance(999);
    let number = view.sequence_number.0;
    assert_eq!(number, 2);
    let received = rig.receive_deferred(&[number], ReceiveMode::PeekLock).unwrap();
    assert_eq!(received[0].0.body, BodyRef(1));
}

#[test]
fn a_scheduled_message_does_not_expire_while_it_waits() {
    let mut rig = Rig::new(options());
    rig.send(NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(5000)), ..with_ttl("a", 1) });
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    rig.credit(receiver, 9, false);
    rig.advance(4000);
    assert_eq!(rig.counts(), (0, 0, 1));
}
