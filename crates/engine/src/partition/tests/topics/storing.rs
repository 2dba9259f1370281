use bytes::Bytes;
use peeklock_storage::{Key, PartitionId, Space};

use super::super::rig::message;
use super::rig::{Rig, TOPIC, does_match, label, labelled};
use crate::{Filter, NewMessage, QueueId, TopicOptions};

/// The error in the topic's data, or in one of its messages.
fn error(rig: &Rig) -> String {
    match rig.store.restore(TopicOptions::default()) {
        Ok(mut restored) => match &restored.take_unread()[..] {
            [one] => format!("record {}: Head: {}", one.number, one.reason),
            unread => panic!("restored from nonsense: {unread:?}"),
        },
        Err(error) => error.to_string(),
    }
}

fn key(queue: QueueId, space: Space, number: u64) -> Key {
    Key::new(space, PartitionId(queue.0), number)
}

#[test]
fn head_format_version_2_stays_readable() {
    // Main, scheduled, enqueued at 300, no time to live, 6 bytes, no deliveries, due at 301, session "s"; a short header,
    // label "l" and one property "p" = 5.
    let value = [
        &[2, 0, 2, 0xac, 2, 0, 6, 0, 1, 0, 0, 1, 0xad, 2, 1, 1, b's', 0][..],
        &[0, 1, 0, 0, 0, 0, 1, 1, b'l', 0, 0, 0, 1, 1, b'p', 2, 10],
    ]
    .concat();
    let mut rig = Rig::plain();
    rig.store.0.insert(key(TOPIC, Space::Meta, 16), Bytes::from_static(&[1, 9]));
    rig.store.0.insert(key(TOPIC, Space::Head, 8), Bytes::copy_from_slice(&value));
    rig.restart();
    let record = rig.partition.state.record(TOPIC, crate::SubQueue::Main, crate::SequenceNumber(8)).unwrap();
    let extra = record.extra().unwrap();
    assert_eq!(extra.session_id.as_deref(), Some("s"));
    assert_eq!(extra.scheduled_enqueue_time, Some(crate::Timestamp(301)));
    let rule_properties = extra.rule_properties.as_ref().unwrap();
    assert!(does_match(&label("l"), rule_properties));
    assert_eq!(rule_properties.user, [("p".into(), crate::PropertyValue::Integer(5))]);
    for end in 1..value.len() {
        rig.store.0.insert(key(TOPIC, Space::Head, 8), Bytes::copy_from_slice(&value[..end]));
        assert!(error(&rig).contains("record 8: Head"), "cut at {end}");
    }
}

#[test]
fn the_properties_of_a_scheduled_message_for_rules_are_stored_if_it_has_any() {
    let mut rig = Rig::plain();
    let later = Some(rig.now.plus_ms(9));
    rig.send(NewMessage { scheduled_enqueue_time: later, ..message("x") });
    rig.send(NewMessage { scheduled_enqueue_time: later, ..labelled("x", "x") });
    rig.restart();
    let record = |number| {
        let number = crate::SequenceNumber(number);
        rig.partition.state.record(TOPIC, crate::SubQueue::Main, number).unwrap()
    };
    let seen = |number| record(number).extra().unwrap().rule_properties.clone();
    assert_eq!((seen(1).is_some(), seen(2).is_some()), (false, true));
}

#[test]
fn arbitrary_facts_never_panic() {
    use rand::{RngExt, SeedableRng};
    let mut random = rand::rngs::StdRng::seed_from_u64(3);
    let mut rig = Rig::plain();
    rig.store.0.insert(key(TOPIC, Space::Meta, 16), Bytes::from_static(&[1, 100]));
    for _ in 0..20_000 {
        let mut value: Vec<u8> =
            (0..random.random_range(0..60)).map(|_| random.random_range(0..12)).collect();
        value.insert(0, 2);
        rig.store.0.insert(key(TOPIC, Space::Head, 3), Bytes::from(value));
        let _ = rig.store.restore(TopicOptions::default());
    }
}

#[test]
fn contradictory_records_are_named_with_their_place() {
    let mut rig = Rig::plain();
    let queue = rig.subscribe_to("a", Filter::True);
    rig.send(message("x"));
    let good = rig.store.0.clone();
    let head = good[&key(queue, Space::Head, 1)].clone();
    let record = good[&key(TOPIC, Space::Meta, 1 << 63 | queue.0)].clone();
    let scheduled = Bytes::from_static(&[1, 0, 2, 9, 0, 6, 0, 1, 0, 0, 1, 9, 0, 0]);
    let plain = Bytes::from_static(&[1, 0, 0, 9, 0, 6, 0, 0]);
    for (what, put, value) in [
        ("only scheduled messages", key(TOPIC, Space::Head, 1), head),
        ("scheduled messages rest on the topic", key(queue, Space::Head, 1), scheduled),
        ("does not say where its content is", key(queue, Space::Head, 1), plain),
        ("the number is unknown", key(TOPIC, Space::Meta, 18), record.clone()),
        ("the number is unknown", key(TOPIC, Space::Meta, 1 << 63), record.clone()),
        ("the number is unknown", key(queue, Space::Meta, 1 << 63 | 9), record.clone()),
        ("version 7", key(TOPIC, Space::Meta, 1 << 63 | queue.0), Bytes::from_static(&[7])),
        ("content 1 was never given out", key(TOPIC, Space::Meta, 16), Bytes::from_static(&[1, 1])),
    ] {
        rig.store.0 = good.clone();
        rig.store.0.insert(put, value);
        let error = error(&rig);
        assert!(error.contains(what), "{what}: {error}");
    }
    let queue_options = crate::QueueOptions::default();
    let meta = vec![peeklock_storage::Entry { number: 1 << 63 | queue.0, value: record }];
    let restored = crate::partition::Partition::restore(TOPIC, queue_options, meta, Vec::new());
    assert!(restored.is_err(), "a queue has no subscriptions");
}
