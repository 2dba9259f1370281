//! Hints that are made without reading their segments.

use super::*;
use crate::local::format::{Kind, RecordHeader, Shadows};
use crate::local::hint::{HintBuilder, Listing, Subject};
use crate::local::keeper;
use crate::local::pool::{LISTINGS_MAX, PREPARED_SEGMENTS};
use crate::local::shard::{LocalShard, ScrubDamageSender, Workers};
use crate::local::state::Placed;

/// A store without threads with the next segments prepared.
fn open_prepared(disk: &SimulatedDisk) -> (LocalShard, Workers) {
    let directory = new_directory(disk, &options());
    let opened = LocalShard::open_stepped(directory, options(), ScrubDamageSender::default()).unwrap();
    opened.1.shared.pool.lock().prepared_target = PREPARED_SEGMENTS;
    for _ in 0..PREPARED_SEGMENTS {
        keeper::round(&opened.1.shared);
    }
    opened
}

/// Sends, completes, removes ranges and replaces values until a segment is full.
fn fill_a_segment(shard: &LocalShard, workers: &mut Workers) {
    fill_with(shard, workers, 1, |shard, number| {
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
    });
}

/// Calls `step` with increasing numbers from `first` until a segment is full; returns the last one.
fn fill_with(shard: &LocalShard, workers: &mut Workers, first: u64, step: impl Fn(&LocalShard, u64)) -> u64 {
    let shared = Arc::clone(&workers.shared);
    let is_full = |number: &u64| {
        step(shard, *number);
        while workers.writer.step(&workers.write_requests, 2) > 0 {}
        !shared.pool.lock().unsealed.is_empty()
    };
    (first..).find(is_full).expect("a segment is full some time")
}

fn send_one(shard: &LocalShard, number: u64) {
    let _sent = shard.submit(send(number));
}

fn hint_bytes(disk: &SimulatedDisk) -> Vec<u8> {
    disk.bytes(std::path::Path::new("/data/0000000001.hint"))
}

/// The segments that have hints.
fn hinted(disk: &SimulatedDisk) -> Vec<String> {
    let hints = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "hint"));
    hints.map(|path| path.file_stem().unwrap().to_string_lossy().trim_start_matches('0').to_owned()).collect()
}

/// Asserts that the full segment has the same hint from its listing and by reading it, and returns that hint.
fn hint_made_in_both_ways(disk: &SimulatedDisk, shared: &crate::local::shared::Shared) -> Vec<u8> {
    let unsealed = shared.pool.lock().unsealed[0];
    let listing =
        shared.pool.lock().take_listing(unsealed.id).expect("a listing from the segment's beginning on");
    let file = Arc::clone(&shared.state().segments.get(unsealed.id).unwrap().file);
    keeper::write_hint(shared, &file, unsealed.seal, Some(listing)).unwrap();
    let listed = hint_bytes(disk);
    keeper::write_hint(shared, &file, unsealed.seal, None).unwrap();
    assert_eq!(listed, hint_bytes(disk));
    listed
}

#[test]
fn the_hint_of_a_segment_is_the_same_from_its_listing_and_by_reading_it() {
    let disk = SimulatedDisk::new();
    let (shard, mut workers) = open_prepared(&disk);
    fill_a_segment(&shard, &mut workers);
    let hint = hint_made_in_both_ways(&disk, &workers.shared);
    assert!(hint.len() > 500, "{} bytes", hint.len());
}

#[test]
fn the_hint_of_a_segment_whose_puts_all_live_and_of_one_with_few_dead_are_the_same_in_both_ways() {
    // Header, numbers of two spaces, their position, checksum.
    const FIXED_BYTES: usize = 32 + 2 * 17 + 12;
    // Of a message: two records, and the value of its head.
    const MESSAGE_BYTES: usize = 32 + 32 + 20;
    for dead in [&[][..], &[1], &[7, 8], &[1, 3, 4, 9]] {
        let disk = SimulatedDisk::new();
        let (shard, mut workers) = open_prepared(&disk);
        let last = fill_with(&shard, &mut workers, 1, send_one);
        for number in dead {
            let _completed = shard.submit(complete(*number));
        }
        while workers.writer.step(&workers.write_requests, 2) > 0 {}
        let hint = hint_made_in_both_ways(&disk, &workers.shared);
        // The last message is in the next segment.
        let living = usize::try_from(last).unwrap() - 1 - dead.len();
        assert_eq!(hint.len(), FIXED_BYTES + living * MESSAGE_BYTES, "{dead:?} are dead");
    }
}

#[test]
fn no_hint_is_made_of_a_listing_that_is_cut_short() {
    let subject = Subject { id: 1, salt: 2, end: 3 };
    let header = RecordHeader { kind: Kind::Put, key: head(1), value_len: 20, shadows: Shadows::Nothing };
    let mut listing = Listing::new(Vec::new());
    let placed = Placed { header, offset: 104, last_number: 0 };
    let whole = [&header.encode()[..], &[7; 20]].concat();
    listing.push(&placed, &whole);
    listing.push(&placed, &whole[..40]);
    let made = HintBuilder::from_listing(listing, subject, |some, wanted| wanted.resize(some.len(), true));
    assert!(made.is_err());
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
    let unsealed = exchange.unsealed[0];
    assert!(exchange.take_listing(unsealed.id).is_none());
}

#[test]
fn unprocessed_listings_do_not_pile_up() {
    let mut exchange = crate::local::pool::Exchange::default();
    for id in 0..10 {
        exchange.keep_listing(id, Listing::new(Vec::new()));
    }
    let kept = (0..10).filter(|id| exchange.take_listing(*id).is_some()).count();
    assert_eq!(kept, LISTINGS_MAX);
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

#[test]
fn a_hint_waits_until_another_segment_is_sealed_behind_its_own_or_nothing_is_sealed() {
    let disk = SimulatedDisk::new();
    let (shard, mut workers) = open_prepared(&disk);
    let mut last = 0;
    for (sealed, hints) in [(1, &[][..]), (2, &["1"]), (3, &["1", "2"])] {
        last = fill_with(&shard, &mut workers, last + 1, send_one);
        keeper::round(&workers.shared);
        assert_eq!(hinted(&disk), hints, "{sealed} sealed");
    }
    keeper::round(&workers.shared);
    assert_eq!(hinted(&disk), ["1", "2", "3"], "at rest");
}

#[test]
fn a_segment_that_dies_before_another_is_sealed_never_has_a_hint() {
    let disk = SimulatedDisk::new();
    let (shard, mut workers) = open_prepared(&disk);
    let mut next = 1;
    for _ in 0..6 {
        let last = fill_with(&shard, &mut workers, next, send_one);
        keeper::round(&workers.shared);
        (next..=last).for_each(|number| drop(shard.submit(complete(number))));
        while workers.writer.step(&workers.write_requests, usize::MAX) > 0 {}
        next = last + 1;
        assert_eq!(hinted(&disk), <[&str; 0]>::default());
    }
    // At most one listing is left; the others were returned.
    let exchange = workers.shared.pool.lock();
    assert!(exchange.listings.len() <= 1 && exchange.hints_due.len() <= 1);
}

#[tokio::test]
async fn a_store_at_rest_writes_the_hints_that_waited() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    let current = store.current();
    let sealed = || {
        let state = current.shared().state();
        state.segments.in_order().filter(|segment| segment.sealed_end.is_some()).count()
    };
    eventually("full segments are sealed", || sealed() >= 2).await;
    // Without a ring, the keeper's periodic check finds that nothing was sealed since.
    eventually("every sealed segment has a hint", || hinted(&disk).len() == sealed()).await;
}
