//! Throughput of the log under load, compared with the limit of the same disk.
//!
//! `cargo bench -p peeklock-storage --bench log` (optionally with a data directory as `PEEKLOCK_BENCH_DIR`, which
//! should be on the disk that will be used, not in memory)
//!
//! * **bound**: 1 KB records appended to a prepared file, 256 to a write, one `fdatasync` each.
//! * **pairs**: 256 producers in flight; each sends a 1 KB message (head and body), waits until it is durable,
//!   completes it (two removals) and waits again. One pair moves as many bytes as one record of the bound, and
//!   needs two durable answers.
//! * **backlog**: 64 partitions, 640 000 messages waiting; each step sends one and completes the oldest or a random
//!   one, so that the cleaner must work. The longest commit shows whether the cleaner delays commits.
//! * **logs**: the same pairs over one, two and four logs on one machine, each with its own thread, directory and
//!   producer: the gain from several shards on one machine.
//! * **flows**: 16 partitions; a backlog that grows, one that is drained, and consumers that stay some thousand
//!   messages behind. For each, the CPU time per message with its producer and consumer, and the bytes that the cleaner
//!   copied.
//! * **start**: from nothing to the first durable message.
//! * **reopen**: a million waiting messages, from `acquire` to the end of a scan of all heads.
#![expect(clippy::expect_used, reason = "a benchmark that can't run has nothing to report")]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use peeklock_storage::{Batch, Key, LocalOptions, LocalStore, PartitionId, Shard, ShardId, Space};

mod flows;

const MESSAGE_BYTES: usize = 1024;
const HEAD_BYTES: usize = 64;
const IN_FLIGHT: usize = 256;
const ROUNDS: usize = 9;
const BACKLOG: u64 = 640_000;
const BACKLOG_PARTITIONS: u64 = 64;
const REOPENED: u64 = 1_000_000;

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let wanted = |name: &str| {
        let named: Vec<String> =
            std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
        named.is_empty() || named.iter().any(|argument| argument == name)
    };
    let place = std::env::var_os("PEEKLOCK_BENCH_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    std::fs::create_dir_all(&place).expect("the bench directory can be created");
    if wanted("start") {
        start(&directory(&place));
    }
    if wanted("pairs") {
        bound_and_pairs(&directory(&place));
    }
    if wanted("logs") {
        logs(&place);
    }
    if wanted("backlog") {
        backlog(&directory(&place));
    }
    if wanted("flows") {
        flows::flows(&directory(&place));
    }
    if wanted("reopen") {
        reopen(&directory(&place));
    }
}

fn line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn directory(place: &Path) -> tempfile::TempDir {
    tempfile::tempdir_in(place).expect("a directory can be created")
}

fn body() -> Bytes {
    Bytes::from((0..MESSAGE_BYTES).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect::<Vec<_>>())
}

fn send(partition: PartitionId, number: u64, body: &Bytes) -> Batch {
    let mut batch = Batch::new();
    batch.put(Key::new(Space::Head, partition, number), body.slice(..HEAD_BYTES));
    batch.put(Key::new(Space::Body, partition, number), body.clone());
    batch
}

fn complete(partition: PartitionId, number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.delete(Key::new(Space::Head, partition, number));
    batch.delete(Key::new(Space::Body, partition, number));
    batch
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// Alternates the two measurements, because the speed of a shared disk varies from second to second.
fn bound_and_pairs(directory: &tempfile::TempDir) {
    let raw = Raw::prepare(directory);
    let (store, shard) = open(directory.path());
    let runtime = runtime();
    let mut next = 0;
    runtime.block_on(pairs(&*shard, &mut next, Duration::from_secs(3)));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let bound = raw.rate(Duration::from_secs(1));
        let mut pairs = runtime.block_on(pairs(&*shard, &mut next, Duration::from_secs(2)));
        line(&format!(
            "bound {bound:.0} records/s, {:.0} pairs/s ({:.2} of it), {:.2} us CPU a pair with its producer, {}",
            pairs.rate,
            pairs.rate / bound,
            pairs.cpu_us,
            percentiles(&mut pairs.latencies)
        ));
        rounds.push((pairs.rate, bound));
    }
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    if let (Some(median), Some(best)) = (rounds.get(ROUNDS / 2), rounds.last()) {
        line(&format!("pairs: median {:.0}/s, best {:.0}/s", median.0, best.0));
    }
    store.close();
}

/// Several logs at once; reports the sum of their rates. Alternates the counts, because the speed of a shared disk
/// varies.
fn logs(place: &Path) {
    for count in [1, 2, 4, 2, 1] {
        let directories: Vec<_> = (0..count).map(|_| directory(place)).collect();
        let begun = cpu();
        let done = std::thread::scope(|scope| {
            let threads: Vec<_> = directories.iter().map(|one| scope.spawn(|| one_of_many(one))).collect();
            threads.into_iter().filter_map(|thread| thread.join().ok()).collect::<Vec<_>>()
        });
        let rate: f64 = done.iter().map(|pairs| pairs.rate).sum();
        let mut latencies: Vec<u32> = done.into_iter().flat_map(|pairs| pairs.latencies).collect();
        let cpu = (cpu() - begun).as_secs_f64();
        line(&format!("{count} logs: {rate:.0} pairs/s, {cpu:.1} s CPU, {}", percentiles(&mut latencies)));
    }
}

fn one_of_many(directory: &tempfile::TempDir) -> Pairs {
    let (store, shard) = open(directory.path());
    let (runtime, mut next) = (runtime(), 0);
    runtime.block_on(pairs(&*shard, &mut next, Duration::from_secs(2)));
    let measured = runtime.block_on(pairs(&*shard, &mut next, Duration::from_secs(3)));
    store.close();
    measured
}

/// A prepared file that is overwritten cyclically.
struct Raw(std::fs::File);

impl Raw {
    const FILE_BYTES: u64 = 64 << 20;

    fn prepare(directory: &tempfile::TempDir) -> Self {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::create(directory.path().join("raw")).expect("a file can be created");
        let zeros = vec![0; 1 << 20];
        for at in 0..Self::FILE_BYTES >> 20 {
            file.write_all_at(&zeros, at << 20).expect("written");
        }
        file.sync_data().expect("synced");
        Self(file)
    }

    /// Records per second.
    fn rate(&self, duration: Duration) -> f64 {
        use std::os::unix::fs::FileExt;
        let records = vec![7; MESSAGE_BYTES * IN_FLIGHT];
        let started = Instant::now();
        let (mut writes, mut offset) = (0u32, 0);
        while started.elapsed() < duration {
            self.0.write_all_at(&records, offset).expect("written");
            self.0.sync_data().expect("synced");
            writes += 1;
            offset = (offset + records.len() as u64) % Self::FILE_BYTES;
        }
        f64::from(writes) * f64::from(u32::try_from(IN_FLIGHT).unwrap_or(0)) / started.elapsed().as_secs_f64()
    }
}

fn open(path: &Path) -> (LocalStore, Arc<dyn Shard>) {
    let store = LocalStore::open(path, LocalOptions::default()).expect("opened");
    let lease = store.acquire_now(ShardId(0)).expect("acquired");
    (store, Arc::clone(lease.shard()))
}

fn start(directory: &tempfile::TempDir) {
    let started = Instant::now();
    let (_store, shard) = open(directory.path());
    runtime().block_on(shard.submit(send(PartitionId(1), 1, &body()))).expect("durable");
    let elapsed = started.elapsed().as_secs_f64() * 1e3;
    line(&format!("start: {elapsed:.1} ms to the first durable message, {} MiB resident", resident_mib()));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
}

/// Latencies in microseconds as text.
fn percentiles(latencies: &mut [u32]) -> String {
    latencies.sort_unstable();
    let at = |share: usize| latencies.get((latencies.len() * share / 1000).min(latencies.len() - 1)).copied();
    format!(
        "p50 {:?} p99 {:?} max {:?} us",
        at(500).unwrap_or(0),
        at(990).unwrap_or(0),
        at(1000).unwrap_or(0)
    )
}

struct Pairs {
    rate: f64,
    cpu_us: f64,
    latencies: Vec<u32>,
}

/// Sends and completes messages, numbered from `next`, for `duration`.
async fn pairs(shard: &dyn Shard, next: &mut u64, duration: Duration) -> Pairs {
    let partition = PartitionId(1);
    let body = body();
    let mut latencies = Vec::new();
    let mut in_flight = VecDeque::new();
    let begun = cpu();
    let started = Instant::now();
    loop {
        while in_flight.len() < IN_FLIGHT && started.elapsed() < duration {
            *next += 1;
            in_flight.push_back((shard.submit(send(partition, *next, &body)), Some(*next), Instant::now()));
        }
        let Some((commit, number, since)) = in_flight.pop_front() else { break };
        commit.await.expect("durable");
        if let Some(number) = number {
            in_flight.push_back((shard.submit(complete(partition, number)), None, since));
        } else {
            latencies.push(u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
    }
    let count = f64::from(u32::try_from(latencies.len()).unwrap_or(0));
    let cpu_us = (cpu() - begun).as_secs_f64() * 1e6 / count;
    Pairs { rate: count / started.elapsed().as_secs_f64(), cpu_us, latencies }
}

fn backlog(directory: &tempfile::TempDir) {
    let (store, shard) = open(directory.path());
    let body = body();
    runtime().block_on(async {
        let mut waiting: Vec<VecDeque<u64>> = (0..BACKLOG_PARTITIONS).map(|_| VecDeque::new()).collect();
        fill(&*shard, &body, &mut waiting, BACKLOG).await;
        let mut dice = 1u64;
        let mut latencies = Vec::new();
        let mut in_flight = VecDeque::new();
        let started = Instant::now();
        let mut next = BACKLOG;
        while started.elapsed() < Duration::from_secs(20) {
            while in_flight.len() < IN_FLIGHT {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let partition = (dice >> 33) % BACKLOG_PARTITIONS;
                let Some(queue) = waiting.get_mut(usize::try_from(partition).unwrap_or(0)) else { continue };
                next += 1;
                queue.push_back(next);
                // One in eight is completed out of order, so that segments do not become empty strictly from the oldest
                // on.
                let at = if (dice >> 20).is_multiple_of(8) {
                    usize::try_from(dice >> 40).unwrap_or(0) % queue.len()
                } else {
                    0
                };
                let Some(done) = queue.remove(at) else { continue };
                let mut batch = send(PartitionId(partition), next, &body);
                for space in [Space::Head, Space::Body] {
                    batch.delete(Key::new(space, PartitionId(partition), done));
                }
                in_flight.push_back((shard.submit(batch), Instant::now()));
            }
            let Some((commit, since)) = in_flight.pop_front() else { break };
            commit.await.expect("durable");
            latencies.push(u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        let rate = f64::from(u32::try_from(latencies.len()).unwrap_or(0)) / started.elapsed().as_secs_f64();
        line(&format!(
            "backlog of {BACKLOG}: {rate:.0} pairs/s, {}, disk {} MiB",
            percentiles(&mut latencies),
            disk_mib(directory.path())
        ));
    });
    store.close();
}

async fn fill(shard: &dyn Shard, body: &Bytes, waiting: &mut [VecDeque<u64>], count: u64) {
    let mut commits = VecDeque::new();
    let partitions = waiting.len() as u64;
    for number in 1..=count {
        let partition = number % partitions;
        commits.push_back(shard.submit(send(PartitionId(partition), number, body)));
        if let Some(queue) = waiting.get_mut(usize::try_from(partition).unwrap_or(0)) {
            queue.push_back(number);
        }
        if commits.len() > 4096
            && let Some(commit) = commits.pop_front()
        {
            commit.await.expect("durable");
        }
    }
    for commit in commits {
        commit.await.expect("durable");
    }
}

fn disk_mib(path: &Path) -> u64 {
    let files = std::fs::read_dir(path).expect("listed");
    files.flatten().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum::<u64>() >> 20
}

/// Resident memory of this process in MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) >> 10
}

fn reopen(directory: &tempfile::TempDir) {
    let (store, shard) = open(directory.path());
    let mut waiting = vec![VecDeque::new()];
    let before = resident_mib();
    runtime().block_on(fill(&*shard, &body(), &mut waiting, REOPENED));
    line(&format!("memory for {REOPENED} messages: {} MiB", resident_mib().saturating_sub(before)));
    // Wait until sealing and preparing are idle, so that the copy is consistent.
    std::thread::sleep(Duration::from_secs(3));
    for how in ["killed (log scanned from the last seal)", "closed"] {
        if how == "closed" {
            store.close();
        }
        let copy = tempfile::tempdir_in(directory.path().parent().expect("a parent")).expect("a directory");
        for file in std::fs::read_dir(directory.path()).expect("listed").flatten() {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("copied");
        }
        let hints = std::fs::read_dir(copy.path()).expect("listed").flatten();
        let hints = hints.filter(|file| file.path().extension().is_some_and(|kind| kind == "hint")).count();
        let started = Instant::now();
        let (again, shard) = open(copy.path());
        let opened = started.elapsed();
        let heads = runtime().block_on(async {
            let (mut heads, mut from) = (0, Some(0));
            while let Some(number) = from {
                let page = shard.scan(Space::Head, PartitionId(0), number).await.expect("scanned");
                heads += page.entries.len();
                from = page.next;
            }
            heads
        });
        line(&format!(
            "reopen after being {how}, {hints} hints: {:.0} ms open, {:.0} ms with a scan of {heads} heads",
            opened.as_secs_f64() * 1e3,
            started.elapsed().as_secs_f64() * 1e3
        ));
        again.close();
    }
}
