//! Figures of the database on the metrics page.

use peeklock_metrics::Metrics;
use peeklock_postgres::DatabaseWatch;

use crate::harness::{Trio, eventually};

/// `FIRST 1` has one standby confirm commits; another one replaces it when it is lost.
#[tokio::test]
async fn a_standby_that_would_replace_the_confirming_one_counts() {
    let Some(trio) = Trio::start() else { return };
    trio.primary.sql("grant pg_monitor to app");
    trio.primary.set("synchronous_standby_names", "'FIRST 1 (*)'");
    let states = "select string_agg(sync_state, ' ' order by sync_state) from pg_stat_replication";
    trio.primary.await_sql(states, "potential sync");
    let metrics = Metrics::default();
    metrics.register(DatabaseWatch::start(trio.database("watched")));
    for shown in ["receiving\"} 2", "confirming\"} 2"] {
        let shown = format!("peeklock_postgres_standbys{{standbys=\"{shown}");
        eventually(&shown, || async { metrics.text().unwrap().contains(&shown) }).await;
    }
}
