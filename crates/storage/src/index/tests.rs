use std::collections::BTreeMap;

use proptest::prelude::*;

use super::chunk::Chunk;
use super::*;

const QUEUE: PartitionId = PartitionId(3);

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    Remove(u64),
    RemoveRange(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..900u64).prop_map(Step::Insert),
        3 => (0..900u64).prop_map(Step::Remove),
        1 => (0..900u64, 0..400u64).prop_map(|(first, len)| Step::RemoveRange(first, first + len)),
    ]
}

proptest! {
    #[test]
    fn the_index_agrees_with_an_ordered_map(steps in prop::collection::vec(step(), 1..600), from in 0..900u64) {
        let mut index = Index::default();
        let mut model = BTreeMap::new();
        for (at, step) in (0u32..).zip(steps) {
            match step {
                Step::Insert(number) => {
                    let location = Location::new(1, at, 10);
                    let before = index.insert(Key::new(Space::Head, QUEUE, number), location, None);
                    prop_assert_eq!(before, model.insert(number, location));
                }
                Step::Remove(number) => {
                    prop_assert_eq!(index.remove(Key::new(Space::Head, QUEUE, number)), model.remove(&number));
                }
                Step::RemoveRange(first, last) => {
                    let mut forgotten = Vec::new();
                    index.remove_range(Space::Head, QUEUE, first..=last, |location| forgotten.push(location));
                    let doomed: Vec<u64> = model.range(first..=last).map(|(number, _)| *number).collect();
                    let expected: Vec<_> = doomed.iter().filter_map(|number| model.remove(number)).collect();
                    prop_assert_eq!(forgotten, expected);
                }
            }
            prop_assert_eq!(index.len(), model.len() as u64);
        }
        let found: Vec<_> = index.range(Space::Head, QUEUE, from).collect();
        let expected: Vec<_> = model.range(from..).map(|(number, location)| (*number, *location)).collect();
        prop_assert_eq!(found, expected);
        for number in 0..1300 {
            let found = index.get(Key::new(Space::Head, QUEUE, number));
            prop_assert_eq!(found, model.get(&number).copied());
        }
    }
}

#[test]
fn a_dense_run_costs_about_twelve_bytes_a_key() {
    assert_eq!(size_of::<Location>(), 12);
    assert!(size_of::<Chunk>() <= 32);
    let mut index = Index::default();
    for number in 0..10_000 {
        index.insert(Key::new(Space::Body, QUEUE, number), Location::new(1, 0, 0), None);
    }
    let tree = index.trees.get(Space::Body, QUEUE).unwrap();
    let full = tree.chunks.values().filter(|chunk| matches!(chunk, Chunk::Dense { .. })).count();
    assert_eq!((tree.chunks.len(), full), (40, 39), "all but the last, part-filled chunk are arrays");
}

#[test]
fn the_highest_numbers_are_handled() {
    let mut index = Index::default();
    let key = Key::new(Space::Head, QUEUE, u64::MAX);
    index.insert(key, Location::new(1, 2, 3), None);
    assert_eq!(index.range(Space::Head, QUEUE, u64::MAX).count(), 1);
    let mut forgotten = 0;
    index.remove_range(Space::Head, QUEUE, 0..=u64::MAX, |_| forgotten += 1);
    assert_eq!((forgotten, index.len()), (1, 0));
}

#[test]
fn a_shadowed_key_remembers_since_when_until_it_is_rewritten_or_removed() {
    let mut index = Index::default();
    let key = Key::new(Space::Meta, QUEUE, 1);
    index.insert(key, Location::new(2, 0, 1), Some(1));
    let location = index.get(key).unwrap();
    assert_eq!(index.shadowed_since(key, location), Some(1));
    assert_eq!(location.value_len(), 1);
    assert!(index.relocate(key, location, Location::new(9, 64, 1)));
    assert_eq!(index.shadowed_since(key, index.get(key).unwrap()), Some(1));
    assert!(!index.relocate(key, location, Location::new(10, 64, 1)), "it moved already");
    index.insert(key, Location::new(3, 0, 1), None);
    assert_eq!(index.shadowed_since(key, index.get(key).unwrap()), None);
    index.insert(key, Location::new(4, 0, 1), Some(2));
    index.remove(key);
    assert!(index.shadowed.is_empty());
}

#[test]
fn a_number_beyond_all_others_is_new_once() {
    let mut index = Index::default();
    let key = |number| Key::new(Space::Head, QUEUE, number);
    assert_eq!(index.note_if_new(key(7)), Some(0));
    assert_eq!(index.note_if_new(key(7)), None);
    assert_eq!(index.note_if_new(key(3)), None);
    assert_eq!(index.note_if_new(key(9)), Some(8));
    assert_eq!(index.numbers_end(Space::Head, QUEUE), 10);
    assert_eq!(index.note_if_new(Key::new(Space::Body, QUEUE, 0)), Some(0), "each space has its own");
    assert_eq!(index.note_if_new(key(u64::MAX)), None, "nothing can lie beyond the last number");
}

#[test]
fn partitions_that_were_removed_as_a_whole_take_no_memory() {
    const REMOVED: u64 = 10_000;
    const KEPT: [u64; 2] = [100, 7_000];
    let mut index = Index::default();
    let remove =
        |index: &mut Index, id| index.remove_range(Space::Head, PartitionId(id), 0..=u64::MAX, |_| {});
    for id in 1..=REMOVED {
        let key = Key::new(Space::Head, PartitionId(id), id % 300);
        assert_eq!(index.note_if_new(key), Some(0), "partition {id} is new");
        index.insert(key, Location::new(1, 0, 10), None);
        if !KEPT.contains(&id) {
            remove(&mut index, id);
        }
    }
    assert_eq!((index.trees.len(), index.removed.ranges()), (2, 3));
    KEPT.into_iter().rev().for_each(|id| remove(&mut index, id));
    assert_eq!((index.trees.len(), index.removed.ranges(), index.len()), (0, 1, 0));
    // Not used by the broker: any key may have an older version.
    let key = Key::new(Space::Head, PartitionId(5), 1_000);
    assert_eq!((index.note_if_new(key), index.numbers_end(Space::Head, PartitionId(5))), (None, u64::MAX));
    assert_eq!(index.numbers_end(Space::Body, PartitionId(5)), 0, "the other space was not removed");
    assert_eq!(index.numbers_end(Space::Head, PartitionId(REMOVED + 1)), 0);
}

/// A change of the keys of a few partitions.
#[derive(Debug, Clone)]
enum Change {
    Insert(Key),
    Remove(Key),
    /// All keys of the space and partition of this key.
    RemoveAll(Key),
}

fn change() -> impl Strategy<Value = Change> {
    let key = (prop::sample::select(Space::ALL.to_vec()), 1..6u64, 0..4u64);
    let key = key.prop_map(|(space, partition, number)| Key::new(space, PartitionId(partition), number));
    (0..8, key).prop_map(|(kind, key)| match kind {
        0..4 => Change::Insert(key),
        4..7 => Change::Remove(key),
        _ => Change::RemoveAll(key),
    })
}

proptest! {
    /// The partitions move in memory when one of them is forgotten.
    #[test]
    fn partitions_are_independent(changes in prop::collection::vec(change(), 1..200), is_split: bool) {
        // Halves with different spaces, which are merged at the end, as when the log is replayed.
        let mut halves = [Index::default(), Index::default()];
        let (mut model, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for (at, change) in (0..).zip(changes) {
            let (Change::Insert(key) | Change::Remove(key) | Change::RemoveAll(key)) = change;
            let index = &mut halves[usize::from(is_split && key.space == Space::Body)];
            match change {
                Change::Insert(_) => {
                    let location = Location::new(1, at, 10);
                    let end: &mut u64 = ends.entry((key.space, key.partition)).or_default();
                    *end = (*end).max(key.number + 1);
                    prop_assert_eq!(index.insert(key, location, None), model.insert(key, location));
                }
                Change::Remove(_) => prop_assert_eq!(index.remove(key), model.remove(&key)),
                Change::RemoveAll(_) => {
                    index.remove_range(key.space, key.partition, 0..=u64::MAX, |_| {});
                    model.retain(|other, _| (other.space, other.partition) != (key.space, key.partition));
                    ends.insert((key.space, key.partition), u64::MAX);
                }
            }
        }
        let [mut index, other] = halves;
        index.absorb(other);
        prop_assert_eq!(index.len(), model.len() as u64);
        for (space, partition) in (0..3 * 6u64).map(|at| (Space::ALL[at as usize % 3], PartitionId(at / 3))) {
            let end = ends.get(&(space, partition)).copied();
            prop_assert_eq!(index.numbers_end(space, partition), end.unwrap_or_default());
            for key in (0..4).map(|number| Key::new(space, partition, number)) {
                prop_assert_eq!(index.get(key), model.get(&key).copied());
            }
        }
        let found: std::collections::BTreeSet<_> = index.partitions().collect();
        prop_assert_eq!(found, model.keys().map(|key| (key.space, key.partition)).collect());
    }

    #[test]
    fn removed_partitions_agree_with_a_set(ids in prop::collection::vec((0..3usize, 0..40u64), 0..100)) {
        let mut removed = RemovedPartitions::default();
        let mut model = std::collections::BTreeSet::new();
        for (space, id) in ids {
            removed.insert(Space::ALL[space], PartitionId(id));
            model.insert((Space::ALL[space], PartitionId(id)));
        }
        for space in Space::ALL {
            for id in (0..42).map(PartitionId) {
                prop_assert_eq!(removed.contains(space, id), model.contains(&(space, id)));
            }
        }
        let is_first = |(space, PartitionId(id)): &&(Space, PartitionId)| {
            id.checked_sub(1).is_none_or(|before| !model.contains(&(*space, PartitionId(before))))
        };
        prop_assert_eq!(removed.ranges(), model.iter().filter(is_first).count());
    }
}
