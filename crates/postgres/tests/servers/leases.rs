//! Leases of nodes in a database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use peeklock_cluster::{
    Elapsed, Ended, Lease, LeaseTable, Member, Membership, NodeInfo, NodeName, Renewal, SeenLease, Session,
    Settings, Standing, Version,
};
use peeklock_postgres::PostgresLeases;
use peeklock_storage::ShardId;
use tokio::time::{sleep, timeout};

use crate::harness::{Link, Proxy, Trio, database, eventually, options};

const SHARD: ShardId = ShardId(0);

fn info(name: &str, session: u64) -> NodeInfo {
    NodeInfo {
        name: NodeName(name.to_owned()),
        session: Session(session),
        address: format!("amqp://{name}"),
        release: "1.2.3".to_owned(),
    }
}

pub(crate) fn renewal(name: &str, session: u64) -> Renewal {
    Renewal {
        node: info(name, session),
        accepts: true,
        takes: Vec::new(),
        takes_free: Vec::new(),
        wanted: Vec::new(),
        releases: Vec::new(),
        shards: 3,
        silent_after: Duration::from_secs(6),
    }
}

fn seen(leases: &[(u32, u64)]) -> Vec<SeenLease> {
    let seen =
        |(shard, version): &(u32, u64)| SeenLease { shard: ShardId(*shard), version: Version(*version) };
    leases.iter().map(seen).collect()
}

fn lease(standing: &Standing, shard: ShardId) -> &Lease {
    standing.leases.iter().find(|lease| lease.shard == shard).unwrap()
}

fn shards(held: &[ShardId]) -> Vec<u32> {
    let mut held: Vec<u32> = held.iter().map(|shard| shard.0).collect();
    held.sort_unstable();
    held
}

/// Short intervals for tests.
fn fast() -> Settings {
    Settings {
        renew_every: Duration::from_millis(300),
        ask_every: Duration::from_millis(100),
        silent_after: Duration::from_millis(1_500),
        margin: Duration::from_millis(250),
        ..Settings::default()
    }
}

fn member(table: PostgresLeases, name: &str, session: u64) -> Member {
    let origin = Instant::now();
    Member::start(Arc::new(table), info(name, session), fast(), Elapsed::new(move || origin.elapsed()))
}

#[tokio::test]
async fn leases_are_created_taken_renewed_and_released_each_by_one_holder() {
    let Some(trio) = Trio::shared() else { return };
    // Session ids with the highest bits set.
    let (a, b) = (u64::MAX, 1 << 63);
    let table = PostgresLeases::new(trio.database("leases"));
    let other = PostgresLeases::new(trio.database("leases"));
    let first = table.renew(renewal("a", a)).await.unwrap();
    assert_eq!((first.held.len(), first.leases.len()), (0, 3), "created, and told at once");
    let taken = table.renew(Renewal { takes: seen(&[(0, 1), (1, 1)]), ..renewal("a", a) }).await.unwrap();
    assert_eq!(shards(&taken.held), [0, 1]);
    // The lease already taken has another version by now.
    let late = other.renew(Renewal { takes: seen(&[(1, 1), (2, 1)]), ..renewal("b", b) }).await.unwrap();
    assert_eq!(shards(&late.held), [2]);
    let stale = other.renew(Renewal { takes: seen(&[(0, 1)]), ..renewal("b", b) }).await.unwrap();
    assert_eq!(shards(&stale.held), [2]);
    assert_eq!(lease(&stale, SHARD).holder, Some((NodeName("a".to_owned()), Session(a))));
    let names: Vec<&str> = stale.nodes.iter().map(|live| live.info.name.0.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let release = Renewal {
        releases: seen(&[(0, 2)]),
        wanted: vec![(SHARD, NodeName("b".to_owned()))],
        ..renewal("a", a)
    };
    assert_eq!(shards(&table.renew(release).await.unwrap().held), [1]);
    let standing = other.renew(renewal("b", b)).await.unwrap();
    let freed = lease(&standing, SHARD);
    assert_eq!((freed.holder.clone(), freed.wanted.clone()), (None, Some(NodeName("b".to_owned()))));
    let take = vec![SeenLease { shard: SHARD, version: freed.version }];
    let held = other.renew(Renewal { takes: take, ..renewal("b", b) }).await.unwrap().held;
    assert_eq!(shards(&held), [0, 2]);
    // A node that was seen silent for long enough loses its lease, and learns it from the next answer.
    let take = vec![SeenLease { shard: ShardId(1), version: lease(&standing, ShardId(1)).version }];
    assert_eq!(other.renew(Renewal { takes: take, ..renewal("b", b) }).await.unwrap().held.len(), 3);
    assert!(table.renew(renewal("a", a)).await.unwrap().held.is_empty());
}

#[tokio::test]
async fn a_release_that_arrives_late_does_not_free_a_lease_gained_again() {
    let Some(trio) = Trio::shared() else { return };
    let table = PostgresLeases::new(trio.database("late_releases"));
    table.renew(renewal("a", 1)).await.unwrap();
    let taken = table.renew(Renewal { takes: seen(&[(0, 1)]), ..renewal("a", 1) }).await.unwrap();
    assert_eq!(lease(&taken, SHARD).version, Version(2), "the version that the request made");
    let release = Renewal { releases: seen(&[(0, 2)]), ..renewal("a", 1) };
    assert!(table.renew(release.clone()).await.unwrap().held.is_empty());
    table.renew(Renewal { takes: seen(&[(0, 3)]), ..renewal("a", 1) }).await.unwrap();
    // A lease with another version is neither released nor renewed; the answer has its version.
    let late = table.renew(release).await.unwrap();
    assert_eq!((shards(&late.held), lease(&late, SHARD).version), (vec![0], Version(4)));
    assert_eq!(late.leases.len(), 3, "each lease once");
    let release = Renewal { releases: seen(&[(0, 4)]), ..renewal("a", 1) };
    assert!(table.renew(release).await.unwrap().held.is_empty());
}

#[tokio::test]
async fn a_free_lease_is_taken_in_any_version_unless_another_node_is_to_get_it() {
    let Some(trio) = Trio::shared() else { return };
    let table = PostgresLeases::new(trio.database("free"));
    let other = PostgresLeases::new(trio.database("free"));
    let takes_free = |name: &str, session| Renewal { takes_free: vec![SHARD], ..renewal(name, session) };
    table.renew(renewal("a", 1)).await.unwrap();
    assert_eq!(shards(&table.renew(takes_free("a", 1)).await.unwrap().held), [0]);
    assert!(other.renew(takes_free("b", 2)).await.unwrap().held.is_empty(), "it is not free");
    let wanted = vec![(SHARD, NodeName("c".to_owned()))];
    table.renew(Renewal { releases: seen(&[(0, 2)]), wanted, ..renewal("a", 1) }).await.unwrap();
    assert!(other.renew(takes_free("b", 2)).await.unwrap().held.is_empty(), "another node is to get it");
    assert_eq!(shards(&other.renew(takes_free("c", 3)).await.unwrap().held), [0]);
}

#[tokio::test]
async fn of_many_who_take_one_lease_at_once_one_has_it() {
    let Some(trio) = Trio::shared() else { return };
    let tables: Vec<PostgresLeases> = (0..6).map(|_| PostgresLeases::new(trio.database("races"))).collect();
    let mut seen = tables[0].renew(renewal("n0", 0)).await.unwrap();
    for round in 0..20 {
        let version = lease(&seen, SHARD).version;
        let takers = tables.iter().enumerate().map(|(node, table)| {
            let take = vec![SeenLease { shard: SHARD, version }];
            // Each round uses another session, which holds no leases yet.
            let renewal = Renewal { takes: take, ..renewal(&format!("n{node}"), round * 10 + node as u64) };
            table.renew(renewal)
        });
        let standings = futures_util::future::join_all(takers).await;
        let holders = standings.iter().filter(|standing| !standing.as_ref().unwrap().held.is_empty());
        assert_eq!(holders.count(), 1, "round {round}");
        seen = tables[0].renew(renewal("n0", 1_000)).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_on_a_database_take_over_from_each_other() {
    let Some(trio) = Trio::shared() else { return };
    let table = || PostgresLeases::new(trio.database("members"));
    let (first, operator) = (member(table(), "a", 1), table());
    let held = first.gained(SHARD).await;
    let second = member(table(), "b", 2);
    while first.waiting().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    let status = operator.status().await.unwrap();
    assert_eq!(status.nodes.len(), 2);
    assert_eq!(status.nodes[0].0.info.address, "amqp://a");
    let (lease, left) = &status.leases[0];
    assert_eq!(lease.holder, Some((NodeName("a".to_owned()), Session(1))));
    assert!(left.is_some_and(|left| left <= Duration::from_millis(1_500)), "{left:?}");
    // Requested by an operator, and noticed at once.
    assert!(!operator.drain(NodeName("nobody".to_owned()), true).await.unwrap());
    assert!(operator.drain(NodeName("a".to_owned()), true).await.unwrap());
    assert_eq!(held.ended().await, Ended::HandOver(NodeName("b".to_owned())));
    first.release(SHARD).await;
    let held: Membership = second.gained(SHARD).await;
    assert!(held.tenure().holds());
    assert!(operator.drain(NodeName("a".to_owned()), false).await.unwrap());
    // Killed: its lease is free after the time of silence.
    drop(second);
    timeout(Duration::from_secs(30), first.gained(SHARD)).await.expect("taken over");
    first.leave().await;
    let nodes = operator.status().await.unwrap().nodes;
    assert!(nodes.iter().all(|(live, _)| live.info.name.0 != "a"));
}

#[tokio::test]
async fn a_release_is_told_to_those_who_wait() {
    let Some(trio) = Trio::shared() else { return };
    let table = PostgresLeases::new(trio.database("hints"));
    let other = PostgresLeases::new(trio.database("hints"));
    let waiting = other.changed();
    other.renew(renewal("b", 2)).await.unwrap();
    table.renew(Renewal { takes: seen(&[(0, 1)]), ..renewal("a", 1) }).await.unwrap();
    table.renew(Renewal { releases: seen(&[(0, 2)]), ..renewal("a", 1) }).await.unwrap();
    timeout(Duration::from_secs(30), waiting).await.expect("told");
    let waiting = other.changed();
    table.leave(info("a", 1)).await.unwrap();
    timeout(Duration::from_secs(30), waiting).await.expect("told");
}

/// The rows stay locked during the commit: a renewal that was abandoned for its slowness delayed the next one, so none
/// was ever answered.
#[tokio::test]
async fn a_renewal_whose_commit_is_slow_is_waited_for_and_one_that_is_lost_is_not() {
    let Some(trio) = Trio::shared() else { return };
    let proxy = Proxy::before(trio.primary.port).await;
    let table = PostgresLeases::new(database(options(&proxy.url(), "slow")));
    let settings = Settings {
        silent_after: Duration::from_secs(3),
        margin: Duration::from_millis(500),
        ..Settings::default()
    };
    let origin = Instant::now();
    let elapsed = Elapsed::new(move || origin.elapsed());
    let member = Member::start(Arc::new(table), info("a", 1), settings.clone(), elapsed);
    let membership = member.gained(SHARD).await;
    // Longer than the patience of 1.25 s, shorter than the tenure of 2.5 s.
    trio.primary.sql(
        "create function slow.pause() returns trigger language plpgsql as
         $$ begin perform pg_sleep(1.8); return null; end $$;
         create constraint trigger pause after update on slow.lease deferrable initially deferred
         for each row execute function slow.pause()",
    );
    assert_answers(&member, 4).await;
    assert_eq!(member.contact().failures, 0);
    membership.tenure().returns().await;
    // The server executes what it is sent, and its answer does not arrive.
    proxy.set(Link::CutToClient);
    eventually("the loss is noticed", || async { member.contact().failures > 0 }).await;
    proxy.set(Link::Whole);
    assert_answers(&member, 2).await;
}

/// Waits for this many further answers of the table.
async fn assert_answers(member: &Member, count: usize) {
    for _ in 0..count {
        let before = member.contact().answered_at;
        eventually("an answer", || async { member.contact().answered_at != before }).await;
    }
}
