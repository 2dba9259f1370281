//! Servers, links and records for the tests.

mod proxy;
mod server;
mod trio;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use peeklock_postgres::{Database, PostgresLogs, TokioEnvironment};
use peeklock_storage::cluster::{
    ClusterOptions, ClusterStore, Logs, NewRecord, RecordId, RecordKind, RecordPlace, ReplicatedLog,
    StoredRecord,
};
use peeklock_storage::{Batch, Epoch, Key, Lease, PartitionId, ShardId, Space, Store};

pub(crate) use proxy::{Link, Proxy};
pub(crate) use server::{Server, database, options};
pub(crate) use trio::Trio;

pub(crate) const SHARD: ShardId = ShardId(0);
pub(crate) const QUEUE: PartitionId = PartitionId(1);

/// The log of shard 0, as seen by one node.
pub(crate) fn log(database: Database) -> Arc<dyn ReplicatedLog> {
    PostgresLogs::new(database).log(SHARD)
}

/// A record with these heads and bodies.
pub(crate) fn record(place: u64, epoch: u64, heads: &str, bodies: &str) -> NewRecord {
    let id = id(place, epoch);
    let (heads, bodies) =
        (Bytes::copy_from_slice(heads.as_bytes()), Bytes::copy_from_slice(bodies.as_bytes()));
    NewRecord { id, kind: RecordKind::Commit, heads, bodies }
}

pub(crate) fn id(place: u64, epoch: u64) -> RecordId {
    RecordId { place: RecordPlace(place), epoch: Epoch(epoch) }
}

/// Opens the log and seizes it in `epoch`; returns the owner record's place.
pub(crate) async fn own(log: &Arc<dyn ReplicatedLog>, epoch: u64) -> u64 {
    loop {
        let tail = log.open().await.unwrap();
        match log.seize(tail.last, Epoch(epoch)).await {
            Ok(()) => return tail.last.place.0 + 1,
            Err(peeklock_storage::Error::Fenced { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// All records from the first on.
pub(crate) async fn all(log: &Arc<dyn ReplicatedLog>) -> Vec<StoredRecord> {
    let mut found: Vec<StoredRecord> = Vec::new();
    loop {
        let from = found.last().map_or(RecordPlace(1), |last| last.id.place.next());
        let page = log.heads(from).await.unwrap();
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

/// A store over `database` with small limits.
pub(crate) fn store(database: Database) -> ClusterStore {
    store_with(database, small())
}

pub(crate) fn store_with(database: Database, options: ClusterOptions) -> ClusterStore {
    ClusterStore::new(Arc::new(PostgresLogs::new(database)), options, Arc::new(TokioEnvironment)).unwrap()
}

/// Small limits, so that few messages reach each of them.
pub(crate) fn small() -> ClusterOptions {
    ClusterOptions {
        record_bytes_max: 1 << 10,
        checkpoint_bytes: 4 << 10,
        checkpoint_records: 1_000,
        part_bytes: 512,
        clean_bytes_per_round: 64 << 10,
        cache_bytes: 4 << 10,
        round_pause: Duration::from_millis(20),
        ..ClusterOptions::default()
    }
}

pub(crate) async fn acquire(store: &ClusterStore) -> Lease {
    store.acquire(SHARD).await.unwrap()
}

/// A message as the broker stores it.
pub(crate) fn send(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Head, QUEUE, number), value(number, 20));
    batch.put(Key::new(Space::Body, QUEUE, number), value(number, 300));
    batch
}

pub(crate) fn value(number: u64, len: usize) -> Bytes {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The numbers of the existing messages, each with a body.
pub(crate) async fn messages(lease: &Lease) -> Vec<u64> {
    let (mut found, mut from) = (Vec::new(), Some(0));
    while let Some(number) = from {
        let page = lease.scan(Space::Head, QUEUE, number).await.unwrap();
        from = page.next;
        found.extend(page.entries.into_iter().map(|entry| entry.number));
    }
    let keys = found.iter().map(|number| Key::new(Space::Body, QUEUE, *number)).collect();
    let bodies = lease.read(keys).await.unwrap();
    for (number, body) in found.iter().zip(bodies) {
        assert_eq!(body, Some(value(*number, 300)), "{number}");
    }
    found
}

/// Repeats the check until `holds` returns true.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    for _ in 0..3_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}
