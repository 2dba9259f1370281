//! Data directories of earlier versions open with the current program.

#![expect(clippy::unwrap_used, reason = "a test that fails shall say so")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use peeklock_storage::local::check;
use peeklock_storage::{Batch, Key, LocalOptions, LocalStore, PartitionId, ShardId, Space, Store};

const QUEUE: PartitionId = PartitionId(1);
/// Partition of which most messages were removed and the others copied by the cleaner; from version 2 on.
const CLEANED: PartitionId = PartitionId(2);
const CLEANED_NUMBERS: u64 = 900;
/// One message in this many is kept.
const KEPT_EVERY: u64 = 50;
const SEGMENT_BYTES: u32 = 8 << 10;
/// Version 1 is that of all files, version 2 that of the manifest alone.
const VERSIONS: [u32; 2] = [1, 2];

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(format!("v{version}"))
}

fn options() -> LocalOptions {
    LocalOptions { segment_bytes: SEGMENT_BYTES, reserve_bytes: 0, ..LocalOptions::default() }
}

fn value(number: u64, len: usize) -> Bytes {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Messages 1 to 50 with a counter; 20 to 40 are removed one by one, 5 to 9 as a range, 7 is put again.
async fn write(path: &Path) {
    let store = LocalStore::open(path, options()).unwrap();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    for number in 1..=50 {
        let mut batch = Batch::new();
        batch.put(Key::new(Space::Meta, QUEUE, 0), value(number, 8));
        batch.put(Key::new(Space::Head, QUEUE, number), value(number, 20));
        batch.put(Key::new(Space::Body, QUEUE, number), value(number, 300));
        shard.submit(batch).await.unwrap();
    }
    let mut batch = Batch::new();
    for space in [Space::Head, Space::Body] {
        for number in 20..=40 {
            batch.delete(Key::new(space, QUEUE, number));
        }
        batch.delete_range(space, QUEUE, 5..=9);
        batch.put(Key::new(space, QUEUE, 7), value(77, 20));
    }
    shard.submit(batch).await.unwrap();
    store.close();
}

/// Messages of which few are kept, until the cleaner has copied some of them.
async fn write_cleaned(path: &Path) {
    for first in (1..=CLEANED_NUMBERS).step_by(100) {
        let store = LocalStore::open(path, options()).unwrap();
        let shard = store.acquire(ShardId(0)).await.unwrap();
        for number in first..first + 100 {
            let key = Key::new(Space::Body, CLEANED, number);
            let mut batch = Batch::new();
            batch.put(key, value(number, 300));
            shard.submit(batch).await.unwrap();
            if !number.is_multiple_of(KEPT_EVERY) {
                let mut batch = Batch::new();
                batch.delete(key);
                shard.submit(batch).await.unwrap();
            }
        }
    }
    let is_copied = || check(path).unwrap().segments.iter().any(|one| one.file_bytes != SEGMENT_BYTES.into());
    while !is_copied() {
        let store = LocalStore::open(path, options()).unwrap();
        let _shard = store.acquire(ShardId(0)).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn verify_cleaned(path: &Path) {
    let store = LocalStore::open(path, options()).unwrap();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let page = shard.scan(Space::Body, CLEANED, 0).await.unwrap();
    let found: Vec<(u64, Bytes)> =
        page.entries.into_iter().map(|entry| (entry.number, entry.value)).collect();
    let expected = (1..=CLEANED_NUMBERS / KEPT_EVERY).map(|one| one * KEPT_EVERY);
    assert_eq!(found, expected.map(|number| (number, value(number, 300))).collect::<Vec<_>>());
}

async fn verify(path: &Path) {
    let store = LocalStore::open(path, options()).unwrap();
    let shard = store.acquire(ShardId(0)).await.unwrap();
    let counter = shard.read(vec![Key::new(Space::Meta, QUEUE, 0)]).await.unwrap();
    assert_eq!(counter, [Some(value(50, 8))]);
    for (space, len) in [(Space::Head, 20), (Space::Body, 300)] {
        let page = shard.scan(space, QUEUE, 0).await.unwrap();
        assert_eq!(page.next, None);
        let expected =
            (1..=50).filter(|number| !(20..=40).contains(number) && !matches!(number, 5 | 6 | 8 | 9));
        let expected: Vec<(u64, Bytes)> = expected
            .map(|number| (number, if number == 7 { value(77, 20) } else { value(number, len) }))
            .collect();
        let found: Vec<(u64, Bytes)> =
            page.entries.into_iter().map(|entry| (entry.number, entry.value)).collect();
        assert_eq!(found, expected);
    }
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}

async fn verify_version(path: &Path, version: u32) {
    verify(path).await;
    if version > 1 {
        verify_cleaned(path).await;
    }
}

#[tokio::test]
async fn a_directory_of_each_format_opens() {
    for version in VERSIONS {
        let directory = copy(&fixture(version));
        check(directory.path()).unwrap();
        verify_version(directory.path(), version).await;
    }
}

#[tokio::test]
async fn a_directory_of_each_format_opens_without_its_hints() {
    for version in VERSIONS {
        let directory = copy(&fixture(version));
        let mut removed = 0;
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "hint") {
                std::fs::remove_file(path).unwrap();
                removed += 1;
            }
        }
        assert!(removed > 0);
        verify_version(directory.path(), version).await;
    }
}

#[tokio::test]
async fn the_current_format_is_read_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path()).await;
    verify(directory.path()).await;
}

/// Run after raising the format version: `cargo test -p peeklock-storage --test fixtures -- --ignored`.
#[tokio::test]
#[ignore = "writes a fixture instead of testing"]
async fn write_a_fixture() {
    let path = fixture(2);
    std::fs::create_dir_all(&path).unwrap();
    write(&path).await;
    write_cleaned(&path).await;
}
