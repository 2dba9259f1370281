//! Histories of several nodes and one table, from a seed: requests and answers are slow or lost, nodes are paused and
//! continue, the table is unreachable, and its clock is changed.

mod outages;
mod world;

use proptest::prelude::*;

use super::*;
use crate::Version;
use crate::simulated::Rows;

use self::world::{World, info, ms, name};

fn spread(shards: u32) -> Settings {
    Settings { shards, placement: Placement::Spread, ..Settings::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// [`World::step`] checks after each step that no two nodes may deliver messages of the same shard.
    #[test]
    fn two_nodes_never_hand_out_one_shard_and_a_quiet_cluster_serves_all(
        seed: u64, nodes in 2_usize..=3, is_spread: bool, is_slow: bool,
    ) {
        let settings = if is_spread { spread(6) } else { Settings::default() };
        let owners = owners_in_the_end(seed, nodes, &settings, is_slow);
        prop_assert!(owners.iter().all(|owners| *owners == 1), "{owners:?}");
    }
}

/// The number of nodes that serve each shard after a disturbed cluster was left undisturbed.
fn owners_in_the_end(seed: u64, nodes: usize, settings: &Settings, is_slow: bool) -> Vec<usize> {
    let mut world = World::new(seed, nodes, settings);
    let latency_max_ms = world.latency_max_ms;
    world.latency_max_ms = if is_slow { 4_000 } else { latency_max_ms };
    for _ in 0..12 {
        world.disturb();
        let calm = ms(world.random.random_range(0..12_000));
        world.run_for(calm);
    }
    for process in &mut world.processes {
        (process.stopped_until, process.cut_until) = (Duration::ZERO, Duration::ZERO);
    }
    // Two lost answers in a row cause a pause, which could include the time of the check.
    (world.losses, world.latency_max_ms) = (0.0, latency_max_ms);
    // Whatever the last holder did, it was silent for long enough, and another node requests the lease.
    world.run_for(ms(30_000));
    (0..settings.shards).map(|shard| world.owners(shard).len()).collect()
}

/// Its owner had lost two answers in a row, just before the end.
#[test]
fn a_cluster_that_loses_nothing_more_does_not_pause() {
    assert_eq!(owners_in_the_end(8_271_238_236_904_797_418, 3, &Settings::default(), false), [1]);
}

/// In this history a request that released the lease would arrive after the node has gained it again.
#[test]
fn a_lease_that_was_given_up_is_not_released_when_it_was_gained_again() {
    assert_eq!(owners_in_the_end(11_277_830_443_245_207_547, 3, &Settings::default(), false), [1]);
}

#[test]
fn the_lease_of_a_node_that_is_silent_is_taken_in_bounded_time() {
    for seed in 0..20 {
        let mut world = World::new(seed, 2, &Settings::default());
        world.run_for(ms(5_000));
        let [owner] = world.owners(0)[..] else { panic!("nobody serves after 5 s") };
        world.processes[owner].stopped_until = Duration::MAX;
        let stopped_at = world.now;
        while world.owners(0) != [1 - owner] {
            world.step();
            // Seen unchanged for 6 s, beginning at most one renewal and one request later; two answers may be lost, and
            // after the second one the holder has the time for two requests.
            assert!(world.now - stopped_at < ms(6_000 + 4_500 + 5_000), "seed {seed}");
        }
    }
}

#[test]
fn a_released_lease_is_taken_at_once_by_a_node_that_waits() {
    let mut world = World::new(3, 2, &Settings::default());
    world.run_for(ms(5_000));
    let [owner] = world.owners(0)[..] else { panic!() };
    let own_now = world.processes[owner].origin + world.now;
    world.processes[owner].node.stop_accepting(own_now);
    world.processes[owner].until.clear();
    world.processes[owner].node.release(ShardId(0), own_now);
    world.run_for(ms(1_500));
    assert_eq!(world.owners(0), [1 - owner]);
}

#[test]
fn a_hint_during_a_request_is_followed_after_its_answer() {
    let mut node = Node::new(info(0, 1), Settings::default(), ms(0));
    let _asked = node.ask(ms(0));
    node.hint(ms(3));
    assert_eq!(node.due(), Settings::default().tenure() / 2, "the answer is awaited");
    node.answered(ms(5), Ok(Standing::default()));
    assert_eq!(node.due(), ms(5));
    let _asked = node.ask(ms(5));
    node.answered(ms(6), Ok(Standing::default()));
    assert_eq!(node.due(), ms(505), "once");
}

/// The process was stopped while it waited for the answer, and another node has taken the lease since. A take-over would
/// fence that node.
#[test]
fn an_answer_that_was_read_too_late_gains_nothing() {
    let mut node = Node::new(info(0, 1), Settings::default(), ms(0));
    let _asked = node.ask(ms(0));
    let lease =
        Lease { shard: ShardId(0), holder: Some((name(0), Session(1))), version: Version(2), wanted: None };
    let held = Standing { held: vec![ShardId(0)], leases: vec![lease.clone()], nodes: Vec::new() };
    let late = ms(60_000);
    assert_eq!(node.answered(late, Ok(held.clone())), []);
    assert_eq!(node.due(), late, "it asks again at once");
    let _asked = node.ask(late);
    let until = late + Settings::default().tenure();
    assert_eq!(node.answered(late + ms(5), Ok(held)), [News::Gained(ShardId(0), until)]);
}

#[test]
fn without_disturbance_a_lease_is_never_lost_nor_paused() {
    let mut world = World::new(5, 3, &Settings::default());
    world.losses = 0.0;
    world.run_for(ms(5_000));
    let [owner] = world.owners(0)[..] else { panic!() };
    for _ in 0..6_000 {
        world.step();
        assert_eq!(world.owners(0), [owner]);
    }
}

#[test]
fn two_nodes_end_up_with_half_of_the_shards_each_and_share_anew_when_one_comes_or_goes() {
    let mut world = World::new(11, 2, &spread(8));
    world.run_for(ms(20_000));
    assert_eq!((world.load(0), world.load(1)), (4, 4));
    world.processes[0].stopped_until = world.now + ms(25_000);
    world.run_for(ms(20_000));
    assert_eq!((world.load(0), world.load(1)), (0, 8));
    world.run_for(ms(30_000));
    assert_eq!((world.load(0), world.load(1)), (4, 4));
}

#[test]
fn a_move_is_a_hand_over_and_one_a_second_at_most() {
    let mut world = World::new(13, 2, &spread(8));
    world.processes[1].stopped_until = ms(15_000);
    world.run_for(ms(15_000));
    assert_eq!(world.load(0), 8);
    let mut moved = Vec::new();
    let mut load = 8;
    while world.load(0) > 4 {
        world.step();
        if world.load(0) < load {
            load = world.load(0);
            moved.push(world.now);
        }
        assert!(world.now < ms(60_000));
    }
    // From the beginning of one move to the end of the next.
    assert!(moved.windows(2).all(|pair| pair[1] - pair[0] >= ms(500)), "{moved:?}");
    world.run_for(ms(1_000));
    assert_eq!((world.load(0), world.load(1)), (4, 4));
    assert_eq!(world.processes[0].lost, 0, "nothing was taken away");
}

#[test]
fn a_drained_node_gives_away_what_it_has_and_takes_nothing() {
    for settings in [Settings::default(), spread(4)] {
        let mut world = World::new(17, 2, &settings);
        world.run_for(ms(15_000));
        let owner = world.owners(0)[0];
        assert!(world.rows.drain(&name(owner), true));
        world.run_for(ms(15_000));
        assert_eq!(world.load(1 - owner), settings.shards as usize);
        assert!(world.rows.drain(&name(owner), false));
        world.processes[1 - owner].stopped_until = world.now + ms(20_000);
        world.run_for(ms(15_000));
        assert_eq!(world.load(owner), settings.shards as usize);
        assert!(!world.rows.drain(&name(9), true), "no such node");
    }
}

#[test]
fn the_last_node_keeps_what_it_has_though_it_is_drained() {
    let mut world = World::new(19, 1, &Settings::default());
    world.run_for(ms(3_000));
    world.rows.drain(&name(0), true);
    world.run_for(ms(10_000));
    assert_eq!(world.owners(0), [0]);
}

#[test]
fn a_lease_of_an_earlier_run_of_a_node_is_taken_only_after_silence() {
    let mut rows = Rows::default();
    let renewal = |session, takes| Renewal {
        node: info(0, session),
        accepts: true,
        takes,
        takes_free: Vec::new(),
        wanted: Vec::new(),
        releases: Vec::new(),
        shards: 1,
        silent_after: ms(6_000),
    };
    rows.renew(ms(0), &renewal(1, Vec::new()));
    let version = rows.renew(ms(0), &renewal(1, Vec::new())).leases[0].version;
    let held = rows.renew(ms(0), &renewal(1, vec![SeenLease { shard: ShardId(0), version }])).held;
    assert_eq!(held, [ShardId(0)]);
    let mut node = Node::new(info(0, 2), Settings::default(), ms(0));
    let first = node.ask(ms(0));
    assert!(first.takes.is_empty());
    assert_eq!(node.answered(ms(10), Ok(rows.renew(ms(5), &first))), []);
    let second = node.ask(ms(6_000));
    assert!(second.takes.is_empty(), "seen for too short a time");
    node.answered(ms(6_000), Ok(rows.renew(ms(6_000), &second)));
    assert_eq!(node.ask(ms(6_010)).takes.len(), 1);
}

/// A node with the lease of the only shard.
fn holder(rows: &mut Rows) -> Node {
    let mut node = Node::new(info(0, 1), Settings::default(), ms(0));
    for _ in 0..2 {
        exchange(&mut node, rows, ms(0));
    }
    assert!(node.has(ShardId(0)));
    node
}

fn exchange(node: &mut Node, rows: &mut Rows, now: Duration) -> Vec<News> {
    let asked = node.ask(now);
    let standing = rows.renew(now, &asked);
    node.answered(now, Ok(standing))
}

#[test]
fn a_release_that_arrives_late_does_not_free_a_lease_gained_again() {
    let mut rows = Rows::default();
    let mut node = holder(&mut rows);
    node.release(ShardId(0), ms(10));
    let late = node.ask(ms(10));
    assert_eq!(exchange(&mut node, &mut rows, ms(3_000)), [News::Released(ShardId(0))]);
    let gained = exchange(&mut node, &mut rows, ms(3_500));
    assert!(matches!(gained[..], [News::Gained(ShardId(0), _)]), "{gained:?}");
    rows.renew(ms(3_600), &late);
    assert_eq!(rows.holder(ShardId(0)), Some(&name(0)));
}

/// A standby, after its next request.
fn standby(rows: &mut Rows, now: Duration) -> Node {
    let mut node = Node::new(info(1, 2), Settings::default(), now);
    exchange(&mut node, rows, now);
    node
}

/// A node that released its lease at 300 ms, and a standby.
fn released(rows: &mut Rows) -> (Node, Node) {
    let mut node = holder(rows);
    let other = standby(rows, ms(100));
    exchange(&mut node, rows, ms(200));
    node.release(ShardId(0), ms(300));
    assert_eq!(exchange(&mut node, rows, ms(300)), [News::Released(ShardId(0))]);
    (node, other)
}

#[test]
fn a_node_that_released_a_lease_stands_back_for_a_standby_and_not_for_ever() {
    let mut rows = Rows::default();
    let (mut node, mut other) = released(&mut rows);
    for at in (400..6_300).step_by(100) {
        assert_eq!(
            exchange(&mut node, &mut rows, ms(at)),
            [],
            "the standby has not had its chance at {at} ms"
        );
        // The standby is live, and does not get to take the lease.
        let mut renewal = other.ask(ms(at));
        renewal.takes.clear();
        renewal.takes_free.clear();
        let standing = rows.renew(ms(at), &renewal);
        other.answered(ms(at), Ok(standing));
    }
    let gained = exchange(&mut node, &mut rows, ms(6_300));
    assert!(matches!(gained[..], [News::Gained(ShardId(0), _)]), "{gained:?}");
}

/// Each request is a commit, which may take seconds.
#[test]
fn a_standby_takes_a_released_lease_with_its_next_request() {
    let mut rows = Rows::default();
    let (mut node, mut other) = released(&mut rows);
    let gained = exchange(&mut other, &mut rows, ms(400));
    assert!(matches!(gained[..], [News::Gained(ShardId(0), _)]), "{gained:?}");
    assert!(node.ask(ms(500)).takes_free.is_empty(), "the one that released it stands back");
    other.stop_accepting(ms(600));
    assert!(other.ask(ms(600)).takes_free.is_empty(), "it is about to stop");
}

#[test]
fn a_lease_that_another_node_is_to_get_is_not_taken() {
    let mut rows = Rows::default();
    let mut node = holder(&mut rows);
    let mut other = standby(&mut rows, ms(100));
    rows.renew(ms(200), &Node::new(info(2, 3), Settings::default(), ms(200)).ask(ms(200)));
    node.release(ShardId(0), ms(300));
    let release = Renewal { wanted: vec![(ShardId(0), name(2))], ..node.ask(ms(300)) };
    rows.renew(ms(300), &release);
    assert_eq!(exchange(&mut other, &mut rows, ms(400)), []);
    assert_eq!(rows.holder(ShardId(0)), None);
}

#[test]
fn a_lease_is_released_though_the_answer_to_its_last_renewal_was_lost() {
    let mut rows = Rows::default();
    let mut node = holder(&mut rows);
    rows.renew(ms(10), &node.ask(ms(10)));
    node.release(ShardId(0), ms(20));
    assert_eq!(exchange(&mut node, &mut rows, ms(3_000)), [], "the lease has another version");
    assert_eq!(node.due(), ms(3_000));
    assert_eq!(exchange(&mut node, &mut rows, ms(3_000)), [News::Released(ShardId(0))]);
    assert_eq!(rows.holder(ShardId(0)), None);
}

#[test]
fn another_process_of_the_same_name_is_noticed() {
    let mut rows = Rows::default();
    let mut nodes = [1, 2].map(|session| Node::new(info(0, session), Settings::default(), ms(0)));
    let mut taken = Vec::new();
    for at in 0..4 {
        for node in &mut nodes {
            let asked = node.ask(ms(at * 1_000));
            taken.extend(node.answered(ms(at * 1_000), Ok(rows.renew(ms(at), &asked))));
        }
    }
    assert!(taken.contains(&News::NameTaken(Session(2))), "{taken:?}");
}

#[test]
fn an_answer_after_the_request_was_given_up_is_not_used_twice() {
    let mut node = Node::new(info(0, 1), Settings::default(), ms(0));
    assert_eq!(node.answered(ms(1), Ok(Standing::default())), [], "nothing was asked");
    node.ask(ms(2));
    assert_eq!(node.due(), ms(2 + 2_500), "given up while there is time for another try");
    let error = TableError { reason: "cut".to_owned() };
    assert_eq!(node.answered(ms(5), Err(error)), []);
    assert_eq!(node.due(), ms(505));
    let standing = Standing { held: vec![ShardId(0)], ..Standing::default() };
    node.ask(ms(600));
    assert_eq!(node.answered(ms(900), Ok(standing)), [News::Gained(ShardId(0), ms(5_600))]);
    assert_eq!(Version::default(), Version(0));
}
