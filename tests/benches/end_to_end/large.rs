//! Large messages, compared with the log alone.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use peeklock_storage::{Batch, Key, LocalOptions, LocalStore, PartitionId, ShardId, Space};

use crate::figures::Figure;
use crate::load::Load;
use crate::work::in_turn;

/// Duration of writing to the log alone, after a warm-up of the same duration.
const TIME: Duration = Duration::from_secs(3);
/// Approximate bytes of a message's head in the log.
const HEAD_BYTES: usize = 40;

/// The case, and the same messages written to a log in this process before and after.
pub(crate) fn measure(binary: &Path, load: &Load) -> Vec<Figure> {
    let before = log_per_s(load);
    let mut figures = in_turn(binary, load);
    let log_per_s = f64::midpoint(before, log_per_s(load));
    let found = |name| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    let sent = found("send_per_s").unwrap() / log_per_s;
    let received = found("receive_per_s").unwrap() / log_per_s;
    figures.extend([
        Figure::higher("log_alone_per_s", log_per_s),
        Figure::higher("send_of_log", sent),
        Figure::higher("receive_of_log", received),
    ]);
    figures
}

/// Messages per second written to the log alone; each is deleted again, so that segments are reused.
fn log_per_s(load: &Load) -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let store = LocalStore::open(directory.path(), LocalOptions::default()).unwrap();
    let lease = store.acquire_now(ShardId(0)).unwrap();
    let shard = lease.shard();
    let body = Bytes::from(vec![b'x'; load.body_bytes]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut next = 0;
    let mut put_for = |time: Duration| {
        runtime.block_on(async {
            let (first, start) = (next, Instant::now());
            let mut under_way = VecDeque::new();
            while start.elapsed() < time {
                while under_way.len() < load.window as usize {
                    let (partition, number) = (PartitionId(1), next);
                    next += 1;
                    let mut batch = Batch::new();
                    batch.put(Key::new(Space::Head, partition, number), body.slice(..HEAD_BYTES));
                    batch.put(Key::new(Space::Body, partition, number), body.clone());
                    if let Some(old) = number.checked_sub(u64::from(load.messages)) {
                        batch.delete(Key::new(Space::Head, partition, old));
                        batch.delete(Key::new(Space::Body, partition, old));
                    }
                    under_way.push_back(shard.submit(batch));
                }
                under_way.pop_front().unwrap().await.unwrap();
            }
            for commit in under_way {
                commit.await.unwrap();
            }
            (next - first) as f64 / start.elapsed().as_secs_f64()
        })
    };
    put_for(TIME);
    put_for(TIME)
}
