//! `DeleteMessages`: deleted messages, remaining messages, and the stored changes.

use peeklock_storage::{Batch, Operation, Space};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::rig::{ID, LOCK_MS, Rig, abandon, defer, message, options, path, with_ttl};
use super::rig_sessions::{of, with_sessions};
use crate::partition::{Outputs, persist};
use crate::{
    Command, DELETE_COUNT_MAX, Event, NewMessage, QueueOptions, ReceiveMode, ReceiverId, Refusal, Reply,
    SubQueue, Timestamp,
};

impl Rig {
    fn try_delete(
        &mut self,
        sub_queue: SubQueue,
        count_max: u32,
        enqueued_until: Timestamp,
        receiver: Option<ReceiverId>,
    ) -> Result<u32, Refusal> {
        let source = path(sub_queue);
        match self.ask(Command::DeleteMessages { source, count_max, enqueued_until, receiver }) {
            Reply::Deleted(deleted) => deleted,
            other => panic!("{other:?}"),
        }
    }

    /// Deletes messages of the main queue, regardless of their enqueued times.
    fn delete(&mut self, count_max: u32) -> u32 {
        self.try_delete(SubQueue::Main, count_max, Timestamp::NEVER, None).unwrap()
    }

    fn numbers(&mut self, sub_queue: SubQueue) -> Vec<u64> {
        self.peek(sub_queue).iter().map(|view| view.sequence_number.0).collect()
    }
}

fn filled(count: usize) -> Rig {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("abc"); count]).unwrap();
    rig
}

#[test]
fn the_oldest_messages_go_first() {
    let mut rig = filled(5);
    assert_eq!(rig.delete(2), 2);
    assert_eq!(rig.numbers(SubQueue::Main), [3, 4, 5]);
    assert_eq!(rig.partition.counts().size_bytes, 9);
    assert_eq!(rig.delete(DELETE_COUNT_MAX), 3);
    assert_eq!(rig.delete(1), 0, "nothing is left");
    rig.restart();
    assert_eq!((rig.counts(), rig.partition.counts().size_bytes), ((0, 0, 0), 0));
    assert_eq!(rig.send(message("a")), 6, "no number is given out twice");
}

#[test]
fn locked_deferred_and_scheduled_messages_stay() {
    let mut rig = filled(4);
    let (_, deferred) = rig.take_one().unwrap();
    rig.settle(deferred, defer()).unwrap();
    let (_, locked) = rig.take_one().unwrap();
    let at = rig.now.plus_ms(1000);
    rig.send(NewMessage { scheduled_enqueue_time: Some(at), ..message("later") });
    assert_eq!(rig.delete(10), 2);
    assert_eq!(rig.numbers(SubQueue::Main), [1, 2, 5]);
    rig.settle(locked, abandon()).unwrap();
    assert_eq!(rig.delete(10), 1, "it is available again");
    rig.receive_deferred(&[1], ReceiveMode::PeekLock).unwrap();
}

#[test]
fn messages_enqueued_after_the_given_time_stay() {
    let mut rig = filled(2);
    let until = rig.now;
    rig.advance(1);
    rig.send(message("late"));
    assert_eq!(rig.try_delete(SubQueue::Main, 10, Timestamp(until.0 - 1), None), Ok(0));
    assert_eq!(rig.try_delete(SubQueue::Main, 10, until, None), Ok(2), "also at that very time");
    assert_eq!(rig.try_delete(SubQueue::Main, 10, until, None), Ok(0));
    assert_eq!(rig.numbers(SubQueue::Main), [3]);
}

#[test]
fn a_scheduled_message_counts_from_when_it_becomes_available() {
    let mut rig = Rig::new(options());
    let sent = rig.now;
    rig.send(NewMessage { scheduled_enqueue_time: Some(sent.plus_ms(10)), ..message("a") });
    rig.advance(10);
    assert_eq!(rig.try_delete(SubQueue::Main, 10, sent, None), Ok(0));
    let now = rig.now;
    assert_eq!(rig.try_delete(SubQueue::Main, 10, now, None), Ok(1));
}

#[test]
fn expired_messages_are_deleted_as_well() {
    let mut rig = Rig::new(QueueOptions { dead_lettering_on_message_expiration: true, ..options() });
    rig.send(with_ttl("a", 5));
    rig.advance(10);
    assert_eq!(rig.delete(10), 1);
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn dead_letters_are_deleted_by_themselves() {
    let mut rig = Rig::new(QueueOptions { max_delivery_count: 1, ..options() });
    rig.try_send(vec![message("a"); 3]).unwrap();
    for _ in 0..2 {
        let (_, token) = rig.take_one().unwrap();
        rig.settle(token, abandon()).unwrap();
    }
    assert_eq!(rig.try_delete(SubQueue::TransferDeadLetter, 10, Timestamp::NEVER, None), Ok(0));
    assert_eq!(rig.try_delete(SubQueue::DeadLetter, 1, Timestamp::NEVER, None), Ok(1));
    assert_eq!((rig.numbers(SubQueue::DeadLetter), rig.numbers(SubQueue::Main)), (vec![2], vec![3]));
}

#[test]
fn a_count_beyond_the_limits_is_refused() {
    let mut rig = filled(1);
    for count in [0, DELETE_COUNT_MAX + 1, u32::MAX] {
        let refused = rig.try_delete(SubQueue::Main, count, Timestamp::NEVER, None);
        assert!(matches!(refused, Err(Refusal::InvalidArgument(_))), "{count}: {refused:?}");
    }
    assert_eq!(rig.numbers(SubQueue::Main), [1]);
}

#[test]
fn the_holder_of_a_session_deletes_its_messages_only() {
    let mut rig = Rig::new(with_sessions());
    rig.try_send(vec![of("a", "1"), of("b", "2"), of("A", "3"), of("b", "4")]).unwrap();
    let (holder, tokens) = rig.accept_and_take("b", 1);
    assert_eq!(rig.try_delete(SubQueue::Main, 10, Timestamp::NEVER, Some(holder)), Ok(1));
    assert_eq!(rig.numbers(SubQueue::Main), [1, 2, 3], "2 is locked");
    rig.settle(tokens[0], abandon()).unwrap();
    rig.advance(LOCK_MS);
    let lost = rig.try_delete(SubQueue::Main, 10, Timestamp::NEVER, Some(holder));
    assert_eq!(lost, Err(Refusal::SessionLockLost));
}

#[test]
fn without_a_receiver_unlocked_sessions_are_emptied_in_order() {
    let mut rig = Rig::new(with_sessions());
    let sessions = ["a", "b", "c", "a", "c", "a", "b"];
    rig.try_send(sessions.map(|session| of(session, "x")).to_vec()).unwrap();
    let holder = rig.accept("b");
    assert_eq!(rig.delete(3), 3);
    assert_eq!(rig.numbers(SubQueue::Main), [2, 5, 6, 7], "1, 3 and 4 were the oldest");
    assert_eq!(rig.delete(10), 2);
    rig.close(holder);
    assert_eq!(rig.delete(10), 2);
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn a_receiver_without_a_session_is_refused() {
    let mut rig = filled(1);
    let receiver = rig.open(SubQueue::Main, ReceiveMode::PeekLock);
    let refused = rig.try_delete(SubQueue::Main, 1, Timestamp::NEVER, Some(receiver));
    assert_eq!(refused, Err(Refusal::SessionNotSupported));
}

#[test]
fn a_run_of_messages_is_written_as_one_range() {
    let mut rig = filled(3_000);
    assert_eq!(rig.delete(2_000), 2_000);
    let mut batch = Batch::new();
    persist(ID, &rig.events, &mut batch);
    let ranges = batch.operations().iter().map(|operation| match operation {
        Operation::DeleteRange { space, numbers, .. } => (*space, numbers.clone()),
        other => panic!("{other:?}"),
    });
    assert_eq!(ranges.collect::<Vec<_>>(), [(Space::Body, 1..=2_000), (Space::Head, 1..=2_000)]);
}

#[test]
fn messages_stored_and_deleted_in_one_turn_leave_only_their_numbers() {
    let mut rig = filled(1);
    let mut outputs = Outputs::default();
    let delete = Command::DeleteMessages {
        source: path(SubQueue::Main),
        count_max: 100,
        enqueued_until: Timestamp::NEVER,
        receiver: None,
    };
    let mut random = StdRng::seed_from_u64(1);
    for command in [Command::Send { messages: vec![message("b"); 40].into() }, delete] {
        rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    }
    let mut batch = Batch::new();
    persist(ID, &outputs.events, &mut batch);
    rig.store.write(batch);
    assert!(rig.store.entries(Space::Head).is_empty() && rig.store.entries(Space::Body).is_empty());
    rig.restart();
    assert_eq!(rig.send(message("c")), 42);
}

#[test]
fn a_deletion_waits_for_the_disk() {
    let mut rig = filled(1);
    rig.delete(1);
    let deleted = rig.events.iter().find(|event| matches!(event, Event::Deleted(_))).unwrap();
    assert_eq!(deleted.durability(), crate::Durability::Sync);
    assert_eq!(deleted.removed_bodies(), [crate::BodyRef(1)]);
}
