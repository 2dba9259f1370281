//! Reads that need no disk are answered at once, and no read otherwise than by a reader.

use super::*;
use crate::local::{File, RealFilesystem};

/// A store with messages 1 to 3, whose bodies have 300 bytes, and a large one.
async fn filled(disk: &SimulatedDisk) -> (LocalStore, Arc<dyn Shard>) {
    let (store, shard) = open_with(disk, LocalOptions { segment_bytes: 4 << 20, ..options() }).unwrap();
    for number in 1..=3 {
        shard.submit(send(number)).await.unwrap();
    }
    let mut batch = Batch::new();
    batch.put(body(4), Bytes::from(vec![4; 300 << 10]));
    shard.submit(batch).await.unwrap();
    (store, shard)
}

#[tokio::test]
async fn what_is_in_memory_is_read_at_once() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = filled(&disk).await;
    disk.set_cached(|_| true);
    let read = shard.read(vec![body(2), body(99), body(1)]);
    assert!(read.is_answered());
    assert_eq!(read.await.unwrap(), [Some(value(2, 300)), None, Some(value(1, 300))]);
}

#[tokio::test]
async fn a_reader_reads_what_is_on_disk_and_what_takes_long() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = filled(&disk).await;
    assert_eq!(shard.read(vec![body(1)]).await.unwrap(), [Some(value(1, 300))], "nothing is in memory");
    disk.set_cached(|offset| offset < 500);
    let keys = [body(1), body(3)];
    let apart: Vec<_> = keys.iter().map(|key| shard.read(vec![*key]).is_answered()).collect();
    assert_eq!(apart, [true, false]);
    disk.set_cached(|_| true);
    let large = shard.read(vec![body(4)]);
    assert!(!large.is_answered());
    assert_eq!(large.await.unwrap()[0].as_ref().map(Bytes::len), Some(300 << 10));
}

#[tokio::test]
async fn nobody_is_told_at_once_that_a_record_is_damaged() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = filled(&disk).await;
    disk.set_cached(|_| true);
    let segment = disk.paths().into_iter().find(|path| {
        let bytes = disk.bytes(path);
        bytes.windows(300).any(|window| window == &value(2, 300)[..])
    });
    let segment = segment.unwrap();
    let at = disk.bytes(&segment).windows(300).position(|window| window == &value(2, 300)[..]).unwrap();
    disk.rot(&segment, at as u64);
    let read = shard.read(vec![body(2), body(3)]);
    assert!(!read.is_answered(), "a reader looks again, alone");
    assert!(matches!(read.await, Err(Error::Corrupt { .. })));
    assert_eq!(shard.read(vec![body(3)]).await.unwrap(), [Some(value(3, 300))]);
}

#[tokio::test]
async fn a_closed_store_answers_nothing_at_once() {
    let disk = SimulatedDisk::new();
    let (store, shard) = filled(&disk).await;
    disk.set_cached(|_| true);
    store.close();
    let read = shard.read(vec![body(1)]);
    assert!(read.await.is_err());
}

#[test]
fn the_system_gives_what_it_has_in_memory_or_says_that_it_would_wait() {
    let directory = tempfile::tempdir().unwrap();
    let file = RealFilesystem.create(&directory.path().join("file")).unwrap();
    let written: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    file.write_all_at(&written, 0).unwrap();
    let mut read = vec![0; 50_000];
    // Whether it can tell depends on the file system.
    if File::read_cached_at(&*file, &mut read, 40_000).is_ok() {
        assert_eq!(read, written[40_000..90_000]);
    }
    assert!(File::read_cached_at(&*file, &mut read, 60_000).is_err(), "it ends before");
}

/// What lies between records that are wanted is read as well.
#[tokio::test]
async fn few_contents_far_apart_are_left_to_a_reader() {
    let disk = SimulatedDisk::new();
    let (_store, shard) = open_with(&disk, LocalOptions { segment_bytes: 4 << 20, ..options() }).unwrap();
    for number in 1..=1000 {
        shard.submit(send(number)).await.unwrap();
    }
    disk.set_cached(|_| true);
    assert!(shard.read((1..=500).map(body).collect()).is_answered());
    let far_apart = shard.read((1..=1000).step_by(20).map(body).collect());
    assert!(!far_apart.is_answered());
    assert_eq!(far_apart.await.unwrap().iter().flatten().count(), 50);
}
