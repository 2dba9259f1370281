//! The simulated engine: logs of all shards, and the calls under way from several nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::node::Node;
use super::table::{Call, Footprint, Outcome, Table};
use crate::cluster::{LogLimits, Logs, RecordPlace, Tail};
use crate::{Error, ShardId};

/// Default limits of every log, unless changed with [`SimulatedEngine::set_limits`].
const LIMITS: LogLimits = LogLimits { heads_bytes_max: 1 << 30, bodies_bytes_max: 1 << 30 };

/// Bytes reserved of a limited size ([`SimulatedEngine::set_bytes_max`]).
pub const RESERVE_BYTES: u64 = 4 << 10;

/// An engine in memory. Calls are carried out at once, or one step at a time under a test's control
/// ([`SimulatedEngine::hold`], [`SimulatedEngine::serve`]): a call arrives and an append checks its predecessor, then
/// it takes effect, then its answer arrives. In between the connection may be cut, so that the answer is lost and the
/// call takes effect late or never.
#[derive(Debug, Clone, Default)]
pub struct SimulatedEngine(Arc<Mutex<Engine>>);

#[derive(Debug)]
pub(super) struct Engine {
    tables: BTreeMap<ShardId, Table>,
    /// In order of creation.
    pending: Vec<Pending>,
    /// Connection number of each node's appends to a shard; opening starts a new one.
    connections: BTreeMap<(u32, ShardId), u64>,
    failures: VecDeque<Error>,
    /// Nodes whose pending calls are held up.
    held_nodes: BTreeSet<u32>,
    /// Number of slices of bodies read so far.
    bodies_read: u64,
    is_holding: bool,
    bytes_max: Option<u64>,
    /// Reserved bytes, included in `bytes_max`.
    pub(super) reserve_bytes: u64,
    /// The error of requests for a reserve, if they are to fail.
    reserve_error: Option<Error>,
    pub(super) limits: LogLimits,
}

#[derive(Debug)]
struct Pending {
    node: u32,
    shard: ShardId,
    connection: u64,
    call: Call,
    /// `None`: the caller has stopped waiting, but the call may still arrive.
    reply: Option<oneshot::Sender<Result<Outcome, Error>>>,
    /// Held up, even while other calls are served.
    is_held: bool,
    /// It has arrived and found its predecessor.
    is_checked: bool,
    /// The result, once it has taken effect or was refused.
    outcome: Option<Result<Outcome, Error>>,
}

impl Default for Engine {
    fn default() -> Self {
        Self {
            tables: BTreeMap::new(),
            pending: Vec::new(),
            connections: BTreeMap::new(),
            failures: VecDeque::new(),
            held_nodes: BTreeSet::new(),
            bodies_read: 0,
            is_holding: false,
            bytes_max: None,
            reserve_bytes: 0,
            reserve_error: None,
            limits: LIMITS,
        }
    }
}

impl SimulatedEngine {
    /// An empty engine that carries out calls at once.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The logs as this node sees them.
    #[must_use]
    pub fn node(&self, node: u32) -> Arc<dyn Logs> {
        Arc::new(Node { engine: self.clone(), node })
    }

    pub(super) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds all further calls until they are served.
    pub fn hold(&self) {
        self.engine().is_holding = true;
    }

    /// Serves the held calls; later calls are served at once.
    pub fn release(&self) {
        while self.serve(0, |_| true) {}
        self.engine().is_holding = false;
    }

    /// Holds up the calls of a node, even while others are served, until [`Self::release_node`].
    pub fn hold_node(&self, node: u32) {
        self.engine().held_nodes.insert(node);
    }

    /// Serves all held calls of a node.
    pub fn release_node(&self, node: u32) {
        self.engine().held_nodes.remove(&node);
        while self.serve(0, |of| of == node) {}
    }

    /// Holds up the calls under way, or lets them continue.
    pub fn hold_pending(&self, holds: bool) {
        self.engine().pending.iter_mut().for_each(|pending| pending.is_held = holds);
    }

    /// Number of slices of bodies read so far.
    #[must_use]
    pub fn bodies_read(&self) -> u64 {
        self.engine().bodies_read
    }

    /// Advances one held call by one step: among those of nodes that `serves` admits, the one selected by `choice`.
    /// Appends of one connection arrive in order. Returns false when there is nothing to do.
    pub fn serve(&self, choice: u64, serves: impl Fn(u32) -> bool) -> bool {
        self.engine().serve(choice, serves)
    }

    /// Cuts the connections of a node: all its pending calls are answered with an error. Changes that have not arrived
    /// still may if `arrive` is true.
    pub fn cut(&self, node: u32, arrive: bool) {
        self.engine().lose_connections(|pending| pending.node == node, arrive);
    }

    /// The primary fails and is replaced by a machine that may lack records that were never acknowledged; `choice`
    /// determines how many of these survive.
    pub fn fail_over(&self, choice: u64) {
        let mut engine = self.engine();
        engine.lose_connections(|_| true, false);
        for table in engine.tables.values_mut() {
            let (acknowledged, last) = (table.acknowledged.0, table.tail().last.place.0);
            let unacknowledged = last.saturating_sub(acknowledged);
            table.cut_off(RecordPlace(acknowledged + choice % (unacknowledged + 1)));
        }
    }

    /// The engine restarts without its last records, acknowledged or not, in violation of its contract.
    pub fn lose_tail(&self, shard: ShardId, records: u64) {
        let mut engine = self.engine();
        engine.lose_connections(|_| true, false);
        let table = engine.tables.entry(shard).or_default();
        let last = RecordPlace(table.tail().last.place.0.saturating_sub(records));
        table.cut_off(last);
        table.acknowledged = table.acknowledged.min(last);
    }

    /// Changes one stored byte; returns false when there is none.
    pub fn damage(&self, shard: ShardId, place: RecordPlace, in_bodies: bool, offset: usize) -> bool {
        self.engine().tables.entry(shard).or_default().damage(place, in_bodies, offset)
    }

    /// Answers the next append with `error` and does not carry it out.
    pub fn fail_next(&self, error: Error) {
        self.engine().failures.push_back(error);
    }

    /// Limits the bytes of all records and the reserve; `None`: no limit.
    pub fn set_bytes_max(&self, bytes_max: Option<u64>) {
        self.engine().bytes_max = bytes_max;
    }

    /// Answers every request for a reserve with this error.
    pub fn refuse_reserve(&self, error: Error) {
        self.engine().reserve_error = Some(error);
    }

    /// Sets the limits of the logs.
    pub fn set_limits(&self, limits: LogLimits) {
        self.engine().limits = limits;
    }

    /// Storage used by a shard.
    #[must_use]
    pub fn footprint(&self, shard: ShardId) -> Footprint {
        self.engine().tables.entry(shard).or_default().footprint()
    }

    /// The end of a shard's log.
    #[must_use]
    pub fn tail(&self, shard: ShardId) -> Tail {
        self.engine().tables.entry(shard).or_default().tail()
    }

    /// Places of the bodies of a shard.
    #[must_use]
    pub fn body_places(&self, shard: ShardId) -> Vec<RecordPlace> {
        self.engine().tables.entry(shard).or_default().body_places()
    }
}

impl Engine {
    pub(super) fn call(
        &mut self,
        node: u32,
        shard: ShardId,
        call: Call,
    ) -> oneshot::Receiver<Result<Outcome, Error>> {
        let (reply, answer) = oneshot::channel();
        if matches!(call, Call::Open) {
            let appends = |pending: &Pending| {
                (pending.node, pending.shard) == (node, shard) && pending.call.appended().is_some()
            };
            self.lose_connections(appends, true);
            *self.connections.entry((node, shard)).or_default() += 1;
        }
        let connection = self.connections.get(&(node, shard)).copied().unwrap_or_default();
        let reply = Some(reply);
        self.pending.push(Pending {
            node,
            shard,
            connection,
            call,
            reply,
            is_held: false,
            is_checked: false,
            outcome: None,
        });
        if !self.is_holding {
            while self.serve(0, |_| true) {}
        }
        answer
    }

    fn serve(&mut self, choice: u64, serves: impl Fn(u32) -> bool) -> bool {
        let able: Vec<usize> = (0..self.pending.len()).filter(|at| self.can_go_on(*at, &serves)).collect();
        let Some(at) = choice.checked_rem(able.len() as u64).and_then(|at| able.get(at as usize)) else {
            return false;
        };
        let Some(pending) = self.pending.get(*at) else { return false };
        if pending.outcome.is_some() {
            let pending = self.pending.remove(*at);
            self.answer(pending);
            return true;
        }
        let (shard, call, is_checked) = (pending.shard, pending.call.clone(), pending.is_checked);
        let outcome = match is_checked {
            true => Some(self.carry_out(shard, &call)),
            false => self.check(shard, &call).err().map(Err),
        };
        let Some(pending) = self.pending.get_mut(*at) else { return false };
        pending.is_checked = true;
        pending.outcome = outcome;
        if pending.outcome.is_some() && pending.reply.is_none() {
            self.pending.remove(*at);
        }
        true
    }

    fn check(&mut self, shard: ShardId, call: &Call) -> Result<(), Error> {
        if matches!(call, Call::Append(_))
            && let Some(error) = self.failures.pop_front()
        {
            return Err(error);
        }
        self.tables.entry(shard).or_default().check(call)
    }

    fn can_go_on(&self, at: usize, serves: impl Fn(u32) -> bool) -> bool {
        let Some(pending) = self.pending.get(at) else { return false };
        let is_before = |earlier: &&Pending| {
            earlier.call.appended().is_some()
                && earlier.outcome.is_none()
                && (earlier.node, earlier.shard, earlier.connection)
                    == (pending.node, pending.shard, pending.connection)
        };
        serves(pending.node)
            && !pending.is_held
            && !self.held_nodes.contains(&pending.node)
            && (pending.outcome.is_some()
                || pending.call.appended().is_none()
                || !self.pending.iter().take(at).any(|earlier| is_before(&earlier)))
    }

    fn carry_out(&mut self, shard: ShardId, call: &Call) -> Result<Outcome, Error> {
        if let Call::Bodies(slices) = call {
            self.bodies_read += slices.len() as u64;
        }
        let room = self.room();
        self.tables.entry(shard).or_default().carry_out(call, room)
    }

    fn room(&self) -> u64 {
        let used: u64 = self.tables.values().map(|table| table.footprint().bytes()).sum();
        self.bytes_max.map_or(u64::MAX, |most| most.saturating_sub(used + self.reserve_bytes))
    }

    pub(super) fn keep_reserve(&mut self) -> Result<(), Error> {
        self.reserve_bytes = 0;
        if let Some(error) = &self.reserve_error {
            return Err(error.clone());
        }
        if self.room() < RESERVE_BYTES {
            return Err(Error::Full { reason: "the engine has no room for its reserve".to_owned() });
        }
        self.reserve_bytes = RESERVE_BYTES;
        Ok(())
    }

    fn answer(&mut self, pending: Pending) {
        let Pending { shard, call, reply: Some(reply), outcome: Some(outcome), .. } = pending else { return };
        let is_ok = outcome.is_ok();
        // An answer without a receiver acknowledges nothing.
        if reply.send(outcome).is_ok()
            && is_ok
            && let Some(place) = call.appended()
        {
            let table = self.tables.entry(shard).or_default();
            table.acknowledged = table.acknowledged.max(place);
        }
    }

    fn lose_connections(&mut self, which: impl Fn(&Pending) -> bool, arrive: bool) {
        for pending in self.pending.iter_mut().filter(|pending| which(pending)) {
            let reason = "the connection was lost".to_owned();
            let is_change = pending.call.is_change();
            let error = if is_change { Error::InDoubt { reason } } else { Error::Unavailable { reason } };
            if let Some(reply) = pending.reply.take() {
                let _ = reply.send(Err(error));
            }
        }
        let may_arrive = |pending: &Pending| arrive && pending.call.is_change() && pending.outcome.is_none();
        self.pending.retain(|pending| pending.reply.is_some() || !which(pending) || may_arrive(pending));
    }
}
