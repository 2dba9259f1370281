//! Histories of several nodes and one table, from a seed: requests and answers are slow or lost, nodes are stopped and go on,
//! the table is out of reach, and its clock is set.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::simulated::Rows;
use crate::{NodeInfo, Version};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn name(node: usize) -> NodeName {
    NodeName(format!("node-{node}"))
}

fn info(node: usize, session: u64) -> NodeInfo {
    NodeInfo { name: name(node), session: Session(session), address: String::new(), release: String::new() }
}

/// A request on its way to the table, or its answer on the way back.
struct UnderWay {
    sent_at: Duration,
    arrives_at: Duration,
    answered_at: Duration,
    is_lost: bool,
    renewal: Renewal,
    answer: Option<Standing>,
}

/// A node's process: the machine, its requests, and what it believes that it may hand out.
struct Process {
    node: Node,
    under_way: Vec<UnderWay>,
    until: BTreeMap<ShardId, Duration>,
    /// Since when what is to be handed over has been known.
    ending: BTreeMap<ShardId, Duration>,
    stopped_until: Duration,
    cut_until: Duration,
    /// Each node's elapsed time began at another instant.
    origin: Duration,
    lost: u64,
}

impl Process {
    fn may_hand_out(&self, shard: ShardId, now: Duration) -> bool {
        self.until.get(&shard).is_some_and(|until| self.origin + now < *until)
    }
}

/// Nodes, their table and the time that passes for all of them at the same pace.
struct World {
    rows: Rows,
    processes: Vec<Process>,
    now: Duration,
    /// What the table's clock is ahead by.
    table_ahead: Duration,
    random: StdRng,
    shards: u32,
    latency_max_ms: u64,
    /// The part of the answers that get lost on a way that is not cut.
    losses: f64,
}

impl World {
    fn new(seed: u64, nodes: usize, settings: &Settings) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let processes = (0..nodes).map(|node| {
            let origin = ms(random.random_range(0..1_000_000));
            let info = info(node, random.random());
            Process {
                node: Node::new(info, settings.clone(), origin),
                under_way: Vec::new(),
                until: BTreeMap::new(),
                ending: BTreeMap::new(),
                stopped_until: Duration::ZERO,
                cut_until: Duration::ZERO,
                origin,
                lost: 0,
            }
        });
        let processes = processes.collect();
        let table_ahead = ms(1_000_000);
        let shards = settings.shards;
        Self {
            rows: Rows::default(),
            processes,
            now: Duration::ZERO,
            table_ahead,
            random,
            shards,
            latency_max_ms: 50,
            losses: 0.02,
        }
    }

    /// One step of 10 ms.
    fn step(&mut self) {
        self.now += ms(10);
        self.arrive();
        for at in 0..self.processes.len() {
            if self.processes[at].stopped_until <= self.now {
                self.run(at);
            }
        }
        for shard in (0..self.shards).map(ShardId) {
            let able = self.processes.iter().filter(|one| one.may_hand_out(shard, self.now)).count();
            assert!(able <= 1, "{able} nodes hand out shard {} at {:?}", shard.0, self.now);
        }
    }

    /// What arrives at the table takes effect, also when its sender is stopped or has given it up.
    fn arrive(&mut self) {
        let table_now = self.now + self.table_ahead;
        for process in &mut self.processes {
            for one in process.under_way.iter_mut().filter(|one| one.answer.is_none()) {
                if one.arrives_at <= self.now {
                    one.answer = Some(self.rows.renew(table_now, &one.renewal));
                }
            }
        }
    }

    fn run(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let own_now = process.origin + self.now;
        let last = process.node.asked_at;
        let is_here = |one: &UnderWay| {
            !one.is_lost && one.answered_at <= self.now && one.answer.is_some() && Some(one.sent_at) == last
        };
        if let Some(position) = process.under_way.iter().position(is_here) {
            let answer = process.under_way.remove(position).answer.unwrap();
            let news = process.node.answered(own_now, Ok(answer));
            for one in news {
                process.learn(one, own_now);
            }
        }
        let ended: Vec<ShardId> = process
            .ending
            .iter()
            .filter(|(_, since)| **since + ms(200) <= own_now)
            .map(|(shard, _)| *shard)
            .collect();
        for shard in ended {
            process.ending.remove(&shard);
            process.until.remove(&shard);
            process.node.release(shard, own_now);
        }
        if process.node.due() <= own_now {
            let renewal = process.node.ask(own_now);
            let is_cut = process.cut_until > self.now;
            let latency = |random: &mut StdRng| ms(random.random_range(0..=self.latency_max_ms));
            // Cut off, some of it arrives all the same, late.
            let late = if is_cut { ms(self.random.random_range(0..10_000)) } else { Duration::ZERO };
            let arrives_at = self.now + late + latency(&mut self.random);
            let answered_at = arrives_at + latency(&mut self.random);
            let is_lost = is_cut || self.random.random_bool(self.losses);
            process.under_way.push(UnderWay {
                sent_at: own_now,
                arrives_at,
                answered_at,
                is_lost,
                renewal,
                answer: None,
            });
            process
                .under_way
                .retain(|one| one.answer.is_none() || Some(one.sent_at) == process.node.asked_at);
        }
    }

    fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.step();
        }
    }

    /// Something goes wrong.
    fn disturb(&mut self) {
        let node = self.random.random_range(0..self.processes.len());
        let for_ms = ms(self.random.random_range(0..15_000));
        match self.random.random_range(0..5) {
            0 | 1 => self.processes[node].stopped_until = self.now + for_ms,
            2 => self.processes[node].cut_until = self.now + for_ms,
            3 => {
                for process in &mut self.processes {
                    process.cut_until = self.now + for_ms;
                }
            }
            _ => self.table_ahead = ms(self.random.random_range(0..2_000_000)),
        }
    }

    fn owners(&self, shard: u32) -> Vec<usize> {
        let able = self.processes.iter().enumerate();
        able.filter(|(_, one)| one.may_hand_out(ShardId(shard), self.now)).map(|(at, _)| at).collect()
    }

    fn load(&self, node: usize) -> usize {
        (0..self.shards).filter(|shard| self.owners(*shard) == [node]).count()
    }
}

impl Process {
    fn learn(&mut self, news: News, own_now: Duration) {
        match news {
            News::Gained(shard, until) | News::Renewed(shard, until) => {
                self.until.insert(shard, until);
            }
            News::Lost(shard) => {
                self.lost += 1;
                self.until.remove(&shard);
                self.ending.remove(&shard);
            }
            News::HandOver(shard, _) => {
                self.ending.insert(shard, own_now);
            }
            News::Released(shard) => assert!(!self.until.contains_key(&shard)),
            News::NameTaken(session) => panic!("{session:?}"),
        }
    }
}

fn spread(shards: u32) -> Settings {
    Settings { shards, placement: Placement::Spread, ..Settings::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// [`World::step`] checks after each step that no two nodes hand out one shard.
    #[test]
    fn two_nodes_never_hand_out_one_shard_and_a_quiet_cluster_serves_all(
        seed: u64, nodes in 2_usize..=3, is_spread: bool,
    ) {
        let settings = if is_spread { spread(6) } else { Settings::default() };
        let mut world = World::new(seed, nodes, &settings);
        for _ in 0..12 {
            world.disturb();
            let calm = ms(world.random.random_range(0..12_000));
            world.run_for(calm);
        }
        for process in &mut world.processes {
            (process.stopped_until, process.cut_until) = (Duration::ZERO, Duration::ZERO);
        }
        // Whatever the last holder was doing: it was silent for long enough, and somebody asks.
        world.run_for(ms(30_000));
        for shard in 0..settings.shards {
            prop_assert_eq!(world.owners(shard).len(), 1, "shard {}", shard);
        }
    }
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
            // Seen unchanged for 6 s since at most one renewal and one question later, and two answers may be lost.
            assert!(world.now - stopped_at < ms(6_000 + 4_500), "seed {seed}");
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
fn a_table_out_of_reach_is_a_pause_and_the_lease_stays() {
    let mut world = World::new(8, 2, &Settings::default());
    world.run_for(ms(5_000));
    let [owner] = world.owners(0)[..] else { panic!() };
    let lost_before = world.processes[owner].lost;
    // The first to be back renews; the other has not seen it silent for long enough since.
    for process in &mut world.processes {
        process.cut_until = world.now + ms(30_000);
        process.under_way.clear();
    }
    world.run_for(ms(20_000));
    assert!(world.owners(0).is_empty(), "without renewals nothing is handed out");
    world.run_for(ms(30_000));
    assert_eq!(world.owners(0).len(), 1);
    assert!(world.processes[owner].lost <= lost_before + 1);
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
    // From the beginning of one to the end of the next.
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
fn a_lease_of_an_earlier_run_of_the_same_node_is_nobodys_until_it_was_silent() {
    let mut rows = Rows::default();
    let renewal = |session, takes| Renewal {
        node: info(0, session),
        accepts: true,
        takes,
        wanted: Vec::new(),
        releases: Vec::new(),
        shards: 1,
        silent_after: ms(6_000),
    };
    rows.renew(ms(0), &renewal(1, Vec::new()));
    let seen = rows.renew(ms(0), &renewal(1, Vec::new())).leases[0].version;
    let held = rows.renew(ms(0), &renewal(1, vec![Take { shard: ShardId(0), seen }])).held;
    assert_eq!(held, [ShardId(0)]);
    let mut node = Node::new(info(0, 2), Settings::default(), ms(0));
    let first = node.ask(ms(0));
    assert!(first.takes.is_empty());
    assert_eq!(node.answered(ms(10), Ok(rows.renew(ms(5), &first))), []);
    assert!(node.ask(ms(6_000)).takes.is_empty(), "seen for too short a time");
    assert_eq!(node.ask(ms(6_010)).takes.len(), 1);
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
