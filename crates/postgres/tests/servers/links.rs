//! Links cut in one direction or half open: detected by silence, decided by reading back.

use std::time::Duration;

use peeklock_postgres::DatabaseOptions;
use peeklock_storage::cluster::RecordKind;
use peeklock_storage::{Epoch, Error};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::harness::{
    Link, Proxy, Trio, acquire, all, database, eventually, log, messages, options, own, record, send, store,
};

const SILENCE: Duration = Duration::from_millis(300);

fn through(proxy: &Proxy, schema: &str) -> DatabaseOptions {
    options(&proxy.url(), schema).with_silence(SILENCE)
}

#[tokio::test]
async fn a_link_that_is_cut_in_either_direction_leaves_appends_in_doubt_and_nothing_late_gets_in() {
    let Some(trio) = Trio::shared() else { return };
    for (round, cut) in [Link::CutToServer, Link::CutToClient, Link::CutBoth].into_iter().enumerate() {
        let schema = format!("cut_{round}");
        let proxy = Proxy::before(trio.primary.port).await;
        let log = log(database(through(&proxy, &schema)));
        let owned = own(&log, 1).await;
        log.append(record(owned + 1, 1, "before", "b")).await.unwrap();
        proxy.set(cut);
        let appends: Vec<_> =
            (2..=4).map(|place| log.append(record(owned + place, 1, "doubtful", "b"))).collect();
        for append in appends {
            let answer = append.await;
            assert!(matches!(answer, Err(Error::InDoubt { .. })), "{cut:?}: {answer:?}");
        }
        let unreached = log.open().await;
        assert!(matches!(unreached, Err(Error::Unavailable { .. })), "{cut:?}: {unreached:?}");
        // Bytes held up on the way to the server arrive now, before or after the next owner record.
        proxy.set(Link::Whole);
        let seized = own(&log, 2).await;
        log.append(record(seized + 1, 2, "after", "b")).await.unwrap();
        let found = all(&log).await;
        let owners: Vec<_> = found.iter().filter(|record| record.kind == RecordKind::Owner).collect();
        assert_eq!(owners.len(), 2);
        let is_of_run = |place: u64| if place < seized { Epoch(1) } else { Epoch(2) };
        assert!(found.iter().all(|record| record.id.epoch == is_of_run(record.id.place.0)), "{cut:?}");
        assert_eq!(found.last().unwrap().heads, "after".as_bytes());
    }
}

#[tokio::test]
async fn reads_over_a_dead_link_fail_and_succeed_over_the_next() {
    let Some(trio) = Trio::shared() else { return };
    let proxy = Proxy::before(trio.primary.port).await;
    let log = log(database(through(&proxy, "dead_reads")));
    let owned = own(&log, 1).await;
    assert_eq!(all(&log).await.len(), 1);
    proxy.set(Link::CutToClient);
    let refused = log.heads(peeklock_storage::cluster::RecordPlace(owned)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    proxy.set(Link::Whole);
    assert_eq!(all(&log).await.len(), 1);
}

/// In front of the primary are a host that accepts connections and sends nothing, and one that refuses connections.
#[tokio::test]
async fn a_host_that_says_nothing_does_not_keep_the_primary_from_being_found() {
    let Some(trio) = Trio::shared() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().map(|address| (address.port(), silent)).unwrap();
    let hosts = format!("127.0.0.1:{},127.0.0.1:1,127.0.0.1:{}", silent.0, trio.primary.port);
    let url = format!("postgres://app:secret@{hosts}/app?connect_timeout=1");
    let session = database(options(&url, "silent")).connect("test").await.unwrap();
    assert!(session.server().ends_with(&trio.primary.port.to_string()));
    let url = format!("postgres://app:secret@127.0.0.1:{},127.0.0.1:1/app?connect_timeout=1", silent.0);
    let refused = database(options(&url, "silent")).connect("test").await.unwrap_err().to_string();
    assert!(refused.contains(&format!("127.0.0.1:{}: no answer for 1s", silent.0)), "{refused}");
    assert!(refused.contains("127.0.0.1:1: ") && refused.contains("refused"), "{refused}");
}

#[tokio::test]
async fn a_session_that_is_dropped_ends_its_connection_though_a_statement_hangs() {
    let Some(trio) = Trio::shared() else { return };
    let session = trio.database("dropped").connect("dropped").await.unwrap();
    let hanging = session.query("select pg_sleep(600)", &[]);
    tokio::time::timeout(Duration::from_millis(300), hanging).await.unwrap_err();
    let count = "select count(*) from pg_stat_activity where application_name like '%dropped'";
    assert_eq!(trio.primary.sql(count), "1");
    drop(session);
    eventually("the connection ends", || async { trio.primary.sql(count) == "0" }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_link_is_cut_again_and_again_keeps_its_lease_and_loses_nothing() {
    let Some(trio) = Trio::shared() else { return };
    let proxy = Proxy::before(trio.primary.port).await;
    let serving = store(database(through(&proxy, "nemesis")));
    let lease = acquire(&serving).await;
    let mut number = 0;
    for cut in [Link::CutToServer, Link::CutToClient, Link::CutBoth, Link::CutToClient] {
        let mut commits = Vec::new();
        for at in 0..200 {
            if at == 100 {
                proxy.set(cut);
            }
            number += 1;
            commits.push(lease.submit(send(number)));
            tokio::task::yield_now().await;
        }
        // Longer than the tolerated silence.
        tokio::time::sleep(SILENCE * 2).await;
        proxy.set(Link::Whole);
        for commit in commits {
            commit.await.unwrap();
        }
    }
    assert_eq!(lease.loss(), None);
    let expected: Vec<u64> = (1..=number).collect();
    assert_eq!(messages(&lease).await, expected);
    let reader = store(trio.database("nemesis"));
    assert_eq!(messages(&acquire(&reader).await).await, expected);
}

/// As at a fail-over: the link to the old primary is dead, and the next one is promoted after it was asked first.
#[tokio::test]
async fn a_server_that_refuses_is_asked_again_while_another_says_nothing() {
    let Some(trio) = Trio::shared() else { return };
    let listen = || TcpListener::bind("127.0.0.1:0");
    let (silent, promoted) = (listen().await.unwrap(), listen().await.unwrap());
    let ports = [&silent, &promoted].map(|listener| listener.local_addr().unwrap().port());
    let primary_port = trio.primary.port;
    let promote = tokio::spawn(async move {
        drop(promoted.accept().await.unwrap());
        let (mut client, _) = promoted.accept().await.unwrap();
        let mut server = TcpStream::connect(("127.0.0.1", primary_port)).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
    });
    let hosts = ports.map(|port| format!("127.0.0.1:{port}"));
    let url = format!("postgres://app:secret@{}/app?connect_timeout=600", hosts.join(","));
    let searching = database(options(&url, "asked_again"));
    let found = timeout(Duration::from_secs(120), searching.connect("test")).await;
    assert_eq!(found.expect("it waits for the silent one").unwrap().server(), hosts[1]);
    promote.abort();
}
