//! The requests that receive deferred messages, and renew and settle locks, with what the model answers.

use peeklock_amqp::wire::Value;

use super::acting::pick;
use super::bus::{Path, Place, Settled, Verdict, Work};
use super::message::{SESSIONS, Token};
use super::outcome::{ARGUMENT, LOCK_LOST, NOT_ALLOWED, Outcome, Refused, SESSION_LOST};
use super::peer::Delivery;
use super::requests::{Prepared, longs, map, uuids};
use super::step::Ask;
use super::world::World;

impl World {
    pub(super) fn prepare_receive(&mut self, peer: usize, at: (Path, Place), ask: &Ask) -> Prepared {
        let Ask::Receive { first, count, deletes, session } = ask else { unreachable!("receives") };
        let (path, place) = at;
        let known = self.bus.source(path).map(|queue| &queue.messages);
        let known: Vec<(u64, bool)> =
            known.into_iter().flatten().map(|(number, one)| (*number, one.is_deferred)).collect();
        let deferred: Vec<u64> = known.iter().filter(|(_, is)| *is).map(|(number, _)| *number).collect();
        let known: Vec<u64> = known.into_iter().map(|(number, _)| number).collect();
        let from = if first.is_multiple_of(4) { known } else { deferred };
        let numbers: Vec<u64> =
            (0..*count).filter_map(|index| pick(&from, first.wrapping_add(index))).collect();
        let mut body = vec![
            ("sequence-numbers", longs(&numbers)),
            ("receiver-settle-mode", Value::UInt(u32::from(!*deletes))),
        ];
        body.extend(session.map(|session| ("session-id", SESSIONS[usize::from(session) % 4].into())));
        let now_ms = self.bus.now_ms;
        let outcome = self.check_queue(at).and_then(|()| {
            if session.is_some() && !self.has_sessions(at) {
                return Err(NOT_ALLOWED);
            }
            if numbers.is_empty() {
                return Err(ARGUMENT);
            }
            let held = self.held(peer, at, *session)?;
            self.bus.queue(path)?.receive_deferred(now_ms, (place, *deletes), &numbers, held.as_deref())
        });
        self.bus.look_after();
        Prepared { operation: "receive-by-sequence-number", body: map(body), outcome: outcome.into() }
    }

    /// Deliveries of a client from one place, by number.
    fn own(&self, peer: usize, at: (Path, Place), first: u8, count: u8) -> Option<Vec<Delivery>> {
        let here = |one: &&Delivery| (one.path, one.place) == at && one.work.is_none();
        let known: Vec<Delivery> = self.peers[peer].deliveries.iter().filter(here).cloned().collect();
        let mut picked: Vec<Delivery> = Vec::new();
        for index in 0..count {
            let one = pick(&known, first.wrapping_add(index))?;
            if picked.iter().all(|known| known.token != one.token) {
                picked.push(one);
            }
        }
        Some(picked)
    }

    pub(super) fn prepare_renew(
        &mut self,
        peer: usize,
        at: (Path, Place),
        first: u8,
        count: u8,
    ) -> Option<Prepared> {
        let tokens: Vec<Token> = self.own(peer, at, first, count)?.iter().map(|one| one.token).collect();
        let body = map(vec![("lock-tokens", uuids(&tokens))]);
        let now_ms = self.bus.now_ms;
        let outcome = self.bus.queue(at.0).and_then(|queue| queue.renew(now_ms, at.1, &tokens));
        Some(Prepared { operation: "renew-lock", body, outcome: outcome.into() })
    }

    pub(super) fn prepare_dispose(
        &mut self,
        peer: usize,
        at: (Path, Place),
        (first, count): (u8, u8),
        (verdict, names): (Verdict, bool),
        work: Option<usize>,
    ) -> Option<Prepared> {
        let status = match verdict {
            Verdict::Complete => "completed",
            Verdict::Abandon | Verdict::Release => "abandoned",
            Verdict::Defer => "defered",
            Verdict::DeadLetter => "suspended",
        };
        let verdict = if verdict == Verdict::Release { Verdict::Abandon } else { verdict };
        let deliveries = self.own(peer, at, first, count)?;
        let tokens: Vec<Token> = deliveries.iter().map(|one| one.token).collect();
        let mut body = vec![("disposition-status", status.into()), ("lock-tokens", uuids(&tokens))];
        let session = deliveries.first().and_then(|one| one.session.clone()).filter(|_| names);
        body.extend(session.as_deref().map(|id| ("session-id", id.into())));
        let now_ms = self.bus.now_ms;
        let held = match session.filter(|_| self.has_sessions(at)) {
            Some(id) => self.bus.queue(at.0).and_then(|queue| queue.holder(peer, &id)).map(Some),
            None => Ok(None),
        };
        if let Some(transaction) = work {
            let outcome = self.checked(work, held).and_then(|held| {
                let disposed = self.dispose_in(transaction, peer, &deliveries, verdict);
                disposed.map_err(|refused| of_held(held.is_some(), refused))
            });
            return Some(Prepared {
                operation: "update-disposition",
                body: map(body),
                outcome: outcome.into(),
            });
        }
        let outcome = held.and_then(|held| {
            let queue = self.bus.queue(at.0)?;
            let mut first_refusal = None;
            for token in &tokens {
                if let Err(refused) = queue.settle(now_ms, (*token, at.1), verdict) {
                    first_refusal.get_or_insert(refused);
                }
            }
            match first_refusal {
                Some(refused) => Err(of_held(held.is_some(), refused)),
                None => Ok(Outcome::Done),
            }
        });
        self.bus.look_after();
        Some(Prepared { operation: "update-disposition", body: map(body), outcome: outcome.into() })
    }

    fn dispose_in(
        &mut self,
        transaction: usize,
        peer: usize,
        deliveries: &[Delivery],
        verdict: Verdict,
    ) -> Result<Outcome, Refused> {
        let settled = |one: &Delivery| {
            Work::Settled(Settled { path: one.path, token: one.token, place: one.place, verdict })
        };
        self.bus.work_in(transaction, deliveries.iter().map(settled).collect())?;
        for delivery in &mut self.peers[peer].deliveries {
            if deliveries.iter().any(|one| one.token == delivery.token) {
                delivery.work = Some(transaction);
            }
        }
        Ok(Outcome::Done)
    }
}

/// The refusal of a settlement that may name a session: if the client holds that, only the lock of the message is lost.
fn of_held(is_held: bool, refused: Refused) -> Refused {
    if is_held && refused == SESSION_LOST { LOCK_LOST } else { refused }
}
