//! The number of descriptors does not grow with the log.

use super::errno::{EACCES, ESTALE};
use super::*;
use crate::local::{Call, Event, check_on};

#[tokio::test]
async fn descriptors_do_not_grow_with_the_log() {
    for (descriptors_max, most) in [(None, 80), (Some(24), 24)] {
        let disk = SimulatedDisk::new();
        disk.set_descriptors_max(descriptors_max);
        let (store, shard) = open(&disk);
        for number in 1..=1500 {
            assert!(send_patiently(&*shard, number).await, "{descriptors_max:?}: message {number}");
        }
        assert!(store.current().shared().state().segments.in_order().count() > 70);
        for number in (1..=1500).rev().step_by(7) {
            let values = shard.read(vec![body(number)]).await.unwrap();
            assert_eq!(values, [Some(value(number, 300))], "{descriptors_max:?}: message {number}");
        }
        store.close();
        let (store, shard) = open(&disk);
        assert_eq!(contents(&*shard, &[QUEUE]).await.unwrap().len(), 3000, "{descriptors_max:?}");
        store.close();
        let report = check_on(disk.mount(), DIRECTORY).unwrap();
        assert!(report.damage.is_empty() && report.refusal.is_none(), "{descriptors_max:?}: {report:?}");
        assert!(
            disk.descriptors_most() <= most,
            "{} descriptors of {descriptors_max:?}",
            disk.descriptors_most()
        );
    }
}

#[tokio::test]
async fn a_store_that_does_not_open_for_want_of_descriptors_says_so() {
    let disk = SimulatedDisk::new();
    let (store, _) = open(&disk);
    store.close();
    drop(store);
    for descriptors_max in 0.. {
        disk.set_descriptors_max(Some(descriptors_max));
        match try_open(&disk) {
            Ok(_) => return assert!(descriptors_max > 0),
            Err(Error::System { .. }) => {}
            Err(error) => panic!("{descriptors_max}: {error}"),
        }
    }
}

#[tokio::test]
async fn a_store_that_runs_out_of_descriptors_continues_once_there_are_some_again() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let mut accepted = Vec::new();
    for number in 1..=600u64 {
        // At times the process's sockets use all descriptors.
        match number % 60 {
            20 => disk.set_descriptors_max(Some(0)),
            40 => {
                disk.set_descriptors_max(None);
                assert!(send_patiently(&*shard, number).await);
                accepted.push(number);
                continue;
            }
            _ => {}
        }
        match shard.submit(send(number)).await {
            Ok(()) => accepted.push(number),
            Err(error) if is_for_a_while(&error) => shard.resume(QUEUE),
            Err(other) => panic!("message {number}: {other}"),
        }
    }
    disk.set_descriptors_max(None);
    assert!(store.loss().is_none());
    assert!(accepted.len() > 100, "{}", accepted.len());
    disk.kill();
    drop(store);
    let (_store, shard) = open(&disk);
    let found: Vec<u64> =
        contents(&*shard, &[QUEUE]).await.unwrap().into_keys().map(|key| key.number).collect();
    assert_eq!(found, [accepted.clone(), accepted].concat());
}

/// A store with messages 1 to 1500 whose first segments are not open.
async fn open_with_closed_segments(disk: &SimulatedDisk) -> (LocalStore, Arc<dyn Shard>) {
    let (store, shard) = open(disk);
    for number in 1..=1500 {
        assert!(send_patiently(&*shard, number).await);
    }
    for number in (700..=1500).rev().step_by(7) {
        shard.read(vec![body(number)]).await.unwrap();
    }
    (store, shard)
}

#[tokio::test]
async fn a_read_waits_for_a_descriptor() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open_with_closed_segments(&disk).await;
    let oldest = vec![Some(value(1, 300))];
    let calls = disk.calls();
    disk.set_descriptors_max(Some(0));
    let read = shard.read(vec![body(1)]);
    eventually("the reader has tried", || disk.calls() > calls).await;
    disk.set_descriptors_max(None);
    assert_eq!(read.await.unwrap(), oldest);
    assert!(store.loss().is_none());
}

/// A restored file may belong to another user, or its server may have forgotten it. The readers would be busy with it for
/// ever.
#[tokio::test]
async fn a_segment_that_can_not_be_read_keeps_no_reader_from_the_others() {
    const READS: u64 = 8;
    for (call, errno) in [(Call::Open, EACCES), (Call::Open, ESTALE), (Call::Read, ESTALE)] {
        let disk = SimulatedDisk::new();
        let (store, shard) = open_with_closed_segments(&disk).await;
        for _ in 0..READS {
            disk.plan(Some(call), "0000000001.segment", 0, Event::Fail(errno));
        }
        for _ in 0..READS {
            let refused = shard.read(vec![body(1)]).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
        }
        assert_eq!(disk.faults_left(), 0);
        assert_eq!(shard.read(vec![body(1)]).await.unwrap(), [Some(value(1, 300))]);
        assert!(store.loss().is_none());
    }
}
