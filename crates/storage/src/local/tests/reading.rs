//! Reads that need no disk access are answered at once, all others by a reader. There are no threads here: the test
//! runs the reader.

use super::*;
use crate::Read;
use crate::local::shard::{LocalShard, ScrubDamageSender, Workers};
use crate::local::{File, RealFilesystem, reader};

/// A store with messages 1 to `count`, whose bodies have 300 bytes, followed by a large one.
fn filled(disk: &SimulatedDisk, count: u64) -> (LocalShard, Workers) {
    let options = LocalOptions { segment_bytes: 4 << 20, ..options() };
    let directory = new_directory(disk, &options);
    let (shard, mut workers) =
        LocalShard::open_stepped(directory, options, ScrubDamageSender::default()).unwrap();
    for number in 1..=count {
        let _sent = shard.submit(send(number));
    }
    let mut batch = Batch::new();
    batch.put(body(count + 1), Bytes::from(vec![4; 300 << 10]));
    let _sent = shard.submit(batch);
    while workers.writer.step(&workers.write_requests, 16) > 0 {}
    (shard, workers)
}

/// Lets a reader answer the read.
async fn by_reader(read: Read, workers: &Workers) -> Result<Vec<Option<Bytes>>, Error> {
    assert!(!read.is_answered());
    reader::answer(&workers.shared, workers.read_requests.try_recv().unwrap());
    read.await
}

#[tokio::test]
async fn cached_values_are_read_at_once() {
    let disk = SimulatedDisk::new();
    let (shard, workers) = filled(&disk, 3);
    disk.set_cached(|_| true);
    let read = shard.read(vec![body(2), body(99), body(1)]);
    assert!(read.is_answered() && workers.read_requests.try_recv().is_err());
    assert_eq!(read.await.unwrap(), [Some(value(2, 300)), None, Some(value(1, 300))]);
}

#[tokio::test]
async fn callers_do_not_wait_for_an_index_that_others_keep() {
    let disk = SimulatedDisk::new();
    let (shard, workers) = filled(&disk, 1);
    disk.set_cached(|_| true);
    let kept = workers.shared.state();
    let read = shard.read(vec![body(1)]);
    drop(kept);
    assert_eq!(by_reader(read, &workers).await.unwrap(), [Some(value(1, 300))]);
}

#[tokio::test]
async fn a_reader_reads_values_that_are_not_in_memory_and_large_ones() {
    let disk = SimulatedDisk::new();
    let (shard, workers) = filled(&disk, 3);
    let on_disk = by_reader(shard.read(vec![body(1)]), &workers).await;
    assert_eq!(on_disk.unwrap(), [Some(value(1, 300))], "nothing is in memory");
    disk.set_cached(|offset| offset < 500);
    assert!(shard.read(vec![body(1)]).is_answered());
    let behind = by_reader(shard.read(vec![body(3)]), &workers).await;
    assert_eq!(behind.unwrap(), [Some(value(3, 300))]);
    disk.set_cached(|_| true);
    let large = by_reader(shard.read(vec![body(4)]), &workers).await.unwrap();
    assert_eq!(large[0].as_ref().map(Bytes::len), Some(300 << 10));
}

/// Bytes between the wanted records are read as well.
#[tokio::test]
async fn few_contents_far_apart_are_left_to_a_reader() {
    let disk = SimulatedDisk::new();
    let (shard, workers) = filled(&disk, 1000);
    disk.set_cached(|_| true);
    assert!(shard.read((1..=500).map(body).collect()).is_answered());
    let far_apart = shard.read((1..=1000).step_by(20).map(body).collect());
    assert_eq!(by_reader(far_apart, &workers).await.unwrap().iter().flatten().count(), 50);
}

#[tokio::test]
async fn a_reader_is_left_to_say_that_a_record_is_damaged() {
    let disk = SimulatedDisk::new();
    let (shard, workers) = filled(&disk, 3);
    disk.set_cached(|_| true);
    let place = |path: &std::path::PathBuf| {
        disk.bytes(path).windows(300).position(|window| window == &value(2, 300)[..])
    };
    let (segment, at) =
        disk.paths().into_iter().find_map(|path| Some((path.clone(), place(&path)?))).unwrap();
    disk.rot(&segment, at as u64);
    let damaged = by_reader(shard.read(vec![body(2), body(3)]), &workers).await;
    assert!(matches!(damaged, Err(Error::Corrupt { .. })));
    assert_eq!(shard.read(vec![body(3)]).await.unwrap(), [Some(value(3, 300))]);
}

#[tokio::test]
async fn a_closed_store_answers_nothing_at_once() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    shard.submit(send(1)).await.unwrap();
    disk.set_cached(|_| true);
    store.close();
    assert!(shard.read(vec![body(1)]).await.is_err());
}

#[test]
fn the_system_returns_cached_pages_or_reports_that_it_would_block() {
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
