//! Messages sent and settled through a store, like those of a broker under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use peeklock_postgres::{Database, PostgresLogs, TokioEnvironment};
use peeklock_storage::cluster::{ClusterOptions, ClusterStore};
use peeklock_storage::{Batch, Key, Lease, PartitionId, ShardId, Space, Store};

const PARTITIONS: u64 = 16;
/// Batches under way in each partition.
const AT_A_TIME: u64 = 2;
const MESSAGES: u64 = 32;
const HEAD_BYTES: usize = 100;
const BODY_BYTES: usize = 1 << 10;

/// Incompressible bytes.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 24) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

fn batch(partition: u64, first: u64, bytes: &Bytes, is_sent: bool) -> Batch {
    let mut batch = Batch::new();
    for number in first..first + MESSAGES {
        let key = |space| Key::new(space, PartitionId(partition), number);
        if is_sent {
            let at = (number as usize * 7919) % (bytes.len() - BODY_BYTES);
            batch.put(key(Space::Head), bytes.slice(at..at + HEAD_BYTES));
            batch.put(key(Space::Body), bytes.slice(at..at + BODY_BYTES));
        } else {
            batch.delete(key(Space::Head));
            batch.delete(key(Space::Body));
        }
    }
    batch
}

async fn send_and_settle(
    lease: Lease,
    partition: u64,
    first: u64,
    bytes: Bytes,
    stops: Arc<AtomicBool>,
    settled: Arc<AtomicU64>,
) {
    for number in (first..).step_by((MESSAGES * AT_A_TIME) as usize) {
        if stops.load(Ordering::Relaxed) {
            return;
        }
        lease.submit(batch(partition, number, &bytes, true)).await.unwrap();
        lease.submit(batch(partition, number, &bytes, false)).await.unwrap();
        settled.fetch_add(MESSAGES, Ordering::Relaxed);
    }
}

/// Prints messages per second.
pub(crate) async fn run(database: Database, duration: Duration, ahead: usize) {
    let logs = Arc::new(PostgresLogs::new(database));
    let options = ClusterOptions { records_under_way_max: ahead, ..ClusterOptions::default() };
    let store = ClusterStore::new(logs, options, Arc::new(TokioEnvironment)).unwrap();
    let lease = store.acquire(ShardId(0)).await.unwrap();
    let bytes = Bytes::from(noise(16 << 10));
    let (stops, settled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    // Numbers are never reused, over all runs on the same servers.
    let base = u64::from(lease.epoch().0 as u32) << 24;
    let start = Instant::now();
    let mut tasks = Vec::new();
    for partition in 1..=PARTITIONS {
        for first in (0..AT_A_TIME).map(|at| base + at * MESSAGES) {
            let (bytes, stops, settled) = (bytes.clone(), Arc::clone(&stops), Arc::clone(&settled));
            tasks.push(tokio::spawn(send_and_settle(lease.clone(), partition, first, bytes, stops, settled)));
        }
    }
    tokio::time::sleep(duration).await;
    stops.store(true, Ordering::Relaxed);
    let count = settled.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await;
    println!("{count:.0} messages/s sent and settled");
}
