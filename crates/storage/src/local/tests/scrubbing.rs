//! The scrubber finds damage in sealed segments while the store runs, and reports each place once.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::local::scrub::Scrubber;
use crate::local::{Call, Event, ScrubDamage};

/// Options for scrubbing almost without pauses.
fn eager() -> LocalOptions {
    LocalOptions {
        scrub_interval: Some(Duration::from_millis(1)),
        scrub_bytes_per_second: 1 << 30,
        ..options()
    }
}

/// Options with scrubbing by [`Scrubber::step`] only.
fn by_hand() -> LocalOptions {
    LocalOptions { scrub_interval: None, ..options() }
}

/// The location of a live value.
fn place(store: &LocalStore, key: Key) -> (PathBuf, u64) {
    let shard = store.current();
    let state = shard.shared().state();
    let location = state.index.get(key).unwrap();
    (state.segments.get(location.segment).unwrap().file.path.clone(), u64::from(location.offset))
}

/// Reads every sealed segment at least twice.
fn scrub(store: &LocalStore, scrubber: &mut Scrubber) -> Vec<ScrubDamage> {
    let shard = store.current();
    let segments = shard.shared().state().segments.in_order().count();
    for _ in 0..2 * segments {
        scrubber.step(shard.shared());
    }
    store.scrub_damage().borrow().clone()
}

async fn filled(disk: &SimulatedDisk, options: LocalOptions) -> (LocalStore, Arc<dyn Shard>) {
    let (store, shard) = open_with(disk, options).unwrap();
    for number in 1..=100 {
        shard.submit(send(number)).await.unwrap();
    }
    eventually("segments are sealed", || {
        let current = store.current();
        let state = current.shared().state();
        state.segments.in_order().filter(|segment| segment.sealed_end.is_some()).count() >= 4
    })
    .await;
    (store, shard)
}

#[tokio::test]
async fn damage_while_the_store_runs_is_announced_with_file_offset_and_key() {
    let disk = SimulatedDisk::new();
    let (store, _shard) = filled(&disk, eager()).await;
    let (file, offset) = place(&store, body(7));
    let mut damage = store.scrub_damage();
    disk.rot(&file, offset + 40);
    let found = damage.wait_for(|all| !all.is_empty()).await.unwrap().clone();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0].file, found[0].offset, found[0].key), (&file, offset, Some(body(7))));
    assert!(found[0].reason.contains("checksum"), "{found:?}");
}

#[tokio::test]
async fn each_damaged_place_is_reported_once_and_its_neighbours_are_still_read() {
    let disk = SimulatedDisk::new();
    let (store, _shard) = filled(&disk, by_hand()).await;
    let mut scrubber = Scrubber::default();
    assert_eq!(scrub(&store, &mut scrubber), []);
    let damaged = [body(3), head(4), body(4), body(5)];
    for key in damaged {
        let (file, offset) = place(&store, key);
        disk.rot(&file, offset + 33);
    }
    let found = scrub(&store, &mut scrubber);
    assert_eq!(found.iter().filter_map(|damage| damage.key).collect::<Vec<_>>(), damaged);
    assert_eq!(scrub(&store, &mut scrubber), found, "nothing is reported twice");
}

#[tokio::test]
async fn headers_of_frames_and_records_are_read_as_well() {
    for (at_frame, offset_in) in [(true, 4), (true, 30), (false, 8), (false, 0)] {
        let disk = SimulatedDisk::new();
        let (store, _shard) = filled(&disk, by_hand()).await;
        let (file, record) = place(&store, head(5));
        // The frame's header is before the first record.
        let at = if at_frame { record - 40 + offset_in } else { record + offset_in };
        disk.rot(&file, at);
        let (other, later) = place(&store, body(8));
        assert_eq!(file, other);
        disk.rot(&file, later + 50);
        let found = scrub(&store, &mut Scrubber::default());
        assert!(found.iter().all(|damage| damage.file == file), "{found:?}");
        assert!(found.iter().any(|damage| (record - 40..=record).contains(&damage.offset)), "{found:?}");
        assert!(found.iter().any(|damage| damage.key == Some(body(8))), "after a damaged header: {found:?}");
    }
}

#[tokio::test]
async fn nothing_is_reported_of_an_intact_store_that_is_cleaned_meanwhile() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with(&disk, eager()).unwrap();
    for number in 1..=1500 {
        shard.submit(send(number)).await.unwrap();
        if number > 30 && number % 7 != 0 {
            shard.submit(complete(number - 30)).await.unwrap();
        }
    }
    assert_eq!(*store.scrub_damage().borrow(), []);
    store.close();
    assert_eq!(*store.scrub_damage().borrow(), []);
}

#[tokio::test]
async fn no_dead_segment_is_kept_by_the_scrubber() {
    let disk = SimulatedDisk::new();
    let slow = LocalOptions { scrub_interval: Some(Duration::from_secs(3600)), ..options() };
    let (store, shard) = filled(&disk, slow).await;
    for number in 1..=100 {
        shard.submit(complete(number)).await.unwrap();
    }
    eventually("only spares and what is used is left", || {
        let current = store.current();
        current.shared().pool.lock().retired.is_empty()
            && current.shared().state().segments.in_order().count() <= 4
    })
    .await;
}

const EIO: i32 = 5;
const EMFILE: i32 = 24;

/// The failures of the reads of segments, one after another, and whether they are reported as damage.
#[tokio::test]
async fn a_read_that_fails_for_a_while_is_no_damage() {
    for (failures, is_damage) in
        [(vec![EIO], false), (vec![EIO; 2], false), (vec![EIO; 3], true), (vec![EMFILE; 9], false)]
    {
        let disk = SimulatedDisk::new();
        let (store, _shard) = filled(&disk, by_hand()).await;
        for errno in &failures {
            disk.plan(Some(Call::Read), ".segment", 0, Event::Fail(*errno));
        }
        let mut scrubber = Scrubber::default();
        for _ in &failures {
            scrubber.step(store.current().shared());
        }
        assert_eq!(disk.faults_left(), 0);
        let found = scrub(&store, &mut scrubber);
        assert_eq!(found.len(), usize::from(is_damage), "{failures:?}: {found:?}");
    }
}
