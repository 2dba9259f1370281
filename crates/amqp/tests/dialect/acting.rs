//! What clients do on their links.

use peeklock_amqp::endpoint::{Event, IncomingId, LinkId};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::performative::{Attach, DeliveryState};
use peeklock_amqp::wire::transaction::Control;

use super::bus::{Hold, Path, Place, Settled, Verdict, Wanted, Work};
use super::message::SESSIONS;
use super::outcome::Outcome;
use super::peer::{Asked, Peer, Purpose};
use super::step::{Act, SessionStep};
use super::world::World;

const SESSION_FILTER: &str = "com.microsoft:session-filter";
const SHARED_FILTER: &str = "com.microsoft:non-exclusive-session-filter";
/// The descriptor of the latter.
const SHARED_CODE: u64 = 0x13_7000_000E;
/// Links of one client at a time, without those to nodes.
const LINKS_MAX: usize = 10;

pub(crate) fn pick<T: Clone>(from: &[T], number: u8) -> Option<T> {
    (!from.is_empty()).then(|| from[usize::from(number) % from.len()].clone())
}

impl World {
    pub(crate) async fn act(&mut self, peer: usize, act: &Act) {
        match act {
            Act::Pass { ms } => self.pass(*ms).await,
            Act::Late { entity, ms, act } => {
                self.act_late(peer, self.entity(*entity), (*ms, act)).await;
            }
            Act::Restart { in_order } => self.restart(*in_order).await,
            Act::Change { entity, change } => self.change(self.entity(*entity), *change).await,
            Act::Toggle { entity } => self.toggle(self.entity(*entity)).await,
            act => self.act_now(peer, act),
        }
        self.apply_notes();
    }

    /// What clients do.
    pub(crate) fn act_now(&mut self, peer: usize, act: &Act) {
        match act {
            Act::AttachReceiver { entity, dead, deletes, session, credit } => {
                let (path, place) = self.main_or_dead_letters(*entity, *dead);
                self.attach_receiver(peer, (path, place, *deletes), *session, *credit);
            }
            Act::AttachSender { entity, via } => {
                self.attach_sender(peer, self.entity(*entity), via.and_then(|via| self.via(via)));
            }
            Act::Detach { link } => {
                let links = self.peers[peer].links_where(|_| true);
                if let Some(link) = pick(&links, *link) {
                    self.peers[peer].leave(link);
                    self.close_in_model(peer, link);
                }
            }
            Act::Credit { link, credit, drain } => self.credit(peer, *link, *credit, *drain),
            Act::Send { link, drafts, settled, work } => self.send(peer, *link, drafts, *settled, *work),
            Act::Settle { delivery, verdict, settled, work } => {
                self.settle(peer, *delivery, *verdict, *settled, *work);
            }
            Act::Request { entity, dead, copy, ask, work } => {
                let at = self.main_or_dead_letters(*entity, *dead);
                let (path, place) = self.place_of(peer, *entity, at, ask);
                self.request(peer, (path, place, *copy), ask, *work);
            }
            Act::Declare => self.declare(peer),
            Act::Discharge { transaction, fail } => self.discharge(peer, *transaction, *fail),
            Act::EndCoordinator | Act::EndSession if self.crosses(peer) => {
                let session = self.peers[peer].session;
                self.end_session(peer, session, |_| true);
                self.cross(peer);
            }
            Act::EndCoordinator => {
                let control = self.peers[peer].control;
                self.end_session(peer, control, |purpose| *purpose == Purpose::Coordinates);
                self.peers[peer].control = self.peers[peer].connection.begin().expect("a session");
            }
            Act::EndSession => {
                let session = self.peers[peer].session;
                self.end_session(peer, session, |purpose| *purpose != Purpose::Coordinates);
                self.peers[peer].session = self.peers[peer].connection.begin().expect("a session");
            }
            Act::HangUp => self.hang_up(peer),
            Act::Pass { .. }
            | Act::Late { .. }
            | Act::Restart { .. }
            | Act::Change { .. }
            | Act::Toggle { .. } => unreachable!("not of a client"),
        }
    }

    /// An entity, or its dead letters; those of a topic itself are transfer dead letters.
    fn main_or_dead_letters(&self, entity: u8, dead: bool) -> (Path, Place) {
        let path = self.entity(entity);
        match dead {
            false => (path, Place::Main),
            true if path == "t" => (path, Place::Transfer),
            true => (path, Place::Dead),
        }
    }

    fn attach_receiver(
        &mut self,
        peer: usize,
        (path, place, deletes): (Path, Place, bool),
        session: SessionStep,
        credit: u32,
    ) {
        if self.is_busy(peer) {
            return;
        }
        let in_session = self.bus.queues.get(path).is_some_and(|queue| queue.shape.sessions);
        let in_session = in_session && place == Place::Main;
        let wanted = match session {
            SessionStep::Wrong if in_session => None,
            SessionStep::Wrong => Some(Wanted { id: Some("one"), hold: Hold::Exclusive, wait_ms: 0 }),
            _ if !in_session => None,
            SessionStep::Right { id, shared, wait_ms } => {
                let hold = if shared { Hold::Shared } else { Hold::Exclusive };
                Some(Wanted { id: id.map(|id| SESSIONS[usize::from(id) % 4]), hold, wait_ms })
            }
            SessionStep::TakeOver { pick: number, right } => self.take_over(path, number, right),
        };
        let purpose = Purpose::Receives { path, place, deletes };
        let link = self.peers[peer].attach(purpose, |attach| ask_for_session(attach, wanted));
        self.peers[peer].connection.set_credit(link, credit, false);
        let answer = self.bus.receive(path, (peer, link), (place, deletes), wanted);
        self.set_credit_in_model(path, (peer, link), credit);
        if let Some(outcome) = answer {
            self.peers[peer].expect(Asked::Attach(link), outcome);
        }
    }

    fn take_over(&self, path: Path, number: u8, right: bool) -> Option<Wanted> {
        let sessions = &self.bus.queues.get(path)?.sessions;
        let shared = SESSIONS.iter().filter_map(|id| {
            let session = sessions.get(&id.to_ascii_lowercase())?;
            Some((*id, session.token.filter(|_| session.holder.is_some())?))
        });
        let shared: Vec<_> = shared.collect();
        let (id, token) = pick(&shared, number).unwrap_or(("one", [7; 16]));
        let token = if right { token } else { [8; 16] };
        Some(Wanted { id: Some(id), hold: Hold::TakeOver(token), wait_ms: 0 })
    }

    fn set_credit_in_model(&mut self, path: Path, link: (usize, LinkId), credit: u32) {
        let receiver = self.bus.queue(path).ok().and_then(|queue| queue.receivers.get_mut(&link));
        if let Some(receiver) = receiver {
            receiver.credit = credit;
        }
        self.bus.look_after();
    }

    pub(crate) fn is_busy(&self, peer: usize) -> bool {
        let is_plain =
            |purpose: &Purpose| matches!(purpose, Purpose::Receives { .. } | Purpose::Sends { .. });
        self.peers[peer].links_where(is_plain).len() >= LINKS_MAX
    }

    /// Receives where messages are available.
    fn seek(&mut self, peer: usize, number: u8) {
        let Some((path, place)) = self.available(number) else { return };
        let session = SessionStep::Right { id: None, shared: number.is_multiple_of(2), wait_ms: 0 };
        self.attach_receiver(peer, (path, place, false), session, 2);
    }

    fn credit(&mut self, peer: usize, number: u8, credit: u32, drain: bool) {
        let links = self.peers[peer].links_where(|purpose| matches!(purpose, Purpose::Receives { .. }));
        let Some(link) = pick(&links, number) else { return };
        let Purpose::Receives { path, .. } = self.peers[peer].links[&link] else { return };
        let queue = self.bus.source(path).expect("a link to what exists");
        let waits = queue.receivers[&(peer, link)].waits;
        let drain = drain && !waits && credit > 0;
        self.peers[peer].connection.set_credit(link, credit, drain);
        if drain {
            self.draining.insert((peer, link));
        }
        self.set_credit_in_model(path, (peer, link), credit);
    }

    /// The deliveries that a client may settle.
    pub(crate) fn open_deliveries(&self, peer: usize) -> Vec<usize> {
        let Peer { deliveries, expected, .. } = &self.peers[peer];
        // A refusal in a transaction leaves it unsettled, once it has arrived.
        let is_awaited = |id: IncomingId| expected.contains_key(&Asked::Settled(id.link, id.delivery_id));
        (0..deliveries.len())
            .filter(|&key| deliveries[key].work.is_none())
            .filter(|&key| deliveries[key].id.is_some_and(|id| !is_awaited(id)))
            .collect()
    }

    fn settle(&mut self, peer: usize, number: u8, verdict: Verdict, settled: bool, work: Option<u8>) {
        let open = self.open_deliveries(peer);
        let Some(key) = pick(&open, number) else { return self.seek(peer, number) };
        let delivery = self.peers[peer].deliveries[key].clone();
        let Some(id) = delivery.id else { return };
        let (path, lock) = (delivery.path, (delivery.token, delivery.place));
        let work = work.and_then(|number| self.pick_transaction(peer, number));
        let state = state_of(verdict);
        if let Some((transaction, txn_id)) = work {
            let settled = Settled { path, token: lock.0, place: lock.1, verdict };
            let worked = self.bus.work_in(transaction, vec![Work::Settled(settled)]);
            let outcome: Outcome = worked.map(|_| Outcome::Done).into();
            let state = DeliveryState::Transactional { txn_id, outcome: Some(Box::new(state)) };
            let peer = &mut self.peers[peer];
            peer.connection.update_incoming(id, state);
            peer.deliveries[key].work = (outcome == Outcome::Done).then_some(transaction);
            if matches!(outcome, Outcome::Refused(condition) if condition.ends_with("-lost")) {
                peer.deliveries[key].id = None;
            }
            let asked = Asked::Settled(id.link, id.delivery_id);
            return peer.expect(asked, outcome.within(Some(transaction)));
        }
        let now_ms = self.bus.now_ms;
        let settle = self.bus.queue(path).and_then(|queue| queue.settle(now_ms, lock, verdict));
        let outcome: Outcome = settle.map(|()| Outcome::Done).into();
        self.bus.look_after();
        let peer = &mut self.peers[peer];
        if outcome == Outcome::Done {
            peer.deliveries.remove(key);
        } else {
            peer.deliveries[key].id = None;
        }
        if settled {
            return peer.connection.settle_incoming(id, state);
        }
        peer.connection.update_incoming(id, state);
        peer.expect(Asked::Settled(id.link, id.delivery_id), outcome);
    }

    fn declare(&mut self, peer: usize) {
        let links = self.peers[peer].links_where(|purpose| *purpose == Purpose::Coordinates);
        let link = links.first().copied().unwrap_or_else(|| self.coordinate(peer));
        let transaction = self.bus.declare((peer, link));
        let payload = Control::Declare { global_id: Value::Null }.encode();
        let sent = self.peers[peer].send(link, (false, 0), payload, None).expect("a link");
        self.peers[peer].declared.insert((link, sent), transaction);
        self.peers[peer].expect(Asked::Sent(link, sent), Outcome::Done);
    }

    /// An open transaction of a client, and its id.
    pub(crate) fn pick_transaction(&self, peer: usize, number: u8) -> Option<(usize, bytes::Bytes)> {
        let open = self.bus.transactions.iter().enumerate();
        let open = open.filter(|(_, one)| one.is_open && one.coordinator.0 == peer);
        let open: Vec<_> = open.filter_map(|(key, one)| Some((key, one.id.clone()?))).collect();
        pick(&open, number)
    }

    fn discharge(&mut self, peer: usize, number: u8, fail: bool) {
        let Some((transaction, txn_id)) = self.pick_transaction(peer, number) else { return };
        let (_, link) = self.bus.transactions[transaction].coordinator;
        let outcome = self.bus.discharge(transaction, fail);
        let is_committed = !fail && outcome == Outcome::Done;
        for delivery in &mut self.peers[peer].deliveries {
            if delivery.work == Some(transaction) && !is_committed {
                delivery.work = None;
            }
        }
        if is_committed {
            self.peers[peer].deliveries.retain(|delivery| delivery.work != Some(transaction));
        }
        let payload = Control::Discharge { txn_id, fail }.encode();
        let sent = self.peers[peer].send(link, (false, 0), payload, None).expect("a link");
        self.peers[peer].expect(Asked::Sent(link, sent), outcome);
    }

    /// Ends an AMQP session with its links.
    fn end_session(&mut self, peer: usize, session: u16, is_there: impl Fn(&Purpose) -> bool) {
        self.peers[peer].connection.end(session, None);
        for link in self.peers[peer].links_where(is_there) {
            self.peers[peer].left.insert(link);
            self.peers[peer].forget(link);
            self.close_in_model(peer, link);
        }
    }

    pub(crate) fn hang_up(&mut self, peer: usize) {
        for link in self.peers[peer].links_where(|_| true) {
            self.close_in_model(peer, link);
        }
        self.apply_notes();
        self.replace_peer(peer);
    }
}

/// Whether an event may come for a link that its client has ended.
pub(crate) const fn is_of_the_past(event: &Event) -> bool {
    matches!(
        event,
        Event::Message { .. } | Event::Disposition { .. } | Event::Credit { .. } | Event::Drained { .. }
    )
}

fn state_of(verdict: Verdict) -> DeliveryState {
    let modified = |undeliverable_here| DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here,
        message_annotations: Vec::new(),
    };
    match verdict {
        Verdict::Complete => DeliveryState::Accepted,
        Verdict::Release => DeliveryState::Released,
        Verdict::Abandon => modified(false),
        Verdict::Defer => modified(true),
        Verdict::DeadLetter => DeliveryState::Rejected(None),
    }
}

/// Adds the filter and the time that a receiver of a session sends.
fn ask_for_session(attach: &mut Attach, wanted: Option<Wanted>) {
    let Some(Wanted { id, hold, wait_ms }) = wanted else { return };
    let id = id.map_or(Value::Null, Into::into);
    let shared = |token| {
        let fields = Value::List(vec![id.clone(), token]);
        (SHARED_FILTER.into(), Value::described(Value::ULong(SHARED_CODE), fields))
    };
    let filter = match hold {
        Hold::Exclusive => (SESSION_FILTER.into(), id),
        Hold::Shared => shared(Value::Null),
        Hold::TakeOver(token) => shared(Value::Uuid(token)),
    };
    attach.source.get_or_insert_default().filter = vec![filter];
    attach.properties = vec![("com.microsoft:timeout".into(), Value::UInt(wait_ms))];
}
