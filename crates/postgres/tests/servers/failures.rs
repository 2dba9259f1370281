//! Interpretation of missing or incomplete answers.

use std::time::Duration;

use futures_util::future::join_all;
use peeklock_postgres::Durability;
use peeklock_storage::cluster::{RecordPlace, Tail};
use peeklock_storage::{Epoch, Error};

use crate::harness::{Server, Trio, all, database, id, log, own, record};

const WAITING: &str = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'";

/// A server without any of its standbys. The log of `schema` has an owner record of epoch 1.
async fn lone(schema: &str) -> Option<Server> {
    let mut server = Server::start("")?;
    let alone = server.options(schema).with_durability(Durability::Service);
    own(&log(database(alone)), 1).await;
    server.stop();
    server.configure("synchronous_standby_names = 'ANY 1 (*)'\nsynchronous_commit = local");
    server.launch();
    Some(server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_wait_for_the_standby_was_cancelled_is_in_doubt() {
    let Some(server) = lone("cancelled").await else { return };
    let database = server.database("cancelled");
    let log = log(database.clone());
    assert_eq!(log.open().await.unwrap(), Tail { last: id(1, 1), mark: None });
    let appends: Vec<_> = (2..=4).map(|place| log.append(record(place, 1, "x", "b"))).collect();
    server.await_sql(WAITING, "1");
    server.sql("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    for answer in join_all(appends).await {
        assert!(matches!(&answer, Err(Error::InDoubt { .. })), "{answer:?}");
    }
    assert_eq!(
        server.sql("select count(*) >= 1 from cancelled.log where place = 2"),
        "t",
        "it was committed"
    );
    // The session sends the next append, which waits as well: another session's append would only wait behind it.
    let refused = log.open().await.unwrap_err().to_string();
    assert!(refused.contains("wait for a standby"), "{refused}");
    let page = page(&database);
    assert!(page.contains("peeklock_postgres_in_doubt_total 3"), "{page}");
    assert!(page.contains("peeklock_postgres_unconfirmed_total 1"), "{page}");
}

/// Without the warning, an unconfirmed commit would count as acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_wait_is_in_doubt_though_the_role_hides_warnings() {
    let Some(server) = lone("hidden").await else { return };
    server.sql("alter role app set client_min_messages = error");
    let log = log(server.database("hidden"));
    log.open().await.unwrap();
    let append = log.append(record(2, 1, "x", "b"));
    server.await_sql(WAITING, "1");
    server.sql("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    let answer = append.await;
    assert!(matches!(answer, Err(Error::InDoubt { .. })), "{answer:?}");
}

fn page(database: &peeklock_postgres::Database) -> String {
    let metrics = peeklock_metrics::Metrics::default();
    metrics.register(database.metrics().clone());
    metrics.text().unwrap()
}

#[tokio::test]
async fn a_lone_primary_acknowledges_nothing_and_gathers_no_sessions() {
    let Some(server) = lone("lone").await else { return };
    let log = log(database(server.options("lone").with_silence(Duration::from_millis(200))));
    log.open().await.unwrap();
    let answer = log.append(record(2, 1, "x", "")).await;
    assert!(matches!(answer, Err(Error::InDoubt { .. })), "{answer:?}");
    for _ in 0..2 {
        let refused = log.open().await;
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    }
    assert_eq!(server.sql(WAITING), "1");
    // A standby arrives: the commit completes, and the log can be owned again.
    server.set("synchronous_standby_names", "''");
    server.await_sql(WAITING, "0");
    server.set("synchronous_standby_names", "'ANY 1 (*)'");
    assert_eq!(log.open().await.unwrap().last, id(2, 1));
}

#[tokio::test]
async fn a_full_disk_refuses_records_and_takes_them_once_there_is_room() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("full"));
    let owned = own(&log, 1).await;
    let server = &trio.primary;
    server.sql(&fill("full"));
    let big = log.append(record(owned + 1, 1, "x", "body"));
    let behind = log.append(record(owned + 2, 1, "x", ""));
    let answer = big.await;
    assert!(matches!(&answer, Err(Error::Full { reason }) if reason.contains("53100")), "{answer:?}");
    let answer = behind.await;
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
    log.append(record(owned + 1, 1, "removal", "")).await.unwrap();
    server.sql("drop trigger no_room on \"full\".body");
    log.append(record(owned + 2, 1, "x", "body")).await.unwrap();
    assert_eq!(all(&log).await.len(), 3);
}

/// Bytes of the reserve's table; 0 if it does not exist.
fn reserve_bytes(server: &Server, schema: &str) -> u64 {
    let asked = format!("select coalesce(pg_total_relation_size(to_regclass('\"{schema}\".reserve')), 0)");
    server.sql(&asked).trim().parse().unwrap()
}

#[tokio::test]
async fn a_reserve_takes_room_until_it_is_released_and_none_that_is_not_there() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("reserve"));
    let owned = own(&log, 1).await;
    let server = &trio.primary;
    for _ in 0..2 {
        log.keep_reserve().await.unwrap();
        let bytes = reserve_bytes(server, "reserve");
        assert!(bytes > 16 << 20 && bytes < 18 << 20, "{bytes}");
    }
    for _ in 0..2 {
        log.release_reserve().await.unwrap();
        assert_eq!(reserve_bytes(server, "reserve"), 0);
    }
    // Interrupted before it was completely filled.
    log.keep_reserve().await.unwrap();
    server.sql("delete from \"reserve\".reserve where number > 1");
    log.keep_reserve().await.unwrap();
    assert_eq!(server.sql("select count(*) from \"reserve\".reserve"), "16");
    // A disk with room for a part of the reserve.
    server.sql(
        "delete from \"reserve\".reserve where number > 3;
         create function \"reserve\".no_room() returns trigger language plpgsql as $$ begin
           raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
         create trigger no_room before insert on \"reserve\".reserve for each row when (new.number > 5)
           execute function \"reserve\".no_room()",
    );
    let answer = log.keep_reserve().await;
    assert!(matches!(&answer, Err(Error::Full { reason }) if reason.contains("53100")), "{answer:?}");
    assert_eq!(reserve_bytes(server, "reserve"), 0);
    log.append(record(owned + 1, 1, "removal", "")).await.unwrap();
}

/// A vacuum sends no byte until its end. When it was given up after some seconds, the server ended it, and the reserve of a
/// large database was never created again.
#[tokio::test(flavor = "multi_thread")]
async fn the_vacuum_before_the_reserve_may_take_longer_than_other_answers() {
    let Some(server) = Server::start("") else { return };
    let options = server.options("vacuumed").with_durability(Durability::Service);
    let log = log(database(options.with_silence(Duration::from_millis(200))));
    let owned = own(&log, 1).await;
    log.append(record(owned + 1, 1, "x", "body")).await.unwrap();
    server.sql("alter role app set vacuum_cost_delay = 100; alter role app set vacuum_cost_limit = 1");
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'");
    log.open().await.unwrap();
    log.keep_reserve().await.unwrap();
    assert_eq!(server.sql("select count(*) from vacuumed.reserve"), "16");
    assert_eq!(server.sql("select vacuum_count from pg_stat_user_tables where relname = 'body'"), "1");
}

/// SQL that simulates a disk without room for bodies.
pub(crate) fn fill(schema: &str) -> String {
    format!(
        "create or replace function \"{schema}\".no_room() returns trigger language plpgsql as $$ begin
           raise exception 'could not extend file: No space left on device' using errcode = '53100'; end $$;
         create trigger no_room before insert on \"{schema}\".body for each row
           execute function \"{schema}\".no_room()"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_of_a_session_that_an_administrator_ends_are_in_doubt() {
    let Some(server) = lone("ended").await else { return };
    let log = log(server.database("ended"));
    log.open().await.unwrap();
    let appends: Vec<_> = (2..=3).map(|place| log.append(record(place, 1, "x", "b"))).collect();
    server.await_sql(WAITING, "1");
    server.sql("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    for answer in join_all(appends).await {
        assert!(matches!(&answer, Err(Error::InDoubt { .. })), "{answer:?}");
    }
    assert_eq!(log.open().await.unwrap().last, id(2, 1), "the second one was never carried out");
}

/// A database whose collations were made by another version of the library warns in every session; one that is overdue
/// for a vacuum warns at every write.
#[tokio::test]
async fn a_server_that_warns_about_other_things_than_its_standbys_serves() {
    let Some(server) = Server::start("") else { return };
    let database = database(server.options("warned").with_durability(Durability::Service));
    let log = log(database.clone());
    let owned = own(&log, 1).await;
    server.sql(
        "update pg_database set datcollversion = 'older' where datname = 'app';
         create function warned.warn() returns trigger language plpgsql as $$ begin
           raise warning 'database must be vacuumed within 1000000 transactions'; return new; end $$;
         create trigger warn before insert on warned.log for each row execute function warned.warn()",
    );
    log.open().await.unwrap();
    log.append(record(owned + 1, 1, "x", "b")).await.unwrap();
    log.append(record(owned + 2, 1, "x", "")).await.unwrap();
    assert_eq!(all(&log).await.len(), 3);
    assert!(page(&database).contains("peeklock_postgres_unconfirmed_total 0"));
}

#[tokio::test]
async fn a_log_that_is_being_opened_takes_no_append() {
    let Some(trio) = Trio::shared() else { return };
    let log = log(trio.database("opening"));
    let owned = own(&log, 1).await;
    log.append(record(owned + 1, 1, "x", "")).await.unwrap();
    let opening = log.open();
    let late = log.append(record(owned + 2, 1, "x", "")).await;
    assert!(matches!(late, Err(Error::Unavailable { .. })), "{late:?}");
    assert_eq!(opening.await.unwrap().last, id(owned + 1, 1));
    let refused = log.drop_bodies(Epoch(9), vec![RecordPlace(1)]).await;
    assert!(matches!(refused, Err(Error::Fenced { .. })), "{refused:?}");
}
