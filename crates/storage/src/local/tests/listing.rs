//! Hints that are made without reading their segments.

use super::*;
use crate::local::directory::Directory;
use crate::local::keeper;
use crate::local::pool::PREPARED_SEGMENTS;
use crate::local::shard::{LocalShard, ScrubDamageSender, Workers};

/// A store without threads that has the next segments ready.
fn open_prepared(disk: &SimulatedDisk) -> (LocalShard, Workers) {
    disk.mount().create_directory(std::path::Path::new(DIRECTORY)).unwrap();
    let directory = Directory { path: DIRECTORY.into(), filesystem: disk.mount() };
    let opened = LocalShard::open_stepped(directory, options(), ScrubDamageSender::default()).unwrap();
    opened.1.shared.pool.lock().prepared_target = PREPARED_SEGMENTS;
    for _ in 0..PREPARED_SEGMENTS {
        keeper::round(&opened.1.shared);
    }
    opened
}

/// Sends, completes, removes ranges and replaces, until a segment is full.
fn fill_a_segment(shard: &LocalShard, workers: &mut Workers) {
    let shared = Arc::clone(&workers.shared);
    for number in 1.. {
        let _sent = shard.submit(send(number));
        if number % 3 == 0 {
            let _completed = shard.submit(complete(number - 1));
        }
        if number % 7 == 0 {
            let mut batch = Batch::new();
            batch.delete_range(Space::Body, QUEUE, number - 5..=number - 4);
            batch.put(Key::new(Space::Meta, QUEUE, 1), value(number, 40));
            let _changed = shard.submit(batch);
        }
        while workers.writer.step(&workers.write_requests, 2) > 0 {}
        if !shared.pool.lock().rolled.is_empty() {
            return;
        }
    }
}

fn hint_bytes(disk: &SimulatedDisk) -> Vec<u8> {
    disk.bytes(std::path::Path::new("/data/0000000001.hint"))
}

#[test]
fn the_hint_of_a_segment_is_the_same_from_its_listing_and_by_reading_it() {
    let disk = SimulatedDisk::new();
    let (shard, mut workers) = open_prepared(&disk);
    fill_a_segment(&shard, &mut workers);
    let shared = Arc::clone(&workers.shared);
    let rolled = shared.pool.lock().rolled[0];
    let listing =
        shared.pool.lock().take_listing(rolled.id).expect("a listing from the segment's beginning on");
    let file = Arc::clone(&shared.state().segments.get(rolled.id).unwrap().file);
    keeper::write_hint(&shared, &file, rolled.seal, Some(&listing)).unwrap();
    let listed = hint_bytes(&disk);
    keeper::write_hint(&shared, &file, rolled.seal, None).unwrap();
    assert!(listed.len() > 500, "{} bytes", listed.len());
    assert_eq!(listed, hint_bytes(&disk));
}

#[test]
fn a_segment_that_was_not_filled_from_its_beginning_by_one_owner_has_no_listing() {
    let disk = SimulatedDisk::new();
    let (shard, mut workers) = open_prepared(&disk);
    let _sent = shard.submit(send(1));
    assert_eq!(workers.writer.step(&workers.write_requests, 1), 1);
    drop((shard, workers));
    let (shard, mut workers) = open_prepared(&disk);
    fill_a_segment(&shard, &mut workers);
    let mut exchange = workers.shared.pool.lock();
    let rolled = exchange.rolled[0];
    assert!(exchange.take_listing(rolled.id).is_none());
}

#[test]
fn listings_that_nobody_works_off_do_not_pile_up() {
    let mut exchange = crate::local::pool::Exchange::default();
    for id in 0..10 {
        exchange.keep_listing(id, crate::local::hint::Listing::new(Vec::new()));
    }
    assert!(exchange.take_listing(1).is_some() && exchange.take_listing(2).is_none());
}

#[test]
fn buffers_are_empty_when_they_are_used_again_and_few_are_kept() {
    let mut exchange = crate::local::pool::Exchange::default();
    for _ in 0..10 {
        exchange.give_buffer_back(vec![1; 100]);
    }
    let taken = [exchange.take_buffer(), exchange.take_buffer(), exchange.take_buffer()];
    assert!(taken.iter().all(Vec::is_empty));
    assert_eq!(taken.map(|buffer| buffer.capacity() > 0), [true, true, false]);
    exchange.give_buffer_back(vec![1; 100]);
    exchange.drop_buffers();
    assert_eq!(exchange.take_buffer().capacity(), 0);
}
