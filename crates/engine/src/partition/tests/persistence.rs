use bytes::Bytes;
use peeklock_storage::{Batch, Entry, Space};

use super::rig::{ID, QUEUE, Rig, abandon, dead_letter, message, options};
use crate::partition::{Outputs, Partition, RestoreError, persist};
use crate::{BodyRef, Command, Event, NewMessage, Settlement};

fn restore(rig: &Rig) -> Result<Partition, RestoreError> {
    Partition::restore(QUEUE, options(), rig.store.entries(Space::Meta), rig.store.entries(Space::Head))
}

#[test]
fn an_empty_store_is_an_empty_queue() {
    let rig = Rig::new(options());
    assert_eq!(restore(&rig).unwrap().counts(), super::super::Counts::default());
}

#[test]
fn a_plain_message_takes_few_bytes_in_the_head_space() {
    let mut rig = Rig::new(options());
    rig.now = crate::Timestamp(1_800_000_000_000);
    rig.send(NewMessage { content: Bytes::from(vec![0; 100_000]), ..NewMessage::default() });
    let heads = rig.store.entries(Space::Head);
    assert!(heads[0].value.len() <= 16, "{} bytes", heads[0].value.len());
}

#[test]
fn head_format_version_1_stays_readable() {
    // Sub-queue dead-letter, deferred, enqueued at 300, time to live 5, 6 bytes, 7 deliveries, reason "r".
    let value = [1, 1, 1, 0xac, 2, 1, 5, 6, 7, 1, 0, 1, 1, 1, b'r', 0, 0, 0, 0];
    let meta = vec![Entry { number: 16, value: Bytes::from_static(&[1, 9]) }];
    let head = vec![Entry { number: 8, value: Bytes::copy_from_slice(&value) }];
    let partition = Partition::restore(QUEUE, options(), meta, head).unwrap();
    let messages = partition.state.entity.messages.get(crate::SubQueue::DeadLetter);
    let (number, record) = messages.range(crate::SequenceNumber(0)).next().unwrap();
    let view = record.view(QUEUE, number);
    assert_eq!((view.sequence_number.0, view.state), (8, crate::MessageState::Deferred));
    assert_eq!((view.enqueued_at.0, view.time_to_live_ms, view.delivery_count), (300, Some(5), 7));
    assert_eq!(view.dead_letter.unwrap().reason.as_deref(), Some("r"));
    assert_eq!(partition.counts().size_bytes, 6);
}

#[test]
fn damaged_records_are_refused_with_their_number() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    let good = rig.store.0[&(Space::Head, 1)].clone();
    let mut damaged = vec![Vec::new(), [&good[..], &[0]].concat(), [&[2], &good[1..]].concat()];
    damaged.extend((0..good.len()).map(|length| good[..length].to_vec()));
    for value in damaged {
        rig.store.0.insert((Space::Head, 1), Bytes::from(value.clone()));
        let mut restored = restore(&rig).unwrap();
        let unread = restored.take_unread();
        assert_eq!(unread.len(), 1, "{value:?}");
        assert_eq!((unread[0].queue, unread[0].number), (QUEUE, 1));
        let counts = restored.counts();
        assert_eq!((counts.active, counts.quarantined), (0, 1), "{value:?}");
    }
    rig.store.0.insert((Space::Head, 1), good.clone());
    assert!(restore(&rig).is_ok());
    rig.store.0.insert((Space::Head, 2), good);
    let restored = restore(&rig).unwrap();
    assert_eq!(restored.counts().active, 2);
    assert_eq!(restored.state.entity.next_number, crate::SequenceNumber(3), "the number in use was assigned");
}

#[test]
fn damaged_counters_are_refused_and_the_namespace_s_values_are_left_alone() {
    let mut rig = Rig::new(options());
    rig.send(message("a"));
    rig.store.0.insert((Space::Meta, 15), Bytes::from_static(b"not ours"));
    assert!(restore(&rig).is_ok());
    rig.store.0.insert((Space::Meta, 18), Bytes::from_static(b"unknown"));
    assert_eq!(restore(&rig).unwrap_err().number, 18);
    rig.store.0.remove(&(Space::Meta, 18));
    rig.store.0.insert((Space::Meta, 16), Bytes::from_static(b"\x01"));
    assert_eq!(restore(&rig).unwrap_err().number, 16);
    rig.store.0.remove(&(Space::Meta, 16));
    assert_eq!(restore(&rig).unwrap().counts().active, 1, "a message without counters");
}

#[test]
fn arbitrary_bytes_never_panic() {
    use rand::{RngExt, SeedableRng};
    let mut random = rand::rngs::StdRng::seed_from_u64(3);
    for _ in 0..20_000 {
        let mut value: Vec<u8> =
            (0..random.random_range(0..40)).map(|_| random.random_range(0..12)).collect();
        value.insert(0, 1);
        let meta = vec![Entry { number: 16, value: Bytes::from_static(&[1, 100]) }];
        let head = vec![Entry { number: 3, value: Bytes::from(value) }];
        let _ = Partition::restore(QUEUE, options(), meta, head);
    }
}

#[test]
fn a_turn_writes_only_the_last_fact_about_each_message() {
    let mut rig = Rig::new(options());
    rig.try_send(vec![message("a"), message("b")]).unwrap();
    let (_, first) = rig.take_one().unwrap();
    let (_, second) = rig.take_one().unwrap();
    let mut outputs = Outputs::default();
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(1);
    let mut act = |command| rig.partition.handle(rig.now, &mut random, None, command, &mut outputs);
    let settle =
        |token, settlement| Command::Settle { queue: QUEUE, tokens: smallvec::smallvec![token], settlement };
    act(Command::Send { messages: smallvec::smallvec![message("c")] });
    act(settle(first, dead_letter("bad")));
    act(settle(second, Settlement::Complete));
    act(settle(first, abandon()));
    let mut batch = Batch::new();
    persist(ID, &outputs.events, &mut batch);
    let spaces: Vec<_> = batch
        .operations()
        .iter()
        .map(|operation| match operation {
            peeklock_storage::Operation::Put { key, .. } => ('+', key.space, key.number),
            peeklock_storage::Operation::Delete { key } => ('-', key.space, key.number),
            peeklock_storage::Operation::DeleteRange { .. } => panic!(),
        })
        .collect();
    let mut sorted = spaces;
    sorted.sort_by_key(|(_, space, number)| (*space, *number));
    let expected = [
        ('+', Space::Meta, 16),
        ('+', Space::Head, 1),
        ('-', Space::Head, 2),
        ('+', Space::Head, 3),
        ('-', Space::Body, 2),
        ('+', Space::Body, 3),
    ];
    assert_eq!(sorted, expected);
}

#[test]
fn events_tell_which_contents_came_and_went() {
    let mut rig = Rig::new(options());
    let messages = smallvec::smallvec![message("a")];
    rig.handle(None, Command::Send { messages });
    let stored: Vec<_> = rig.events.iter().filter_map(Event::stored_body).collect();
    assert_eq!(stored, [(BodyRef(1), &Bytes::from_static(b"a"))]);
    let (_, token) = rig.take_one().unwrap();
    rig.settle(token, Settlement::Complete).unwrap();
    let removed: Vec<_> = rig.events.iter().flat_map(Event::removed_bodies).collect();
    assert_eq!(removed, [&BodyRef(1)]);
}
