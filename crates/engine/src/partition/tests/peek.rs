use super::rig::{Rig, abandon, dead_letter, defer, message, options, path, with_ttl};
use crate::{Command, MessageState, NewMessage, Reply, SequenceNumber, SubQueue};

fn peek(rig: &mut Rig, from: u64, count_max: u32, bytes_max: usize) -> Vec<u64> {
    let (from, sub_queue) = (SequenceNumber(from), SubQueue::Main);
    match rig.ask(Command::Peek { from, count_max, bytes_max, source: path(sub_queue), session: None }) {
        Reply::Received(Ok(shown)) => {
            assert!(shown.iter().all(|(_, lock)| lock.is_none()));
            shown.iter().map(|(view, _)| view.sequence_number.0).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn s39_shows_active_locked_deferred_scheduled_and_overdue_but_not_dead_lettered() {
    let mut rig = Rig::new(options());
    rig.try_send((0..3).map(|_| message("x")).collect()).unwrap();
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, defer()).unwrap();
    rig.take_one().unwrap();
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, dead_letter("bad")).unwrap();
    rig.send(NewMessage { scheduled_enqueue_time: Some(rig.now.plus_ms(1_000_000)), ..message("s") });
    rig.send(with_ttl("overdue", 0));
    let shown = rig.peek(SubQueue::Main);
    let states: Vec<_> = shown.iter().map(|view| (view.sequence_number.0, view.state)).collect();
    use MessageState::{Active, Deferred, Scheduled};
    assert_eq!(states, [(1, Deferred), (2, Active), (4, Scheduled), (5, Active)]);
    let dead: Vec<_> = rig.peek(SubQueue::DeadLetter).iter().map(|view| view.sequence_number.0).collect();
    assert_eq!(dead, [3]);
}

#[test]
fn starts_anywhere_and_stops_at_the_count() {
    let mut rig = Rig::new(options());
    rig.try_send((0..200).map(|_| message("x")).collect()).unwrap();
    assert_eq!(peek(&mut rig, 0, 2, 1000), [1, 2]);
    assert_eq!(peek(&mut rig, 63, 4, 1000), [63, 64, 65, 66]);
    assert_eq!(peek(&mut rig, 199, 9, 1000), [199, 200]);
    assert_eq!(peek(&mut rig, 201, 9, 1000), []);
    assert_eq!(peek(&mut rig, u64::MAX, 9, 1000), []);
    assert_eq!(peek(&mut rig, 1, 0, 1000), []);
    assert_eq!(peek(&mut rig, 1, u32::MAX, usize::MAX).len(), 200);
}

#[test]
fn stops_at_the_bytes_but_shows_the_first_whatever_its_size() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("aaa"), message("bbb"), message("c")]).unwrap();
    assert_eq!(peek(&mut rig, 1, 9, 0), [1]);
    assert_eq!(peek(&mut rig, 1, 9, 5), [1]);
    assert_eq!(peek(&mut rig, 1, 9, 6), [1, 2]);
    assert_eq!(peek(&mut rig, 1, 9, 7), [1, 2, 3]);
}

#[test]
fn changes_nothing() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    rig.peek(SubQueue::Main);
    assert_eq!(rig.events, vec![]);
    let (view, token) = rig.take_one().unwrap();
    assert_eq!(view.delivery_count, 0);
    rig.settle(token, abandon()).unwrap();
}
