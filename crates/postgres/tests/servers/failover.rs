//! Fail-over to another server, with all acknowledged records or without some.

use std::sync::Arc;
use std::time::Duration;

use peeklock_cluster::LeaseTable;
use peeklock_metrics::Metrics;
use peeklock_postgres::{Durability, PostgresLeases, PostgresMetrics};
use peeklock_storage::cluster::{ClusterStore, Logs, RecordPlace};
use peeklock_storage::{Epoch, Error, Lease, Store};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::harness::{
    SHARD, Server, Trio, acquire, all, database, eventually, id, log, messages, options, own, record, send,
    store,
};
use crate::leases::renewal;

/// Submits messages, some at a time, and records which were acknowledged.
fn submit_on(lease: Lease) -> (Arc<Mutex<Vec<u64>>>, tokio::task::JoinHandle<()>) {
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&acknowledged);
    let task = tokio::spawn(async move {
        for first in (1..).step_by(16) {
            let commits: Vec<_> =
                (first..first + 16).map(|number| (number, lease.submit(send(number)))).collect();
            for (number, commit) in commits {
                commit.await.unwrap();
                noted.lock().await.push(number);
            }
        }
    });
    (acknowledged, task)
}

async fn await_count(acknowledged: &Mutex<Vec<u64>>, least: usize) {
    eventually("commits", || async { acknowledged.lock().await.len() >= least }).await;
}

impl Trio {
    /// Crashes the primary, and promotes the most advanced standby; the other one follows it.
    fn fail_over(&mut self) {
        self.primary.kill();
        self.promote_most_advanced();
    }

    /// Promotes the most advanced standby, and returns its index.
    fn promote_most_advanced(&self) -> usize {
        let received = |server: &Server| {
            server
                .sql("select coalesce(pg_last_wal_receive_lsn(), '0/0') - '0/0'::pg_lsn")
                .parse::<u64>()
                .unwrap()
        };
        let best = usize::from(received(&self.standbys[1]) > received(&self.standbys[0]));
        self.standbys[best].promote();
        let to = format!("'host=127.0.0.1 port={} user=root application_name=s'", self.standbys[best].port);
        self.standbys[1 - best].sql(&format!("alter system set primary_conninfo = {to}"));
        self.standbys[1 - best].sql("select pg_reload_conf()");
        self.standbys[best]
            .await_sql("select count(*) from pg_stat_replication where state = 'streaming'", "1");
        best
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_commit_is_lost_when_the_primary_is_killed_and_a_standby_promoted() {
    let Some(mut trio) = Trio::start() else { return };
    let serving = store(trio.database("killed"));
    let lease = acquire(&serving).await;
    let (acknowledged, task) = submit_on(lease.clone());
    await_count(&acknowledged, 200).await;
    trio = tokio::task::spawn_blocking(move || {
        trio.fail_over();
        trio
    })
    .await
    .unwrap();
    let before = acknowledged.lock().await.len();
    await_count(&acknowledged, before + 200).await;
    task.abort();
    assert_eq!(lease.loss(), None, "the owner goes on as if nothing had happened");
    let reader = store(trio.database("killed"));
    let found = messages(&acquire(&reader).await).await;
    let acknowledged = acknowledged.lock().await;
    assert!(acknowledged.iter().all(|number| found.binary_search(number).is_ok()), "a message was lost");
}

/// The old primary keeps running without standbys, and is the first host of the URL.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_primary_that_was_left_behind_is_neither_used_nor_believed() {
    let Some(mut trio) = Trio::start() else { return };
    let old = log(database(trio.options("behind").with_silence(Duration::from_millis(400))));
    let owned = own(&old, 1).await;
    old.append(record(owned + 1, 1, "kept", "b")).await.unwrap();
    trio.separate();
    let lonely = old.append(record(owned + 2, 1, "lonely", "b")).await;
    assert!(matches!(lonely, Err(Error::InDoubt { .. })), "{lonely:?}");
    trio.promote();
    let tail = old.open().await.unwrap();
    assert_eq!(tail.last, id(owned + 1, 1), "the record that no standby has");
    let new = log(trio.database("behind"));
    let seized = own(&new, 2).await;
    assert_eq!(seized, owned + 2);
    assert_eq!(all(&new).await.len(), 3);
    trio.primary.stop();
}

/// The common part of an asynchronous fail-over and a restored backup: another server, without the last commits.
async fn lose_commits(schema: &str) -> Option<(ClusterStore, Lease, Server)> {
    let mut server = Server::start("")?;
    let mut port = server.port;
    let alone = |server: &Server, port| {
        let url = format!("postgres://app:secret@127.0.0.1:{},127.0.0.1:{port}/app", server.port);
        options(&url, schema).with_durability(Durability::Service)
    };
    let early = store(database(alone(&server, port)));
    acquire(&early).await.submit(send(1)).await.unwrap();
    early.close().await;
    server.stop();
    let mut backup = server.copy("");
    port = backup.port;
    server.launch();
    let serving = store(database(alone(&server, port)));
    let lease = acquire(&serving).await;
    for number in 2..=5 {
        lease.submit(send(number)).await.unwrap();
    }
    server.stop();
    backup.launch();
    Some((serving, lease, backup))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_refuses_a_database_that_lost_acknowledged_commits() {
    let Some((_serving, lease, _backup)) = lose_commits("lost").await else { return };
    let refused = lease.submit(send(6)).await;
    assert!(matches!(refused, Err(Error::Stopped { .. })), "{refused:?}");
    let cause = lease.lost().await;
    assert!(matches!(cause, Error::Corrupt { .. }), "{cause:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_knows_of_lost_commits_does_not_take_the_shard_over() {
    let Some((serving, _lease, backup)) = lose_commits("lost_too").await else { return };
    let refused = serving.acquire(SHARD).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    // A log that knows the last record does not read from this server either.
    let url = backup.url();
    let fresh = options(&url, "lost_too").with_durability(Durability::Service);
    let logs = peeklock_postgres::PostgresLogs::new(
        peeklock_postgres::Database::new(fresh, PostgresMetrics::default()).unwrap(),
    );
    assert!(logs.log(SHARD).open().await.is_ok(), "one that knows nothing takes what is there");
}

/// The other node has acknowledged records since; this one stood by.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stood_by_refuses_a_database_that_lost_what_it_has_seen() {
    let Some(mut server) = Server::start("") else { return };
    let service = |server: &Server| server.options("observed").with_durability(Durability::Service);
    let serving = store(database(service(&server)));
    acquire(&serving).await.submit(send(1)).await.unwrap();
    serving.close().await;
    server.stop();
    let mut backup = server.copy("");
    server.launch();
    let serving = store(database(service(&server)));
    let lease = acquire(&serving).await;
    for number in 2..=5 {
        lease.submit(send(number)).await.unwrap();
    }
    let url = format!("postgres://app:secret@127.0.0.1:{},127.0.0.1:{}/app", server.port, backup.port);
    let database = database(options(&url, "observed").with_durability(Durability::Service));
    let standby = store(database.clone());
    let noted = standby.clone();
    let leases = PostgresLeases::observing(database, move |shard, last| noted.note_durable(shard, last));
    leases.renew(renewal("b", 1)).await.unwrap();
    drop((serving, lease));
    server.stop();
    backup.launch();
    let refused = standby.acquire(SHARD).await.map(|_| ());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

/// A restarted primary shows a record that no other machine has. Nobody has acknowledged it, so nobody may miss it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stands_by_believes_no_record_that_is_on_the_primary_only() {
    let Some(mut server) = Server::start("") else { return };
    let alone = server.options("alone").with_durability(Durability::Service);
    own(&log(database(alone)), 1).await;
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let options = server.options("alone").with_silence(Duration::from_millis(500));
    let leases = PostgresLeases::observing(database(options.clone()), move |shard, last| {
        noted.lock().unwrap().push((shard, last));
    });
    server.set("synchronous_standby_names", "'ANY 1 (missing)'");
    let lonely = log(database(options));
    lonely.open().await.unwrap();
    lonely.append(record(2, 1, "lonely", "b")).await.unwrap_err();
    server.kill();
    server.launch();
    assert_eq!(server.sql("select count(*) from alone.log where place = 2"), "1", "it shows the record");
    let unconfirmed = timeout(Duration::from_secs(1), leases.renew(renewal("b", 1))).await;
    assert!(unconfirmed.is_err(), "{unconfirmed:?}");
    assert_eq!(*seen.lock().unwrap(), []);
    server.set("synchronous_standby_names", "''");
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    let service = server.options("alone").with_durability(Durability::Service);
    let noted = Arc::clone(&seen);
    let leases = PostgresLeases::observing(database(service), move |shard, last| {
        noted.lock().unwrap().push((shard, last));
    });
    leases.renew(renewal("b", 1)).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [(SHARD, id(2, 1))]);
}

/// While the new primary can't be reached for a moment, the old one is there and lacks acknowledged records. That is no
/// loss.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_primary_alone_is_not_mistaken_for_a_log_that_lost_records() {
    let Some(mut trio) = Trio::start() else { return };
    let database = trio.database("waited");
    let metrics = Metrics::default();
    metrics.register(database.metrics().clone());
    let serving = store(database);
    let lease = acquire(&serving).await;
    lease.submit(send(1)).await.unwrap();
    for standby in &trio.standbys {
        standby.sql("alter system set primary_conninfo = 'host=127.0.0.1 port=1'");
        standby.sql("select pg_reload_conf()");
    }
    trio.primary.await_sql("select count(*) from pg_stat_replication", "0");
    let new = trio.promote_most_advanced();
    trio.primary.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'");
    lease.submit(send(2)).await.unwrap();
    // The old primary was restarted, so no session waits there.
    trio.primary.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'");
    trio.standbys[new].stop();
    let waiting = lease.submit(send(3));
    let refusals = || {
        let text = metrics.text().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("peeklock_postgres_refusals_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    // Each attempt finds the old primary, and refuses it.
    let before = refusals();
    eventually("attempts to go on", || async { refusals() >= before + 3 }).await;
    assert_eq!(lease.loss(), None);
    trio.standbys[new].launch();
    waiting.await.unwrap();
    trio.primary.stop();
}

/// A fail-over that fences the old primary by making it read-only, and leaves its connections open.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_accepts_no_writes_any_more_is_left_for_the_new_primary() {
    let Some(mut trio) = Trio::start() else { return };
    let log = log(trio.database("read_only"));
    let owned = own(&log, 1).await;
    let table = PostgresLeases::new(trio.database("read_only"));
    let remove = || log.drop_bodies(Epoch(1), vec![RecordPlace(owned)]);
    remove().await.unwrap();
    table.renew(renewal("a", 1)).await.unwrap();
    trio.primary.set("default_transaction_read_only", "on");
    let is_read_only =
        |error: String| error.contains("25006") || error.contains("default_transaction_read_only");
    let refused = || async {
        let (renewed, removed) = (table.renew(renewal("a", 1)).await, remove().await);
        let renewed = renewed.map_or_else(|error| is_read_only(error.to_string()), |_| false);
        renewed && removed.map_or_else(|error| is_read_only(error.to_string()), |()| false)
    };
    eventually("the server refuses", refused).await;
    trio.separate();
    trio.promote();
    assert_eq!(table.renew(renewal("a", 1)).await.unwrap().leases.len(), 3);
    remove().await.unwrap();
    trio.primary.stop();
}
