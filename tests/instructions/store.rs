//! The log without its threads, on a real directory.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use peeklock_storage::local::RealFilesystem;
use peeklock_storage::{Batch, Key, LocalOptions, PartitionId, Shard, Space, SteppedStore};

const PARTITION: PartitionId = PartitionId(1);
/// Messages in a batch, as in a partition's turn.
const BATCH: u64 = 64;
const HEAD: &[u8] = &[7; 64];
const BODY: &[u8] = &[7; 1024];

/// Stores `messages`, each a head and a body.
pub(crate) fn put(messages: u64) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for first in (0..messages / BATCH).map(|batch| batch * BATCH) {
        commit(&store, puts(first));
    }
}

/// Stores `messages` and removes each batch after storing it.
pub(crate) fn put_and_delete(messages: u64) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    for first in (0..messages / BATCH).map(|batch| batch * BATCH) {
        commit(&store, puts(first));
        let mut batch = Batch::new();
        for number in first..first + BATCH {
            batch.delete(Key::new(Space::Head, PARTITION, number));
            batch.delete(Key::new(Space::Body, PARTITION, number));
        }
        commit(&store, batch);
    }
}

fn open(directory: &tempfile::TempDir) -> SteppedStore {
    SteppedStore::open(Arc::new(RealFilesystem), directory.path(), LocalOptions::default()).unwrap()
}

fn puts(first: u64) -> Batch {
    let mut batch = Batch::new();
    for number in first..first + BATCH {
        batch.put(Key::new(Space::Head, PARTITION, number), Bytes::from_static(HEAD));
        batch.put(Key::new(Space::Body, PARTITION, number), Bytes::from_static(BODY));
    }
    batch
}

fn commit(store: &SteppedStore, batch: Batch) {
    let commit = pin!(store.submit(batch));
    while store.write(usize::MAX) > 0 {}
    let durable = commit.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(durable, Poll::Ready(Ok(()))), "{durable:?}");
}
