use peeklock_metrics::Metrics;

use super::*;

fn value_of(metrics: &Metrics, series: &str) -> u64 {
    let text = metrics.text().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

#[tokio::test]
async fn syncs_batches_and_bytes_are_counted() {
    let disk = SimulatedDisk::new();
    let (store, shard) = open(&disk);
    let metrics = Metrics::default();
    metrics.register(store.figures());
    for number in 1..=60 {
        shard.submit(send(number)).await.unwrap();
    }
    for number in 1..=30 {
        shard.submit(complete(number)).await.unwrap();
    }
    assert_eq!(value_of(&metrics, "peeklock_storage_batches_total"), 90);
    let syncs = value_of(&metrics, "peeklock_storage_syncs_total");
    assert!((1..=90).contains(&syncs), "{syncs}");
    assert_eq!(value_of(&metrics, "peeklock_storage_sync_duration_seconds_count"), syncs);
    let written = value_of(&metrics, "peeklock_storage_written_bytes_total");
    let live = value_of(&metrics, "peeklock_storage_bytes{kind=\"live\"}");
    assert!(live > 30 * 300 && written > live, "{live} live, {written} written");
    assert!(value_of(&metrics, "peeklock_storage_bytes{kind=\"allocated\"}") >= live);
    assert!(value_of(&metrics, "peeklock_storage_segments") >= 2);
    assert_eq!(value_of(&metrics, "peeklock_storage_pressure"), 0);
    store.close();
    assert!(
        metrics.text().unwrap().contains("peeklock_storage_batches_total 90\n"),
        "counters outlive the store"
    );
}
