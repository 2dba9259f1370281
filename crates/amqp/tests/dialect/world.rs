//! The broker, its clients, and the model that they are compared with.

use std::collections::BTreeSet;

use peeklock_amqp::endpoint::LinkId;
use tokio::task::yield_now;

use super::broker::{Broker, START_MS};
use super::bus::{Bus, LinkKey, Note, Path, Verdict};
use super::peer::{Asked, Peer};
use super::step::{Act, Setup, Step};

/// Turns of all tasks without anything to read or write after which the broker counts as idle.
const QUIET_TURNS: usize = 24;
/// Turns after which a conversation that does not come to rest counts as endless.
const TURNS_MAX: usize = 100_000;

const PEERS: usize = 3;
/// All entities: targets of forwarding come before their sources, topics before their subscriptions.
pub(crate) const ENTITIES: [Path; 10] =
    ["q", "d", "s", "t", "t/Subscriptions/a", "t/Subscriptions/b", "g", "f", END_OF_DEAD_LETTERS, "e"];
/// Where the dead letters of another are forwarded.
pub(crate) const END_OF_DEAD_LETTERS: Path = "x";

pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) bus: Bus,
    pub(crate) peers: Vec<Peer>,
    pub(crate) setup: Setup,
    /// Messages made so far.
    pub(crate) messages: u32,
    /// Links whose drain is to be answered.
    pub(crate) draining: BTreeSet<LinkKey>,
}

impl World {
    pub(crate) async fn start(setup: Setup) -> Self {
        let broker = Broker::start().await;
        let peers = (0..PEERS).map(|_| Peer::new(broker.connect())).collect();
        let bus = Bus::new(START_MS);
        let mut world = Self { broker, bus, peers, setup, messages: 0, draining: BTreeSet::new() };
        for path in ENTITIES {
            world.create(path).await;
        }
        (0..PEERS).for_each(|peer| world.cross(peer));
        world.rest().await;
        world
    }

    pub(crate) async fn follow(&mut self, steps: &[Step]) {
        for (index, step) in steps.iter().enumerate() {
            if step.act.needs_rest() {
                self.rest().await;
            }
            self.act(usize::from(step.peer) % PEERS, &step.act).await;
            let peer = &mut self.peers[usize::from(step.peer) % PEERS];
            peer.speak();
            let next = steps.get(index + 1);
            let goes_on = step.together && next.is_some_and(|next| next.peer == step.peer);
            // What fits depends on what has been received and deleted.
            let is_limited = self.setup.size_max_bytes.is_some();
            let is_open = self.bus.has_forwarded || self.bus.has_failed || is_limited;
            if !goes_on || peer.waits_for_attach() || is_open || step.act.needs_rest() {
                self.rest().await;
            }
        }
        self.rest().await;
    }

    /// Lets the broker come to rest, and checks that it has done what the model says.
    pub(crate) async fn rest(&mut self) {
        self.exchange().await;
        self.compare().await;
    }

    /// Lets the broker come to rest, and checks its answers.
    pub(crate) async fn exchange(&mut self) {
        self.converse().await;
        (self.bus.has_forwarded, self.bus.has_failed) = (false, false);
        self.check_rest();
    }

    /// Lets the broker come to rest.
    pub(crate) async fn converse(&mut self) {
        let (mut quiet, mut turns) = (0, 0);
        while quiet < QUIET_TURNS {
            let mut has_moved = false;
            for number in 0..self.peers.len() {
                self.apply_notes();
                let (events, moved) = self.peers[number].pump().await;
                has_moved |= moved;
                for event in events {
                    self.hear(number, event);
                }
            }
            yield_now().await;
            quiet = if has_moved { 0 } else { quiet + 1 };
            turns += 1;
            assert!(turns < TURNS_MAX, "the conversation does not come to rest");
        }
    }

    /// What the model says that the broker does without being asked.
    pub(crate) fn apply_notes(&mut self) {
        for note in self.bus.take_notes() {
            let (Note::Attached((peer, link), _) | Note::Ended((peer, link), _)) = &note;
            // It was about to get a session when its AMQP session ended.
            if !self.peers[*peer].links.contains_key(link) {
                continue;
            }
            match note {
                Note::Attached((peer, link), outcome) => {
                    self.peers[peer].expect(Asked::Attach(link), outcome);
                }
                Note::Ended((peer, link), condition) => {
                    self.draining.remove(&(peer, link));
                    self.peers[peer].expected_ends.insert(link, condition);
                }
            }
        }
    }

    fn check_rest(&self) {
        for peer in &self.peers {
            assert!(peer.expected.is_empty(), "not answered: {:?}", peer.expected);
            assert!(peer.expected_ends.is_empty(), "not ended: {:?}", peer.expected_ends);
        }
        assert!(self.draining.is_empty(), "drains are not answered: {:?}", self.draining);
        for (path, queue) in self.bus.sources() {
            assert_eq!(
                queue.overlooked(),
                None,
                "a message of {path} is not delivered although there is credit"
            );
        }
    }

    pub(crate) async fn pass(&mut self, duration_ms: u64) {
        self.broker.clock.advance(duration_ms);
        self.broker.clock.fire();
        self.bus.pass(duration_ms);
        self.rest().await;
    }

    pub(crate) fn replace_peer(&mut self, number: usize) {
        self.peers[number] = Peer::new(self.broker.connect());
        self.cross(number);
    }

    /// The model forgets a link of a client.
    pub(crate) fn close_in_model(&mut self, peer: usize, link: LinkId) {
        self.draining.remove(&(peer, link));
        self.bus.roll_back_of((peer, link));
        let transactions = &self.bus.transactions;
        for delivery in &mut self.peers[peer].deliveries {
            delivery.work = delivery.work.filter(|work| transactions[*work].is_open);
        }
        self.bus.close((peer, link));
    }
}

impl Act {
    /// Whether its outcome depends on what is under way, so that it is not combined with others.
    fn needs_rest(&self) -> bool {
        use super::step::{Ask, SessionStep};
        // What is given back may be delivered after later messages that are under way.
        let gives_back = |verdict: &Verdict| matches!(verdict, Verdict::Abandon | Verdict::Release);
        match self {
            Self::Settle { verdict, .. } => gives_back(verdict),
            Self::Request { ask: Ask::Dispose { verdict, .. }, .. } => gives_back(verdict),
            Self::AttachReceiver { session: SessionStep::TakeOver { .. }, .. }
            | Self::Detach { .. }
            | Self::Credit { .. }
            | Self::Declare
            | Self::Discharge { .. }
            | Self::EndCoordinator
            | Self::EndSession
            | Self::HangUp
            | Self::Pass { .. }
            | Self::Late { .. }
            | Self::Restart { .. }
            | Self::Toggle { .. }
            | Self::Change { .. } => true,
            Self::Request { ask, .. } => {
                // A delivery that is under way has the end of the lock before or after a renewal.
                matches!(
                    ask,
                    Ask::Peek { .. }
                        | Ask::Delete { .. }
                        | Ask::Receive { .. }
                        | Ask::Sessions { .. }
                        | Ask::RenewSession(_)
                )
            }
            _ => false,
        }
    }
}
