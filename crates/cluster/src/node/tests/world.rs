//! Several nodes, their processes and one table, stepped in time.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::super::*;
use crate::simulated::Rows;
use crate::{NodeInfo, NodeName, Session, Standing};

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn name(node: usize) -> NodeName {
    NodeName(format!("node-{node}"))
}

pub(super) fn info(node: usize, session: u64) -> NodeInfo {
    NodeInfo { name: name(node), session: Session(session), address: String::new(), release: String::new() }
}

/// A request on its way to the table, or its answer on the way back.
pub(super) struct UnderWay {
    pub(super) sent_at: Duration,
    pub(super) arrives_at: Duration,
    pub(super) answered_at: Duration,
    pub(super) is_lost: bool,
    pub(super) renewal: Renewal,
    pub(super) answer: Option<Standing>,
}

/// A node's process: the state machine, its requests, and the shards that it believes it may serve.
pub(super) struct Process {
    pub(super) node: Node,
    pub(super) under_way: Vec<UnderWay>,
    pub(super) until: BTreeMap<ShardId, Duration>,
    /// Since when the shards to be handed over have been known.
    pub(super) ending: BTreeMap<ShardId, Duration>,
    pub(super) stopped_until: Duration,
    pub(super) cut_until: Duration,
    /// The start of the node's elapsed time, different for each node.
    pub(super) origin: Duration,
    pub(super) lost: u64,
}

impl Process {
    pub(super) fn may_hand_out(&self, shard: ShardId, now: Duration) -> bool {
        self.until.get(&shard).is_some_and(|until| self.origin + now < *until)
    }
}

/// Nodes, their table and the time that passes for all of them at the same pace.
pub(super) struct World {
    pub(super) rows: Rows,
    pub(super) processes: Vec<Process>,
    pub(super) now: Duration,
    /// How far the table's clock is ahead.
    pub(super) table_ahead: Duration,
    pub(super) random: StdRng,
    pub(super) shards: u32,
    pub(super) latency_max_ms: u64,
    /// The fraction of answers lost while the node is not cut off.
    pub(super) losses: f64,
}

impl World {
    pub(super) fn new(seed: u64, nodes: usize, settings: &Settings) -> Self {
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
    pub(super) fn step(&mut self) {
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

    /// A request that arrives at the table takes effect, even if its sender is paused or has abandoned it.
    pub(super) fn arrive(&mut self) {
        let table_now = self.now + self.table_ahead;
        for process in &mut self.processes {
            for one in process.under_way.iter_mut().filter(|one| one.answer.is_none()) {
                if one.arrives_at <= self.now {
                    one.answer = Some(self.rows.renew(table_now, &one.renewal));
                }
            }
        }
    }

    pub(super) fn run(&mut self, at: usize) {
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
            for one in process.node.give_up(own_now) {
                process.learn(one, own_now);
            }
            let asked_at = process.node.asked_at;
            if process.under_way.iter().any(|one| !one.is_lost && Some(one.sent_at) == asked_at) {
                process.node.wait(own_now);
                return;
            }
            let renewal = process.node.ask(own_now);
            let is_cut = process.cut_until > self.now;
            let latency = |random: &mut StdRng| ms(random.random_range(0..=self.latency_max_ms));
            // While the node is cut off, some requests arrive nevertheless, late.
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

    pub(super) fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.now < until {
            self.step();
        }
    }

    /// Causes a random fault.
    pub(super) fn disturb(&mut self) {
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

    pub(super) fn owners(&self, shard: u32) -> Vec<usize> {
        let able = self.processes.iter().enumerate();
        able.filter(|(_, one)| one.may_hand_out(ShardId(shard), self.now)).map(|(at, _)| at).collect()
    }

    pub(super) fn load(&self, node: usize) -> usize {
        (0..self.shards).filter(|shard| self.owners(*shard) == [node]).count()
    }
}

impl Process {
    pub(super) fn learn(&mut self, news: News, own_now: Duration) {
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
