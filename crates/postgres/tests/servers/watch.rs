//! Figures of the database on the metrics page.

use std::time::Duration;

use peeklock_metrics::Metrics;
use peeklock_postgres::DatabaseWatch;

use crate::harness::{Trio, database, eventually, options};

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

/// Vacuum ignores the snapshots of other databases.
#[tokio::test]
async fn a_long_transaction_counts_only_in_its_own_database() {
    let Some(trio) = Trio::start() else { return };
    trio.primary.sql("grant pg_monitor to app");
    trio.primary.sql("create database other owner app");
    let metrics = Metrics::default();
    let pause = Duration::from_millis(50);
    metrics.register(DatabaseWatch::start_with_pause(trio.database("old"), pause));
    let age = || {
        let page = metrics.text().unwrap();
        let mut lines = page.lines();
        lines.find_map(|line| line.strip_prefix("peeklock_postgres_oldest_xmin_age ")?.parse::<u64>().ok())
    };
    let mut sessions = Vec::new();
    for name in ["other", "app"] {
        let url = format!("postgres://app@127.0.0.1:{}/{name}", trio.primary.port);
        let session = database(options(&url, "long")).connect("long").await.unwrap();
        let begin = "begin isolation level repeatable read; select count(*) from pg_class";
        session.ask(session.client().batch_execute(begin)).await.unwrap();
        sessions.push(session);
    }
    trio.primary
        .sql("do $$ begin for i in 1..1000 loop perform pg_current_xact_id(); commit; end loop; end $$");
    eventually("its own counts", || async { age().is_some_and(|age| age >= 1000) }).await;
    drop(sessions.pop());
    // The transaction in the other database is as old, and is still open.
    eventually("the other does not count", || async { age().is_some_and(|age| age < 1000) }).await;
}
