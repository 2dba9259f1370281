//! Freeing dead segments without losing or reviving anything.

use super::*;

fn segments(store: &LocalStore) -> usize {
    store.current().shared().state().segments.in_order().count()
}

fn clean_all(store: &LocalStore) -> usize {
    (0..1000).take_while(|_| store.current().clean_now()).count()
}

#[tokio::test]
async fn a_steady_flow_has_a_steady_footprint() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = open(&disk);
    let mut largest = 0;
    for number in 1..=6000u64 {
        shard.submit(send(number)).await.unwrap();
        if number > 20 {
            shard.submit(complete(number - 20)).await.unwrap();
        }
        if number % 100 == 0 {
            eventually("dead segments are freed", || disk.size_bytes() < 200 << 10).await;
        }
        largest = largest.max(disk.size_bytes());
    }
    assert!(largest < 600 << 10, "{largest} bytes for 20 messages of 400 bytes");
}

#[tokio::test]
async fn long_lived_messages_are_gathered_and_seldom_copied() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    // One message in twenty is never removed.
    for number in 1..=4000u64 {
        shard.submit(send(number)).await.unwrap();
        if number % 20 != 0 {
            shard.submit(complete(number)).await.unwrap();
        }
    }
    let expected = contents(&*shard, &[QUEUE]).await.unwrap();
    assert_eq!(expected.len(), 400);
    let live_bytes = 200 * 400;
    eventually("cleaning catches up", || disk.size_bytes() < 5 * live_bytes).await;
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected);
    store.close();
    let (store, shard) = open(&disk);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected);
    assert!(segments(&store) < 60, "{} segments", segments(&store));
}

#[tokio::test]
async fn deleted_values_do_not_return_when_their_removal_is_freed_first() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    // Segment 1 is kept by message 1; message 2 in it is removed by a record in a later segment.
    shard.submit(send(1)).await.unwrap();
    shard.submit(send(2)).await.unwrap();
    for number in 3..=40 {
        shard.submit(send(number)).await.unwrap();
    }
    shard.submit(complete(2)).await.unwrap();
    for number in 41..=80 {
        shard.submit(send(number)).await.unwrap();
    }
    let mut batch = Batch::new();
    for space in [Space::Head, Space::Body] {
        batch.delete_range(space, QUEUE, 3..=u64::MAX);
    }
    shard.submit(batch).await.unwrap();
    for number in 100..=140 {
        shard.submit(send(number)).await.unwrap();
        shard.submit(complete(number)).await.unwrap();
    }
    eventually("dead segments are freed", || segments(&store) < 10).await;
    for how in ["kept apart", "cleaned"] {
        if how == "cleaned" {
            let (store, _shard) = open(&disk);
            clean_all(&store);
            store.close();
        } else {
            store.close();
        }
        let (store, shard) = open(&disk);
        let found: Vec<u64> =
            contents(&*shard, &[QUEUE]).await.unwrap().keys().map(|key| key.number).collect();
        assert_eq!(found, [1, 1], "{how}");
        store.close();
    }
}

#[tokio::test]
async fn an_overwritten_value_does_not_come_back_either() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let counter = Key::new(Space::Meta, QUEUE, 0);
    let mut next = 0;
    for round in 0..30u64 {
        let mut batch = Batch::new();
        batch.put(counter, value(round, 30));
        shard.submit(batch).await.unwrap();
        for _ in 0..10 {
            next += 1;
            shard.submit(send(next)).await.unwrap();
            if next % 7 != 0 {
                shard.submit(complete(next)).await.unwrap();
            }
        }
    }
    let mut batch = Batch::new();
    batch.delete(counter);
    shard.submit(batch).await.unwrap();
    for _ in 0..100 {
        next += 1;
        shard.submit(send(next)).await.unwrap();
        shard.submit(complete(next)).await.unwrap();
    }
    let expected = contents(&*shard, &[QUEUE]).await.unwrap();
    assert!(!expected.contains_key(&counter));
    clean_all(&store);
    store.close();
    for _ in 0..3 {
        let (store, shard) = open(&disk);
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected);
        clean_all(&store);
        store.close();
    }
}

#[tokio::test]
async fn a_removed_range_spares_values_put_again_when_it_is_moved() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=30 {
        shard.submit(send(number)).await.unwrap();
    }
    let mut batch = Batch::new();
    for space in [Space::Head, Space::Body] {
        batch.delete_range(space, QUEUE, 2..=30);
    }
    shard.submit(batch).await.unwrap();
    shard.submit(send(10)).await.unwrap();
    for number in 31..=60 {
        shard.submit(send(number)).await.unwrap();
        shard.submit(complete(number)).await.unwrap();
    }
    let expected = contents(&*shard, &[QUEUE]).await.unwrap();
    assert_eq!(expected.len(), 4, "messages 1 and 10");
    clean_all(&store);
    assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap(), expected);
    store.close();
    assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap(), expected);
}

#[tokio::test]
async fn a_crash_around_cleaning_loses_and_revives_nothing() {
    for seed in 0..30 {
        let disk = SimulatedDisk::new();
        let (store, shard) = open(&disk);
        for number in 1..=150u64 {
            shard.submit(send(number)).await.unwrap();
            if number % 5 != 0 {
                shard.submit(complete(number)).await.unwrap();
            }
        }
        let expected = contents(&*shard, &[QUEUE]).await.unwrap();
        let cleaner = store.current();
        let cleaning = std::thread::spawn(move || while cleaner.clean_now() {});
        for _ in 0..seed * 5 {
            std::thread::yield_now();
        }
        disk.crash(seed);
        cleaning.join().unwrap();
        drop(store);
        assert_eq!(contents(&*open(&disk).1, &[QUEUE]).await.unwrap(), expected, "seed {seed}");
    }
}

#[tokio::test]
async fn reads_go_on_while_their_segments_are_cleaned() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=400u64 {
        shard.submit(send(number)).await.unwrap();
        if number % 5 != 0 {
            shard.submit(complete(number)).await.unwrap();
        }
    }
    let keys: Vec<Key> = (1..=80).map(|number| body(number * 5)).collect();
    let cleaner = store.current();
    let cleaning = std::thread::spawn(move || (0..1000).take_while(|_| cleaner.clean_now()).count());
    loop {
        let values = shard.read(keys.clone()).await.unwrap();
        assert!(values.iter().zip(&keys).all(|(found, key)| *found == Some(value(key.number, 300))));
        if cleaning.is_finished() {
            break;
        }
    }
    cleaning.join().unwrap();
}

#[tokio::test]
async fn damage_found_while_cleaning_is_left_alone_and_reported_by_reading() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60u64 {
        shard.submit(send(number)).await.unwrap();
    }
    eventually("the first segment is sealed", || {
        store.current().shared().state().segments.get(1).is_some_and(|segment| segment.sealed_end.is_some())
    })
    .await;
    let path = std::path::Path::new("/data/0000000001.segment");
    let mut bytes = disk.bytes(path);
    bytes[64 + 40 + 32 + 20 + 32 + 5] ^= 1;
    disk.set_bytes(path, bytes);
    for number in 2..=60 {
        shard.submit(complete(number)).await.unwrap();
    }
    clean_all(&store);
    assert!(
        matches!(shard.read(vec![body(1)]).await, Err(Error::Corrupt { place, .. }) if place.offset == 156)
    );
    assert!(store.loss().is_none(), "one bad message does not stop the broker");
    shard.submit(send(99)).await.unwrap();
}

#[test]
fn short_lived_messages_are_not_copied_again_and_again_because_of_one_that_stays() {
    let disk = SimulatedDisk::new();
    let store = crate::SteppedStore::open(disk.mount(), DIRECTORY, options()).unwrap();
    let step = |batch: Batch| {
        let _answer = store.submit(batch);
        while store.write(usize::MAX) > 0 {}
    };
    step(send(1));
    let mut cleanings = 0;
    // Some 130 segments are written, and each contains removals for the previous one.
    for number in 2..=2000 {
        step(send(number));
        if number > 3 {
            step(complete(number - 2));
        }
        store.keep();
        while store.clean(false) {
            cleanings += 1;
            store.keep();
        }
        let used = store.disk_use();
        assert!(used.sealed_bytes <= 8 * u64::from(options().segment_bytes), "{used:?} at {number}");
    }
    assert_eq!(cleanings, 1, "the segment with the message that stays was copied");
    let numbers: Vec<u64> = store.keys().iter().map(|key| key.number).collect();
    let expected: Vec<u64> = [1].into_iter().chain(1999..=2000).collect();
    assert_eq!(numbers, [expected.clone(), expected].concat());
    drop(store);
    let store = crate::SteppedStore::open(disk.mount(), DIRECTORY, options()).unwrap();
    assert_eq!(store.keys().len(), numbers.len(), "nothing came back, nothing is lost");
}
