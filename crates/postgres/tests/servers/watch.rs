//! Figures of the database on the metrics page.

use std::time::Duration;

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

/// The old primary keeps running: its figures would hide that the new one has a standby.
#[tokio::test(flavor = "multi_thread")]
async fn the_figures_are_those_of_the_primary_after_a_fail_over() {
    let Some(mut trio) = Trio::start() else { return };
    trio.primary.sql("grant pg_monitor to app");
    let (database, metrics) = (trio.database("moved"), Metrics::default());
    metrics.register(DatabaseWatch::start_with_pause(database.clone(), Duration::from_millis(50)));
    let shows = |count: &str| {
        let shown = format!("peeklock_postgres_standbys{{standbys=\"confirming\"}} {count}\n");
        let metrics = metrics.clone();
        async move { metrics.text().unwrap().contains(&shown) }
    };
    eventually("both standbys confirm", || shows("2")).await;
    trio.separate();
    eventually("the old primary has no standby", || shows("0")).await;
    trio.promote();
    database.connect("append").await.unwrap();
    eventually("the new primary has one", || shows("1")).await;
    trio.primary.stop();
}
