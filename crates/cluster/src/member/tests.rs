//! The task against a table in memory, in paused time.

use peeklock_storage::ShardId;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::Session;
use crate::simulated::{Faults, SimulatedTable};

const SHARD: ShardId = ShardId(0);

fn elapsed() -> Elapsed {
    let origin = Instant::now();
    Elapsed::new(move || origin.elapsed())
}

fn member(table: Arc<SimulatedTable>, name: &str, session: u64) -> Member {
    let info = NodeInfo {
        name: NodeName(name.to_owned()),
        session: Session(session),
        address: String::new(),
        release: String::new(),
    };
    Member::start(table, info, Settings::default(), elapsed())
}

/// Two nodes on one table; the first has the lease.
async fn pair() -> (SimulatedTable, Member, Member, Membership) {
    let table = SimulatedTable::default();
    let first = member(Arc::new(table.another_way()), "a", 1);
    let membership = first.gained(SHARD).await;
    let second = member(Arc::new(table.another_way()), "b", 2);
    while first.waiting().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    (table, first, second, membership)
}

#[tokio::test(start_paused = true)]
async fn who_releases_hands_over_at_once() {
    let (table, first, second, membership) = pair().await;
    assert!(membership.tenure().holds());
    first.stop_accepting();
    let began = Instant::now();
    first.release(SHARD).await;
    assert!(!membership.tenure().holds());
    assert_eq!(membership.ended().await, Ended::Lost);
    let taken = second.gained(SHARD).await;
    assert!(taken.tenure().holds() && began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
    assert_eq!(table.rows().holder(SHARD), Some(&NodeName("b".to_owned())));
    // No node is left that would accept a shard.
    assert_eq!(second.waiting(), []);
}

/// The record waits for a pending renewal and for a commit of its own. A node that waited for two seconds only ended
/// before, and the other one had to wait until the lease expired.
#[tokio::test(start_paused = true)]
async fn a_release_is_awaited_for_as_long_as_the_lease_lasts() {
    let table = SimulatedTable::default();
    let way = Arc::new(table.another_way());
    let member = member(Arc::clone(&way), "a", 1);
    member.gained(SHARD).await;
    way.set(Faults { delay: Duration::from_millis(2_900), is_slow: true, ..Faults::default() });
    sleep(Duration::from_secs(30)).await;
    member.stop_accepting();
    let began = Instant::now();
    assert!(member.release(SHARD).await, "recorded");
    assert!(began.elapsed() > Duration::from_secs(3), "after a pending renewal");
    assert_eq!(table.rows().holder(SHARD), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_can_not_be_recorded_is_not_awaited_for_ever() {
    let table = SimulatedTable::default();
    let way = Arc::new(table.another_way());
    let member = member(Arc::clone(&way), "a", 1);
    for (silent_secs, waits) in [(0, Duration::from_secs(6)), (20, Duration::from_secs(2))] {
        way.set(Faults::default());
        member.gained(SHARD).await.tenure().returns().await;
        way.set(Faults { is_out: true, ..Faults::default() });
        sleep(Duration::from_secs(silent_secs)).await;
        let began = Instant::now();
        assert!(!member.release(SHARD).await, "not recorded");
        assert!(began.elapsed().abs_diff(waits) < Duration::from_millis(10), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_departure_is_awaited_for_as_long_as_the_lease_lasts() {
    let (slow, silent) = (Duration::from_millis(2_900), Duration::from_secs(3_600));
    for (delay, is_recorded) in [(slow, true), (silent, false)] {
        let way = Arc::new(SimulatedTable::default());
        let member = member(Arc::clone(&way), "a", 1);
        member.gained(SHARD).await;
        way.set(Faults { delay, is_slow: true, ..Faults::default() });
        assert_eq!(member.leave().await, is_recorded, "{delay:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_off_the_table() {
    let (table, first, second, _membership) = pair().await;
    first.leave().await;
    second.gained(SHARD).await;
    let status = table.rows().status(Duration::ZERO);
    let names: Vec<&str> = status.nodes.iter().map(|(live, _)| live.info.name.0.as_str()).collect();
    assert_eq!(names, ["b"]);
    drop(first);
    let before = second.contact().answered_at;
    sleep(Duration::from_secs(10)).await;
    assert!(second.contact().answered_at > before && second.contact().failures == 0);
}

#[tokio::test(start_paused = true)]
async fn tenure_ends_in_time_without_answers_and_returns_with_them() {
    let table = SimulatedTable::default();
    let way = Arc::new(table.another_way());
    let member = member(Arc::clone(&way), "a", 1);
    let membership = member.gained(SHARD).await;
    way.set(Faults { loses_answers: true, ..Faults::default() });
    sleep(Duration::from_secs(5)).await;
    assert!(!membership.tenure().holds(), "renewed in the table, but the node does not know");
    way.set(Faults { is_out: true, ..Faults::default() });
    assert!(timeout(Duration::from_secs(20), membership.tenure().returns()).await.is_err());
    way.set(Faults { delay: Duration::from_secs(1), ..Faults::default() });
    membership.tenure().returns().await;
    assert!(membership.tenure().holds());
    assert!(member.contact().failures > 5);
    sleep(Duration::from_secs(60)).await;
    assert!(membership.tenure().holds(), "answers that take a second are in time");
    // Requests get no answers at all.
    way.set(Faults { delay: Duration::from_secs(3_600), ..Faults::default() });
    assert_eq!(membership.ended().await, Ended::Lost);
    assert!(timeout(Duration::from_secs(60), member.gained(SHARD)).await.is_err());
    way.set(Faults::default());
    assert!(member.gained(SHARD).await.tenure().holds());
}

#[tokio::test(start_paused = true)]
async fn answers_that_never_come_are_given_up() {
    let table = SimulatedTable::default();
    let way = Arc::new(table.another_way());
    way.set(Faults { delay: Duration::from_secs(3_600), ..Faults::default() });
    let member = member(Arc::clone(&way), "a", 1);
    assert!(timeout(Duration::from_secs(20), member.gained(SHARD)).await.is_err());
    way.set(Faults::default());
    member.gained(SHARD).await;
    assert!(member.contact().failures >= 6);
}

/// A renewal that is abandoned for its slowness delays the next one, which waits for the same row: with a commit of
/// three seconds none was ever answered, and the lease was given up after 30 s.
#[tokio::test(start_paused = true)]
async fn a_table_that_answers_late_is_waited_for_and_the_lease_stays() {
    let table = SimulatedTable::default();
    let way = Arc::new(table.another_way());
    let member = member(Arc::clone(&way), "a", 1);
    let membership = member.gained(SHARD).await;
    for delay in [3_000, 4_500] {
        way.set(Faults { delay: Duration::from_millis(delay), is_slow: true, ..Faults::default() });
        for _ in 0..20 {
            let answered_at = member.contact().answered_at;
            while member.contact().answered_at == answered_at {
                sleep(Duration::from_millis(10)).await;
            }
            assert!(membership.tenure().holds(), "until five seconds after the request was sent");
        }
    }
    assert_eq!(member.contact().failures, 0);
    // Each answer comes when its tenure has ended.
    way.set(Faults { delay: Duration::from_secs(8), is_slow: true, ..Faults::default() });
    assert_eq!(membership.ended().await, Ended::Lost);
    assert_eq!(member.contact().failures, 0);
    way.set(Faults::default());
    assert!(member.gained(SHARD).await.tenure().holds());
}

#[tokio::test(start_paused = true)]
async fn an_operator_drains_a_node() {
    let (table, first, second, membership) = pair().await;
    assert_eq!(table.drain(NodeName("a".to_owned()), true).await, Ok(true));
    assert_eq!(membership.ended().await, Ended::HandOver(NodeName("b".to_owned())));
    assert!(membership.tenure().holds(), "it is served until its host has ended");
    first.release(SHARD).await;
    second.gained(SHARD).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(table.rows().holder(SHARD), Some(&NodeName("b".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_taken_is_lost() {
    let (table, first, second, membership) = pair().await;
    // The first node is stopped for longer than its lease.
    table.rows().leave(&NodeInfo {
        name: NodeName("a".to_owned()),
        session: Session(1),
        address: String::new(),
        release: String::new(),
    });
    assert_eq!(membership.ended().await, Ended::Lost);
    assert!(!membership.tenure().holds());
    assert!(timeout(Duration::from_secs(60), membership.tenure().returns()).await.is_err(), "never again");
    tokio::select! {
        _ = first.gained(SHARD) => {}
        _ = second.gained(SHARD) => {}
    }
}
