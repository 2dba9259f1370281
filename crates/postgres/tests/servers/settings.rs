//! Servers that would lose data, or can't be used, are refused with an error that names the problem.

use peeklock_postgres::{Durability, Failure};

use crate::harness::{Server, Trio, database, options};

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
    crate::harness::log(nodes[0].clone()).open().await.unwrap_err();
    assert_eq!(trio.primary.sql("select count(*) from pg_namespace where nspname = 'once'"), "0");
}
