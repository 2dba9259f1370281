//! Replay in threads concurrently with the reading of hints.

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::local::format::{Kind, RecordHeader, Shadows};
use crate::local::hint::{Hint, HintBuilder, Subject, choose_needed};
use crate::local::replay::{AHEAD_BYTES_MAX, Replay};
use crate::local::segments::{Ranks, SegmentFile};
use crate::local::state::{Placed, State};
use crate::local::{Event, check_on};

const SEGMENTS: u32 = 4;
const NUMBERS: u64 = 40;
const EIO: i32 = 5;

fn segments() -> State {
    let mut state = State::default();
    let disk = SimulatedDisk::new().mount();
    for id in 1..=SEGMENTS {
        let path = std::path::PathBuf::from(format!("{id}"));
        let file = disk.create(&path).unwrap();
        let file = Arc::new(SegmentFile { id, salt: 0, capacity: 1 << 20, path, file });
        state.segments.add(file, Ranks::one(id), Some(1 << 20));
    }
    state
}

fn subject(id: u32) -> Subject {
    Subject { id, salt: 0, end: 1 << 20 }
}

fn shadows() -> impl Strategy<Value = Shadows> {
    prop_oneof![
        3 => Just(Shadows::Nothing),
        1 => (1..=SEGMENTS).prop_map(Shadows::Exact),
        1 => (1..=SEGMENTS).prop_map(Shadows::Since),
    ]
}

/// Any record of a few keys; the end of a range is in `last_number`.
fn record() -> impl Strategy<Value = Placed> {
    let kind = prop_oneof![5 => Just(Kind::Put), 3 => Just(Kind::Delete), 1 => Just(Kind::DeleteRange)];
    let space = prop::sample::select(Space::ALL.to_vec());
    let key = (space, 1..=2_u64, 0..NUMBERS)
        .prop_map(|(space, partition, number)| Key::new(space, PartitionId(partition), number));
    (kind, key, 0..50_u32, 0..10_u64, shadows()).prop_map(|(kind, key, len, reach, shadows)| {
        let (value_len, last_number) = match kind {
            Kind::Put => (len, 0),
            Kind::Delete => (0, 0),
            Kind::DeleteRange => (8, key.number + reach),
        };
        Placed { header: RecordHeader { kind, key, value_len, shadows }, offset: 0, last_number }
    })
}

fn hint(id: u32, records: &[Placed]) -> Hint {
    let mut builder = HintBuilder::new(subject(id));
    for placed in records {
        let header = placed.header;
        let value = match header.kind {
            Kind::DeleteRange => placed.last_number.to_le_bytes().to_vec(),
            _ => vec![7; header.value_len as usize],
        };
        builder.push(placed, &value);
        if header.kind == Kind::Put {
            builder.note_put(header);
        }
    }
    Hint::decode(builder.finish().into(), subject(id)).unwrap()
}

/// All contents of a state as text.
fn told(state: &State) -> Vec<String> {
    let mut told = vec![format!("{} keys", state.index.len())];
    for space in Space::ALL {
        for partition in [1, 2].map(PartitionId) {
            told.push(format!("{space:?} {partition:?} to {}", state.index.numbers_end(space, partition)));
            for (number, location) in state.index.range(space, partition, 0) {
                let since = state.index.shadowed_since(Key::new(space, partition, number), location);
                told.push(format!("{number} {location:?} {since:?}"));
            }
        }
    }
    for segment in state.segments.in_order() {
        told.push(format!("{}: {} {:?}", segment.file.id, segment.live_bytes, segment.removals));
    }
    told
}

proptest! {
    /// Threads that share the records yield the same state as a single thread that replays all of them in order.
    #[test]
    fn threads_have_the_same_result_as_one(segments_records in vec(vec(record(), 0..120), SEGMENTS as usize)) {
        let (mut expected, mut found) = (segments(), segments());
        std::thread::scope(|scope| {
            let mut replay = Replay::start(scope, &found.segments).unwrap();
            for (id, mut records) in (1..).zip(segments_records) {
                for (at, placed) in (1..).zip(&mut records) {
                    placed.offset = 64 * at;
                    expected.apply(id, placed);
                }
                let hint = hint(id, &records);
                hint.numbers(|space, partition, number| expected.index.note_number(space, partition, number));
                drop(replay.add(id, hint));
            }
            replay.finish(&mut found);
        });
        prop_assert_eq!(told(&found), told(&expected));
    }
}

proptest! {
    /// A frame's records are applied together, with consecutive removals counted together.
    #[test]
    fn a_frame_amounts_to_its_records(frames in vec((1..=SEGMENTS, vec(record(), 0..60)), 1..12)) {
        let (mut expected, mut found) = (segments(), segments());
        for (number, (id, mut records)) in (0..).zip(frames) {
            for (at, placed) in (1..).zip(&mut records) {
                placed.offset = 64 * (100 * number + at);
            }
            let has_emptied = records.iter().fold(false, |emptied, placed| expected.apply(id, placed) | emptied);
            prop_assert_eq!(found.apply_all(id, &records), has_emptied);
        }
        prop_assert_eq!(told(&found), told(&expected));
    }
}

/// Counting the values of a partition with a hundred million messages would stop the log for seconds.
#[test]
fn a_large_partition_is_removed_at_once_and_counted_later() {
    const KEYS: u64 = 40_000;
    let (mut expected, mut found) = (segments(), segments());
    let put = |number: u64, partition, shadows| {
        let key = Key::new(Space::Head, PartitionId(partition), number);
        let header = RecordHeader { kind: Kind::Put, key, value_len: 10, shadows };
        Placed { header, offset: u32::try_from(64 * number).unwrap(), last_number: 0 }
    };
    let first: Vec<Placed> = (1..=KEYS).map(|number| put(number, 1, Shadows::Nothing)).collect();
    let second: Vec<Placed> = (5..15).map(|number| put(number, 1, Shadows::Since(1))).collect();
    let key = Key::new(Space::Head, PartitionId(1), 0);
    let header = RecordHeader { kind: Kind::DeleteRange, key, value_len: 8, shadows: Shadows::Since(1) };
    let all = Placed { header, offset: 0, last_number: u64::MAX };
    let again = put(7, 1, Shadows::Since(1));
    for (id, records) in [(1, &first), (2, &second), (2, &vec![put(1, 2, Shadows::Nothing)])] {
        for placed in records {
            expected.apply(id, placed);
        }
        found.apply_all(id, records);
    }
    let live_bytes = |state: &State, id| state.segments.get(id).unwrap().live_bytes;
    let before = (live_bytes(&found, 1), live_bytes(&found, 2));
    for placed in [all, again] {
        expected.apply(3, &placed);
        assert_eq!(
            found.apply_all(3, &[placed]),
            placed.header.kind == Kind::DeleteRange,
            "wakes the keeper"
        );
    }
    assert_eq!((live_bytes(&found, 1), live_bytes(&found, 2)), before, "nothing was visited");
    assert!(!found.counts_are_exact());
    assert_eq!(
        found.index.range(Space::Head, PartitionId(1), 0).map(|(number, _)| number).collect::<Vec<_>>(),
        [7]
    );
    let mut needed = Vec::new();
    choose_needed(&found, 1, Some(before.0), first.iter(), &mut needed);
    assert!(needed.iter().all(|is_needed| !is_needed), "a hint lists no removed value");
    let mut rounds = 0;
    while let Some(mut departed) = found.next_departed() {
        assert!(!found.counts_are_exact());
        let counted = departed.count_some(50);
        assert_eq!(found.counted(&counted, departed), !found.counts_are_exact());
        rounds += 1;
    }
    assert_eq!(rounds, KEYS.div_ceil(256 * 50));
    assert_eq!(told(&found), told(&expected));
}

#[test]
fn reading_waits_while_much_is_not_replayed_and_goes_on_in_the_same_memory() {
    let is_done = AtomicBool::new(false);
    let large = u32::try_from(AHEAD_BYTES_MAX).unwrap() + 1;
    let header = RecordHeader { kind: Kind::Put, key: head(1), value_len: large, shadows: Shadows::Nothing };
    let hint = hint(1, &[Placed { header, offset: 64, last_number: 0 }]);
    let memory = hint.bytes.as_ptr();
    let mut state = segments();
    std::thread::scope(|scope| {
        let mut replay = Replay::start(scope, &state.segments).unwrap();
        let in_use = replay.add(1, hint);
        scope.spawn(|| {
            is_done.store(true, Ordering::SeqCst);
            drop(in_use);
        });
        let buffer = replay.buffer();
        assert!(is_done.load(Ordering::SeqCst), "the memory of a hint in use is given to the next");
        assert_eq!(buffer.as_ptr(), memory, "memory used before is used again");
        replay.finish(&mut state);
    });
    assert_eq!(state.index.len(), 1);
}

#[tokio::test]
async fn a_failing_call_of_an_opening_has_the_same_result_however_threads_run() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=200 {
        shard.submit(send(number)).await.unwrap();
    }
    store.close();
    let hints = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "hint"));
    for (at, path) in hints.enumerate() {
        match at % 3 {
            0 => disk.rot(&path, 40),
            1 => disk.remove_file(&path),
            _ => {}
        }
    }
    let look = |fail_at: Option<u64>| {
        let before = disk.calls();
        if let Some(call) = fail_at {
            disk.plan(None, "", call, Event::Fail(EIO));
        }
        let report = check_on(disk.mount(), DIRECTORY);
        (disk.calls() - before, format!("{report:?}"))
    };
    let (calls, sound) = look(None);
    assert!(sound.contains("refusal: None"), "{sound}");
    for call in 0..calls {
        let first = look(Some(call));
        assert_eq!(look(Some(call)), first, "call {call} of {calls} fails");
    }
}
