//! Duplicate detection (semantics §11): cases that the model does not cover, and readable examples.

use peeklock_storage::Space;
use smallvec::SmallVec;

use super::super::step::TIMERS_PER_CALL_MAX;
use super::rig::{Rig, message, options};
use crate::layout::HeadSubject;
use crate::{
    Command, MessageKey, NewMessage, QueueOptions, ReceiveMode, Refusal, SequenceNumber, SubQueue, Timestamp,
};

const WINDOW_MS: u64 = 20_000;
/// Ids stay in memory for an additional fraction of the window.
const LINGER_MS: u64 = WINDOW_MS / 32;

fn detecting() -> QueueOptions {
    QueueOptions {
        requires_duplicate_detection: true,
        duplicate_detection_history_time_window_ms: WINDOW_MS,
        ..options()
    }
}

fn with_id(id: &str) -> NewMessage {
    NewMessage { message_key: Some(MessageKey::of(id)), ..message("x") }
}

fn remembered(rig: &Rig) -> usize {
    rig.store
        .entries(Space::Head)
        .iter()
        .filter(|entry| matches!(HeadSubject::of(entry.number), HeadSubject::RememberedId(_)))
        .count()
}

#[test]
fn a_duplicate_is_accepted_and_dropped_until_the_window_is_over() {
    let mut rig = Rig::new(detecting());
    assert_eq!(rig.send(with_id("a")), 1);
    rig.advance(WINDOW_MS - 1);
    assert_eq!(rig.send(with_id("a")), 1, "the number of the first");
    assert_eq!(rig.send(with_id("A")), 2, "case matters");
    assert_eq!(rig.counts(), (2, 0, 0));
    rig.advance(1);
    assert_eq!(rig.send(with_id("a")), 3, "the duplicate did not prolong the window");
    assert_eq!(rig.counts(), (3, 0, 0));
}

#[test]
fn the_id_of_a_message_is_remembered_whatever_its_outcome_also_after_a_restart() {
    let mut rig = Rig::new(detecting());
    rig.send(with_id("received"));
    let at = rig.now.plus_ms(5_000);
    let number = rig.send(NewMessage { scheduled_enqueue_time: Some(at), ..with_id("cancelled") });
    rig.take(SubQueue::Main, ReceiveMode::ReceiveAndDelete, 1);
    rig.ask(Command::CancelScheduled { numbers: vec![SequenceNumber(number)] });
    rig.restart();
    rig.advance(WINDOW_MS - 1);
    assert_eq!(rig.send(with_id("received")), 1);
    assert_eq!(rig.send(with_id("cancelled")), 2);
    assert_eq!(rig.counts(), (0, 0, 0));
    rig.restart();
    rig.advance(1);
    rig.send(with_id("received"));
    assert_eq!(rig.counts(), (1, 0, 0));
}

#[test]
fn a_message_scheduled_again_has_the_number_by_which_the_first_is_cancelled() {
    let mut rig = Rig::new(detecting());
    let scheduled =
        |rig: &Rig| NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(60_000)), ..with_id("a") };
    let first = rig.send(scheduled(&rig));
    assert_eq!(rig.send(scheduled(&rig)), first);
    assert_eq!(rig.send(with_id("a")), first, "sent to be there at once: still the same id");
    assert_eq!(rig.counts(), (0, 0, 1));
    rig.ask(Command::CancelScheduled { numbers: vec![SequenceNumber(first)] });
    assert_eq!(rig.counts(), (0, 0, 0));
}

#[test]
fn a_duplicate_goes_into_a_full_queue_and_a_refused_batch_is_not_remembered() {
    let mut rig = Rig::new(QueueOptions { max_size_bytes: 2, ..detecting() });
    rig.send(with_id("a"));
    let batch = vec![with_id("b"), with_id("c")];
    assert_eq!(rig.try_send(batch), Err(Refusal::EntityFull { limit_bytes: 2 }));
    rig.send(with_id("b"));
    assert_eq!(rig.try_send(vec![with_id("a"), with_id("b")]), Ok(vec![1, 2]));
    assert_eq!(rig.try_send(vec![with_id("c")]), Err(Refusal::EntityFull { limit_bytes: 2 }));
}

#[test]
fn a_window_can_shrink_and_grow() {
    let mut rig = Rig::new(detecting());
    let window = |duplicate_detection_history_time_window_ms| QueueOptions {
        duplicate_detection_history_time_window_ms,
        ..detecting()
    };
    rig.send(with_id("a"));
    rig.change_options(window(100_000));
    rig.advance(99_999);
    assert_eq!(rig.send(with_id("a")), 1);
    rig.send(with_id("b"));
    rig.advance(30_000);
    assert_eq!(remembered(&rig), 1, "b");
    rig.change_options(window(20_000));
    assert_eq!(remembered(&rig), 0);
    assert_eq!(rig.send(with_id("b")), 3);
}

#[test]
fn a_queue_that_does_not_look_for_duplicates_keeps_nothing() {
    let mut rig = Rig::new(options());
    assert_eq!(rig.try_send(vec![with_id("a"), with_id("a")]), Ok(vec![1, 2]));
    assert_eq!(remembered(&rig), 0);
    assert_eq!(rig.partition.next_deadline(), None);
}

#[test]
fn ids_are_forgotten_together_and_a_bounded_number_at_a_time() {
    let mut rig = Rig::new(detecting());
    let count = TIMERS_PER_CALL_MAX * 2 + 1;
    let batch: SmallVec<[NewMessage; 1]> = (0..count).map(|id| with_id(&id.to_string())).collect();
    rig.handle(None, Command::Send { messages: batch });
    assert_eq!(rig.partition.next_deadline(), Some(rig.now.plus_ms(WINDOW_MS + LINGER_MS)));
    rig.advance(WINDOW_MS);
    assert_eq!((remembered(&rig), rig.events.len()), (count, 0), "they do not count any more, that is all");
    rig.advance(LINGER_MS);
    assert_eq!((remembered(&rig), rig.events.len()), (TIMERS_PER_CALL_MAX + 1, 1));
    assert!(rig.partition.next_deadline().is_some_and(|at| at <= rig.now), "there is more to do at once");
    // Expired ids don't count even before they are removed.
    assert_eq!(rig.send(with_id(&(count - 1).to_string())), count as u64 + 1);
    rig.advance(0);
    assert_eq!(remembered(&rig), 1, "the new one");
    assert_eq!(rig.send(with_id(&(count - 1).to_string())), count as u64 + 1);
    rig.restart();
    assert_eq!(rig.send(with_id(&(count - 1).to_string())), count as u64 + 1);
}

#[test]
fn damaged_ids_cost_only_themselves() {
    let mut rig = Rig::new(detecting());
    rig.send(with_id("a"));
    let number = HeadSubject::RememberedId(SequenceNumber(1)).number();
    let good = rig.store.0[&(Space::Head, number)].clone();
    let restore = |rig: &Rig, options: QueueOptions| {
        let (meta, head) = (rig.store.entries(Space::Meta), rig.store.entries(Space::Head));
        let mut restored = super::super::Partition::restore(super::rig::QUEUE, options, meta, head).unwrap();
        assert_eq!(restored.counts().active, 1, "the message stays");
        restored.take_unread().into_iter().map(|unread| unread.number).collect::<Vec<_>>()
    };
    for length in 0..good.len() {
        rig.store.0.insert((Space::Head, number), good.slice(..length));
        assert_eq!(restore(&rig, detecting()), [number]);
    }
    rig.store.0.insert((Space::Head, number), good.clone());
    assert_eq!(restore(&rig, detecting()), [0; 0]);
    assert_eq!(restore(&rig, options()), [number], "duplicate detection is off");
}

/// The stored form must not change by accident.
#[test]
fn the_stored_form_is_pinned() {
    let mut rig = Rig::new(detecting());
    rig.now = Timestamp(300);
    rig.send(with_id(""));
    let stored = &rig.store.0[&(Space::Head, HeadSubject::RememberedId(SequenceNumber(1)).number())];
    assert_eq!(
        stored.as_ref(),
        b"\x10\x15\x08\xac\x02\x11\x50\x49\xd7\x47\x80\xa3\xe0\x7d\x19\x42\x02\xab\x47\xd4\xce\xf2\xf4"
    );
}
