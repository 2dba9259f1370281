//! Partitioned entities: the partition of a message, and the numbers that clients see and send.

use smallvec::smallvec;

use super::rig::{Rig, dead_letter, defer, message, options};
use crate::partition::record::Record;
use crate::{
    Command, DeadLetter, KeyPartition, NewMessage, PartitionKey, QueueOptions, ReceiveMode, Refusal, Reply,
    SequenceNumber, Settlement, SubQueue, Timestamp,
};

fn partitioned() -> QueueOptions {
    let mut options = options();
    options.kept.enable_partitioning = true;
    options
}

/// "1" is a key of partition 2, "2" of partition 7.
fn keyed(key: &str) -> NewMessage {
    NewMessage { partition_key: Some(PartitionKey::of(key)), ..message("x") }
}

fn scheduled(rig: &Rig, message: NewMessage) -> NewMessage {
    NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(5000)), ..message }
}

fn shown(partition: u64, number: u64) -> u64 {
    partition << 48 | number
}

fn cancel(rig: &mut Rig, number: u64) -> Result<(), Refusal> {
    match rig.ask(Command::CancelScheduled { numbers: vec![SequenceNumber(number)] }) {
        Reply::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

fn provisional(rig: &mut Rig, command: Command) -> Result<Vec<u64>, Refusal> {
    match rig.ask(Command::Provisional(Box::new(command))) {
        Reply::Provisional(answer) => answer.map(|numbers| numbers.iter().map(|number| number.0).collect()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_answer_to_a_send_names_the_partition_of_each_key() {
    let mut rig = Rig::new(partitioned());
    assert_eq!(rig.send(keyed("1")), shown(2, 1));
    assert_eq!(rig.send(keyed("2")), shown(7, 2));
    rig.restart();
    let numbers: Vec<u64> = rig.peek(SubQueue::Main).iter().map(|view| view.shown_number().0).collect();
    assert_eq!(numbers, [shown(2, 1), shown(7, 2)]);
}

#[test]
fn an_entity_without_partitions_has_one() {
    let mut rig = Rig::new(options());
    assert_eq!(rig.send(keyed("1")), 1);
    assert_eq!(rig.try_send(vec![keyed("1"), keyed("2")]), Ok(vec![2, 3]));
}

#[test]
fn messages_without_a_key_take_turns_and_those_of_one_batch_stay_together() {
    let mut rig = Rig::new(partitioned());
    assert_eq!(rig.send(message("a")), shown(1, 1));
    assert_eq!(rig.try_send(vec![message("b"), message("c")]), Ok(vec![shown(2, 2), shown(2, 3)]));
    assert_eq!(rig.send(message("d")), shown(4, 4));
}

#[test]
fn a_batch_of_different_keys_is_refused() {
    let mut rig = Rig::new(partitioned());
    for other in [keyed("2"), message("x")] {
        let refused = rig.try_send(vec![keyed("1"), other]);
        assert!(
            matches!(refused, Err(Refusal::NotAllowed(text)) if text.starts_with("Batching")),
            "{refused:?}"
        );
    }
    assert_eq!(rig.try_send(vec![keyed("1"), keyed("1")]), Ok(vec![shown(2, 1), shown(2, 2)]));
}

#[test]
fn where_duplicates_are_looked_for_a_message_needs_a_key() {
    let mut rig = Rig::new(QueueOptions { requires_duplicate_detection: true, ..partitioned() });
    let refused = rig.try_send(vec![message("x")]);
    assert!(
        matches!(refused, Err(Refusal::NotAllowed(text)) if text.starts_with("Message to a partitioned"))
    );
    assert_eq!(rig.send(keyed("1")), shown(2, 1));
}

#[test]
fn a_number_of_another_partition_names_no_message() {
    let mut rig = Rig::new(partitioned());
    let later = scheduled(&rig, keyed("1"));
    rig.send(later);
    for wrong in [1, shown(3, 1), shown(2, 2), shown(16, 1), u64::MAX] {
        assert_eq!(cancel(&mut rig, wrong), Err(Refusal::ScheduledNotFound(wrong)));
    }
    assert_eq!(cancel(&mut rig, shown(2, 1)), Ok(()));
    rig.send(keyed("2"));
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    for wrong in [2, shown(2, 2), shown(16, 2)] {
        let refused = rig.receive_deferred(&[wrong], ReceiveMode::PeekLock);
        assert_eq!(refused, Err(Refusal::DeferredNotFound(wrong)));
    }
    let received = rig.receive_deferred(&[shown(7, 2)], ReceiveMode::PeekLock).unwrap();
    assert_eq!(received[0].0.shown_number().0, shown(7, 2));
}

#[test]
fn a_message_keeps_its_partition_wherever_it_goes() {
    let mut rig = Rig::new(partitioned());
    let (by_key, in_turn) = (scheduled(&rig, keyed("2")), scheduled(&rig, message("x")));
    assert_eq!(rig.send(by_key), shown(7, 1));
    assert_eq!(rig.send(in_turn), shown(2, 2));
    rig.advance(5000);
    let activated = rig.peek(SubQueue::Main);
    let numbers: Vec<u64> = activated.iter().map(|view| view.shown_number().0).collect();
    assert_eq!(numbers, [shown(7, 3), shown(2, 4)]);
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("r")).unwrap();
    rig.restart();
    assert_eq!(rig.peek(SubQueue::DeadLetter)[0].shown_number().0, shown(7, 3));
}

/// A transaction learns the partitions of its operations.
#[test]
fn provisional_answers_name_partitions_and_the_commit_keeps_them() {
    let mut rig = Rig::new(partitioned());
    let by_key = scheduled(&rig, keyed("2"));
    let numbers = provisional(&mut rig, Command::Send { messages: smallvec![by_key.clone()] });
    assert_eq!(numbers, Ok(vec![shown(7, 1)]));
    rig.send(keyed("1"));
    let reserved = NewMessage { reserved_number: Some(SequenceNumber(shown(7, 1))), ..by_key };
    assert_eq!(rig.send(reserved), shown(7, 1));
    let (_, token) = rig.take_one().unwrap();
    let settle =
        |queue| Command::Settle { queue, tokens: smallvec![token], settlement: Settlement::Complete };
    assert_eq!(provisional(&mut rig, settle(super::rig::QUEUE)), Ok(vec![shown(2, 2)]));
    let mut plain = Rig::new(options());
    plain.send(message("x"));
    let (_, token) = plain.take_one().unwrap();
    let settle = Command::Settle { queue: super::rig::QUEUE, tokens: smallvec![token], settlement: defer() };
    assert_eq!(provisional(&mut plain, settle), Ok(Vec::new()), "without partitions there is no check");
}

#[test]
fn an_undeliverable_message_gets_a_partition_of_this_entity() {
    let mut rig = Rig::new(partitioned());
    let why = DeadLetter::default().into();
    let kept = rig.ask(Command::KeepUndelivered { messages: smallvec![keyed("2")], why });
    assert_eq!(kept, Reply::Sent(Ok(smallvec![SequenceNumber(shown(7, 1))])));
}

#[test]
fn a_record_without_partition_is_of_the_first() {
    assert_eq!(Record::new(Timestamp(1), None, 0).partition(), KeyPartition::default());
}
