//! Backlogs that grow, shrink or keep their size.

use std::collections::VecDeque;
use std::time::Instant;

use peeklock_storage::{PartitionId, Shard};

use super::{IN_FLIGHT, body, complete, cpu, line, open, runtime, send};

/// Partitions of the flows.
const FLOW_PARTITIONS: u64 = 16;
/// Messages of each flow.
const FLOW: u64 = 600_000;

pub(super) fn flows(directory: &tempfile::TempDir) {
    let (store, shard) = open(directory.path());
    let metrics = peeklock_metrics::Metrics::default();
    metrics.register(store.figures());
    let mut next = 1;
    // How many messages each flow sends, and how far behind its consumers are.
    for (name, sent, lag) in [
        ("warm", FLOW, 0),
        ("growing", FLOW, FLOW),
        ("draining", 0, 0),
        ("1 000 behind", FLOW, 1_000),
        ("50 000 behind", FLOW, 50_000),
        ("300 000 behind", FLOW, 300_000),
    ] {
        let begun = (cpu(), Instant::now(), copied_mib(&metrics));
        let steps = runtime().block_on(flow(&*shard, &mut next, sent, lag));
        #[expect(clippy::cast_precision_loss, reason = "some hundred thousand")]
        let count = steps as f64;
        line(&format!(
            "{name}: {:.0}/s, {:.2} us CPU each, {} MiB copied by the cleaner",
            count / begun.1.elapsed().as_secs_f64(),
            (cpu() - begun.0).as_secs_f64() * 1e6 / count,
            copied_mib(&metrics) - begun.2
        ));
        if lag > 0 && sent > 0 && name != "growing" {
            runtime().block_on(flow(&*shard, &mut next, 0, 0));
        }
    }
    store.close();
}

/// MiB that the cleaner has copied so far.
fn copied_mib(metrics: &peeklock_metrics::Metrics) -> u64 {
    let page = metrics.text().expect("a page");
    let value = page.lines().find_map(|line| line.strip_prefix("peeklock_storage_cleaned_bytes_total "));
    value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0) >> 20
}

/// Sends `sent` messages and completes each one `lag` messages later (for every other partition, a tenth of that). If
/// none are sent, completes the whole backlog. Returns the number of steps.
async fn flow(shard: &dyn Shard, next: &mut u64, sent: u64, lag: u64) -> u64 {
    let body = body();
    let mut in_flight = VecDeque::new();
    let first = *next;
    let count = if sent == 0 { FLOW } else { sent };
    for number in first..first + count {
        let lag = if number.is_multiple_of(2) { lag / 10 } else { lag };
        if sent > 0 {
            in_flight.push_back(shard.submit(send(PartitionId(number % FLOW_PARTITIONS), number, &body)));
        }
        let done = number.saturating_sub(if sent == 0 { FLOW } else { lag.max(IN_FLIGHT as u64) });
        if (sent == 0 || lag < FLOW) && done > 0 {
            in_flight.push_back(shard.submit(complete(PartitionId(done % FLOW_PARTITIONS), done)));
        }
        while in_flight.len() > 2 * IN_FLIGHT
            && let Some(commit) = in_flight.pop_front()
        {
            commit.await.expect("durable");
        }
    }
    for commit in in_flight {
        commit.await.expect("durable");
    }
    if sent > 0 {
        *next += sent;
    }
    count
}
