//! Properties of the machine, for the interpretation of the figures.

use std::fs::{self, File};
use std::io::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

/// Number of syncs timed.
const SYNCS: usize = 200;

/// Cores, processor, memory, kernel, load, and the duration of a sync of 4 KiB in the daemons' data directory.
pub(crate) fn facts() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load": read("/proc/loadavg").trim(),
        "sync_p50_us": sync_p50_us(),
    })
}

/// The median time of appending 4 KiB to a preallocated file and syncing it.
fn sync_p50_us() -> f64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("probe");
    let block = [0; 4096];
    let mut file = File::create(&path).unwrap();
    (0..SYNCS).for_each(|_| file.write_all(&block).unwrap());
    file.sync_all().unwrap();
    let mut file = File::options().write(true).open(&path).unwrap();
    let mut times: Vec<f64> = (0..SYNCS)
        .map(|_| {
            let start = Instant::now();
            file.write_all(&block).unwrap();
            file.sync_data().unwrap();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
