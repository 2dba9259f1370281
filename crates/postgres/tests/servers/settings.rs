//! Servers that would lose data, or can't be used, are refused with an error that names the problem.

use peeklock_postgres::{Durability, Failure};
use peeklock_storage::Epoch;
use peeklock_storage::cluster::{RecordPlace, Slice};

use crate::harness::{Server, Trio, database, log, options, own, record};

async fn refusal(server: &Server) -> String {
    match server.database("settings").connect("test").await {
        Err(Failure::Unfit { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_setting_that_loses_data_is_refused_by_name() {
    let Some(server) = Server::start("") else { return };
    assert!(refusal(&server).await.contains("synchronous_standby_names = 'ANY 1 (*)'"));
    let service = || database(server.options("settings").with_durability(Durability::Service));
    service().connect("test").await.unwrap();
    server.set("fsync", "off");
    let refused = refusal(&server).await;
    assert!(refused.contains("fsync = on") && refused.contains("synchronous_standby_names"), "{refused}");
    server.set("fsync", "on");
    server.set("full_page_writes", "off");
    assert!(refusal(&server).await.contains("full_page_writes = on"));
    server.set("full_page_writes", "on");
    server.sql("alter role app set default_transaction_read_only = on");
    assert!(refusal(&server).await.contains("default_transaction_read_only = off"));
    server.sql("alter role app reset default_transaction_read_only");
    service().connect("test").await.unwrap();
}

#[tokio::test]
async fn a_session_waits_for_standbys_and_has_no_time_outs_whatever_the_role_has_set() {
    let Some(trio) = Trio::shared() else { return };
    assert_eq!(trio.primary.sql("show synchronous_commit"), "local");
    let shown = async |role: &str| {
        let url = format!("postgres://{role}@127.0.0.1:{}/app", trio.primary.port);
        let session = database(options(&url, "waits")).connect("test").await.unwrap();
        let query =
            "select current_setting('synchronous_commit') || ' ' || current_setting('statement_timeout')";
        session.query_one(query, &[]).await.unwrap().get::<_, String>(0)
    };
    assert_eq!(shown("app").await, "on 0");
    trio.primary.sql("create role apply login superuser");
    trio.primary.sql("alter role apply set synchronous_commit = remote_apply");
    trio.primary.sql("alter role apply set statement_timeout = '9s'");
    assert_eq!(shown("apply").await, "remote_apply 0");
}

/// The only sign of a commit without its standby is a warning: a role must not hide it, nor ask for debug output.
#[tokio::test]
async fn a_session_receives_warnings_and_no_debug_output_whatever_the_role_or_database_has_set() {
    let Some(trio) = Trio::shared() else { return };
    trio.primary.sql("create role hushed login superuser");
    let url = format!("postgres://hushed@127.0.0.1:{}/app", trio.primary.port);
    for level in ["error", "debug5"] {
        trio.primary.sql(&format!("alter role hushed set client_min_messages = {level}"));
        let session = database(options(&url, "hushed")).connect("test").await.unwrap();
        let shown = session.query_one("show client_min_messages", &[]).await.unwrap();
        assert_eq!(shown.get::<_, String>(0), "warning", "{level}");
    }
}

#[tokio::test]
async fn a_standby_alone_is_no_server_to_write_to() {
    let Some(trio) = Trio::shared() else { return };
    assert!(refusal(&trio.standbys[0]).await.contains("it is a standby"));
}

#[tokio::test]
async fn a_database_that_is_not_there_and_a_role_that_is_not_are_named() {
    let Some(trio) = Trio::shared() else { return };
    for (who, found) in [("app@", "database \"nowhere\""), ("nobody@", "role \"nobody\"")] {
        let url = format!("postgres://{who}127.0.0.1:{}/nowhere", trio.primary.port);
        let refused = database(options(&url, "x")).connect("test").await.unwrap_err().to_string();
        assert!(refused.contains(found), "{refused}");
    }
}

#[tokio::test]
async fn tables_of_a_later_version_are_refused() {
    let Some(trio) = Trio::shared() else { return };
    let first = trio.database("later");
    first.connect("test").await.unwrap();
    trio.primary.sql("update later.format set version = 99");
    let refused = trio.database("later").connect("test").await.unwrap_err().to_string();
    assert!(refused.contains("have format 99") && refused.contains("schema later"), "{refused}");
}

/// Missing tables mean lost data, and must not be created again empty.
#[tokio::test]
async fn tables_are_created_once_by_many_nodes_at_once_and_never_again() {
    let Some(trio) = Trio::shared() else { return };
    let nodes: Vec<_> = (0..8).map(|_| trio.database("once")).collect();
    let connected = futures_util::future::join_all(nodes.iter().map(|node| node.connect("test"))).await;
    assert!(connected.iter().all(Result::is_ok), "{connected:?}");
    drop(connected);
    assert_eq!(trio.primary.sql("select version from once.format"), "1");
    trio.primary.sql("drop schema once cascade");
    log(nodes[0].clone()).open().await.unwrap_err();
    assert_eq!(trio.primary.sql("select count(*) from pg_namespace where nspname = 'once'"), "0");
}

/// Plans without an index, or time-outs, would make a node slow or fail; other forms of values must not matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_works_by_index_whatever_the_role_has_set() {
    let Some(server) = Server::start("") else { return };
    for setting in [
        "enable_indexscan = off",
        "enable_indexonlyscan = off",
        "enable_nestloop = off",
        "enable_bitmapscan = on",
        "plan_cache_mode = force_custom_plan",
        "statement_timeout = '1s'",
        "lock_timeout = '1s'",
        "idle_session_timeout = '1s'",
        "idle_in_transaction_session_timeout = '1s'",
        "default_transaction_isolation = serializable",
        "default_transaction_deferrable = on",
        "search_path = public, pg_catalog",
        "client_encoding = latin1",
        "standard_conforming_strings = off",
        "bytea_output = escape",
        "datestyle = 'German, DMY'",
        "intervalstyle = sql_standard",
        "timezone = 'Asia/Kathmandu'",
        "array_nulls = off",
        "transform_null_equals = on",
        "synchronous_commit = off",
    ] {
        server.sql(&format!("alter role app set {setting}"));
    }
    server.sql("create table public.log (place int); grant all on public.log to app");
    let service = || database(server.options("odd").with_durability(Durability::Service));
    service().connect("test").await.unwrap();
    // Statistics of a session arrive after a while, at the latest when it ends.
    let ended = || server.await_sql("select count(*) from pg_stat_activity where usename = 'app'", "0");
    ended();
    let scans = "select sum(seq_scan) from pg_stat_user_tables where schemaname = 'odd' and relname in ('log', 'body')";
    let before = server.sql(scans);
    // The plans are made while the tables are empty.
    let log = log(service());
    assert_eq!(own(&log, 1).await, 1);
    let slice = |place| Slice { place: RecordPlace(place), offset: 0, len: 1 };
    for last in [2, 20_000] {
        server.sql(&format!(
            "insert into odd.log select 0, n, 1, 1, '' from generate_series({last} / 4 + 2, {last}) n;
             insert into odd.body select 0, n, 'b' from generate_series({last} / 4 + 2, {last}) n"
        ));
        for place in last + 1..last + 4 {
            log.append(record(place, 1, "x", "b")).await.unwrap();
        }
        log.append(record(last + 4, 1, "x", "")).await.unwrap();
        assert!(!log.heads(RecordPlace(last)).await.unwrap().is_empty());
        assert_eq!(log.bodies(vec![slice(last + 1)]).await.unwrap(), [Some("b".into())]);
        log.drop_bodies(Epoch(1), vec![RecordPlace(last)]).await.unwrap();
        log.trim(Epoch(1), RecordPlace(last)).await.unwrap();
    }
    // Longer than the time-outs.
    tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
    log.append(record(20_005, 1, "x", "")).await.unwrap();
    drop(log);
    ended();
    assert_eq!(server.sql(scans), before, "a table was read without an index");
}

#[tokio::test]
async fn a_commit_that_waits_for_a_standby_is_noticed_though_the_login_sets_another_role() {
    let Some(mut server) = Server::start("") else { return };
    server.sql("create role login_role login superuser");
    server.sql("alter role login_role set role = app");
    let url = format!("postgres://login_role@127.0.0.1:{}/app", server.port);
    let options = || options(&url, "roles").with_silence(std::time::Duration::from_millis(300));
    let owned = {
        let log = log(database(options().with_durability(Durability::Service)));
        own(&log, 1).await
    };
    server.stop();
    server.configure("synchronous_standby_names = 'ANY 1 (missing)'\nsynchronous_commit = local");
    server.launch();
    let log = log(database(options()));
    log.open().await.unwrap();
    log.append(record(owned + 1, 1, "x", "")).await.unwrap_err();
    for _ in 0..2 {
        let refused = log.open().await.unwrap_err().to_string();
        assert!(refused.contains("ANY 1 (missing)"), "{refused}");
    }
    assert_eq!(server.sql("select count(*) from pg_stat_activity where wait_event = 'SyncRep'"), "1");
}

/// A pooler that exchanges sessions between transactions. A session that was kept would refuse every later request.
#[tokio::test]
async fn a_session_that_lost_its_statements_ends_and_tells_about_poolers() {
    let Some(trio) = Trio::shared() else { return };
    let session = trio.database("pooled").connect("test").await.unwrap();
    let statement = session.ask(session.client().prepare("select 1")).await.unwrap();
    session.ask(session.client().batch_execute("deallocate all")).await.unwrap();
    match session.query(&statement, &[]).await {
        Err(Failure::Unfit { reason }) => assert!(reason.contains("pool_mode = session"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert!(session.query_one("select 1", &[]).await.is_err());
}
