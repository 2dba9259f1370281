//! Compares the chunked set of messages with an ordered map, over several chunks, with gaps opening and closing.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::partition::messages::Messages;
use crate::partition::record::Record;
use crate::{MessageState, SequenceNumber, SubQueue, Timestamp};

#[derive(Debug, Clone)]
enum Change {
    /// Stores messages from a number on: time to live, whether deferred.
    Put(u64, u64, Option<u64>, bool),
    Remove(u64, u64),
    Lock(u64, u64, bool),
}

const NUMBERS: u64 = 64 * 5;

fn change() -> impl Strategy<Value = Change> {
    let run = || (0..NUMBERS, prop_oneof![3 => 1..4u64, 1 => 1..150u64]);
    let ttl = prop_oneof![1 => Just(None), 2 => (0..50u64).prop_map(Some)];
    prop_oneof![
        (run(), ttl, prop::bool::weighted(0.2))
            .prop_map(|((from, count), ttl, aside)| Change::Put(from, count, ttl, aside)),
        run().prop_map(|(from, count)| Change::Remove(from, count)),
        (run(), any::<bool>()).prop_map(|((from, count), locked)| Change::Lock(from, count, locked)),
    ]
}

fn record(number: u64, time_to_live_ms: Option<u64>, aside: bool) -> Record {
    let mut record = Record::new(Timestamp(number), time_to_live_ms, 1);
    if aside {
        record.set_place(SubQueue::Main, MessageState::Deferred);
    }
    record
}

fn carry_out(change: &Change, messages: &mut Messages, oracle: &mut BTreeMap<u64, (Record, bool)>) {
    let numbers = |from: u64, count: u64| (from..(from + count).min(NUMBERS)).map(|n| (n, SequenceNumber(n)));
    match *change {
        Change::Put(from, count, ttl, aside) => {
            for (number, key) in numbers(from, count) {
                let locked = oracle.get(&number).is_some_and(|(_, locked)| *locked);
                messages.put(key, record(number, ttl, aside));
                oracle.insert(number, (record(number, ttl, aside), locked));
            }
        }
        Change::Remove(from, count) => {
            for (number, key) in numbers(from, count) {
                assert_eq!(messages.remove(key), oracle.remove(&number).map(|(record, _)| record));
            }
        }
        Change::Lock(from, count, locked) => {
            for (number, key) in numbers(from, count) {
                messages.set_locked(key, locked);
                if let Some(entry) = oracle.get_mut(&number) {
                    entry.1 = locked;
                }
            }
        }
    }
}

fn check(messages: &Messages, oracle: &BTreeMap<u64, (Record, bool)>) {
    assert_eq!(messages.len(), oracle.len() as u64);
    for from in [0, 1, 63, 64, 200] {
        let listed: Vec<_> = messages.range(SequenceNumber(from)).map(|(key, one)| (key.0, one)).collect();
        let expected: Vec<_> = oracle.range(from..).map(|(number, (record, _))| (*number, record)).collect();
        assert_eq!(listed, expected);
    }
    for number in 0..NUMBERS {
        let expected = oracle.get(&number);
        assert_eq!(messages.get(SequenceNumber(number)), expected.map(|(record, _)| record));
        assert_eq!(messages.is_locked(SequenceNumber(number)), expected.is_some_and(|(_, locked)| *locked));
    }
    let available =
        || oracle.iter().filter(|(_, (record, locked))| !locked && record.state() == MessageState::Active);
    let first = messages.first_available().map(|(key, record)| (key.0, record));
    assert_eq!(first, available().next().map(|(number, (record, _))| (*number, record)));
    assert_eq!(messages.has_available(), first.is_some());
    let soonest = available().map(|(_, (record, _))| record.expiry()).min();
    assert_eq!(messages.soonest_expiry(), soonest.filter(|at| *at != Timestamp::NEVER));
    for now in [0, 100, 350] {
        let overdue = messages.first_overdue(Timestamp(now));
        assert_eq!(overdue.is_some(), soonest.is_some_and(|at| at.0 <= now));
        assert!(overdue.is_none_or(|(_, record)| record.expiry().0 <= now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_chunked_set_is_an_ordered_map(changes in prop::collection::vec(change(), 1..40)) {
        let (mut messages, mut oracle) = (Messages::default(), BTreeMap::new());
        for change in &changes {
            carry_out(change, &mut messages, &mut oracle);
            check(&messages, &oracle);
        }
    }
}
