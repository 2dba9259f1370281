//! The requests to management nodes with what the model answers.

use peeklock_amqp::wire::Value;

use super::acting::pick;
use super::bus::{Path, Place, RULES, Verdict};
use super::message::{Draft, SESSIONS, Token};
use super::outcome::{ARGUMENT, LOCK_LOST, NOT_ALLOWED, Outcome, Refused, SESSION_LOST};
use super::peer::Delivery;
use super::requests::{Prepared, bad, longs, map, uuids};
use super::step::{Ask, DraftStep};
use super::world::World;

type Entries = Vec<(&'static str, Value)>;

impl World {
    pub(crate) fn prepare(&mut self, peer: usize, at: (Path, Place), ask: &Ask) -> Option<Prepared> {
        match ask {
            Ask::Peek { .. } | Ask::Delete { .. } | Ask::Sessions { .. } => {
                Some(self.prepare_listing(peer, at, ask))
            }
            Ask::RenewSession(_) | Ask::GetState(_) | Ask::SetState(..) => {
                Some(self.prepare_session(peer, at, ask))
            }
            Ask::Schedule(drafts) => Some(self.prepare_schedule(at, drafts)),
            Ask::Cancel { first, count } => Some(self.prepare_cancel(at, *first, *count)),
            Ask::Receive { .. } => Some(self.prepare_receive(peer, at, ask)),
            Ask::Renew { first, count } => self.prepare_renew(peer, at, *first, *count),
            Ask::Dispose { first, count, verdict, names } => {
                self.prepare_dispose(peer, at, (*first, *count), *verdict, *names)
            }
            Ask::AddRule(_) | Ask::RemoveRule(_) | Ask::Rules { .. } => Some(self.prepare_rules(at, ask)),
            Ask::Bad(kind) => Some(bad(*kind, self.bus.topics.contains_key(at.0))),
        }
    }

    fn has_sessions(&self, (path, place): (Path, Place)) -> bool {
        place == Place::Main && self.bus.queues.get(path).is_some_and(|queue| queue.shape.sessions)
    }

    /// Whether messages can be received: not from a topic.
    fn check_queue(&self, path: Path) -> Result<(), Refused> {
        if self.bus.topics.contains_key(path) { Err(NOT_ALLOWED) } else { Ok(()) }
    }

    /// The key of a session that the client holds, if one is named.
    fn held(
        &mut self,
        peer: usize,
        at: (Path, Place),
        session: Option<u8>,
    ) -> Result<Option<String>, Refused> {
        let Some(session) = session else { return Ok(None) };
        if !self.has_sessions(at) {
            return Err(NOT_ALLOWED);
        }
        let id = SESSIONS[usize::from(session) % 4];
        self.bus.queue(at.0)?.holder(peer, id)?;
        Ok(Some(id.to_ascii_lowercase()))
    }

    fn prepare_listing(&mut self, peer: usize, at: (Path, Place), ask: &Ask) -> Prepared {
        let (path, place) = at;
        let session_id = |session: &Option<u8>| session.map(|session| SESSIONS[usize::from(session) % 4]);
        let mut body: Entries = Vec::new();
        let mut name =
            |session: &Option<u8>| body.extend(session_id(session).map(|id| ("session-id", id.into())));
        match ask {
            Ask::Peek { from, count, session } => {
                name(session);
                body.push(("from-sequence-number", Value::Long((*from).into())));
                body.push(("message-count", Value::Int((*count).into())));
                let outcome = if session.is_some() && !self.has_sessions(at) {
                    Outcome::Refused(NOT_ALLOWED)
                } else {
                    let queue = match self.bus.topics.get(path) {
                        Some(topic) => &topic.scheduled,
                        None => &self.bus.queues[path],
                    };
                    queue.peek(place, (*from).into(), (*count).into(), session_id(session))
                };
                Prepared { operation: "peek-message", body: map(body), outcome }
            }
            Ask::Delete { count, session } => {
                name(session);
                body.push(("message-count", Value::Int((*count).into())));
                let now = i64::try_from(self.bus.now_ms).expect("a time");
                body.push(("enqueued-time-utc", Value::Timestamp(now)));
                let outcome = self.check_queue(path).and_then(|()| {
                    let held = self.held(peer, at, *session)?;
                    if held.is_none() && self.has_sessions(at) {
                        return Err(NOT_ALLOWED);
                    }
                    Ok(self.bus.queue(path)?.delete_messages(place, (*count).into(), held.as_deref()))
                });
                self.bus.look_after();
                Prepared { operation: "batch-delete-messages", body: map(body), outcome: outcome.into() }
            }
            _ => self.prepare_sessions(at, ask),
        }
    }

    fn prepare_sessions(&mut self, at: (Path, Place), ask: &Ask) -> Prepared {
        let Ask::Sessions { all, skip, top } = ask else { unreachable!("of sessions") };
        let hour_ago = self.bus.now_ms - 40_000;
        let after = if *all { 253_402_300_799_999 } else { hour_ago };
        let body = vec![
            ("last-updated-time", Value::Timestamp(i64::try_from(after).expect("a time"))),
            ("skip", Value::Int((*skip).into())),
            ("top", Value::Int((*top).into())),
        ];
        let outcome = if self.has_sessions(at) {
            let after = (!*all).then_some(hour_ago);
            self.bus.queues[at.0].list_sessions(after, (*skip).into(), (*top).into())
        } else {
            Outcome::Refused(NOT_ALLOWED)
        };
        Prepared { operation: "get-message-sessions", body: map(body), outcome }
    }

    fn prepare_session(&mut self, peer: usize, at: (Path, Place), ask: &Ask) -> Prepared {
        let (operation, session, state) = match ask {
            Ask::RenewSession(session) => ("renew-session-lock", *session, None),
            Ask::GetState(session) => ("get-session-state", *session, None),
            Ask::SetState(session, state) => ("set-session-state", *session, Some(*state)),
            _ => unreachable!("of a session"),
        };
        let id = SESSIONS[usize::from(session) % 4];
        let mut body: Entries = vec![("session-id", id.into())];
        let bytes = state.map(|state| state.map(|state| vec![state; usize::from(state % 3)]));
        if let Some(state) = &bytes {
            let value = state.as_ref().map_or(Value::Null, |bytes| Value::Binary(bytes.clone().into()));
            body.push(("session-state", value));
        }
        let now_ms = self.bus.now_ms;
        let outcome = self.held(peer, at, Some(session)).map(|key| {
            let queue = self.bus.queues.get_mut(at.0).expect("it is held");
            let session = queue.sessions.get_mut(&key.unwrap_or_default()).expect("it is held");
            match (ask, bytes) {
                (Ask::RenewSession(_), _) => queue.renew_session(now_ms, id),
                (_, Some(state)) => {
                    session.state = state.filter(|bytes| !bytes.is_empty()).map(|bytes| (bytes, now_ms));
                    Outcome::Done
                }
                _ => Outcome::State(session.state.as_ref().map(|(bytes, _)| bytes.clone())),
            }
        });
        Prepared { operation, body: map(body), outcome: outcome.into() }
    }

    fn prepare_schedule(&mut self, (path, place): (Path, Place), steps: &[DraftStep]) -> Prepared {
        let drafts: Vec<Draft> = steps.iter().map(|step| self.draft(step)).collect();
        let message = |draft: &Draft| {
            let message_id = draft.message_id();
            map(vec![("message-id", message_id.as_str().into()), ("message", Value::Binary(draft.encode()))])
        };
        let body = map(vec![("messages", Value::List(drafts.iter().map(message).collect()))]);
        let is_wrong = drafts.iter().any(|draft| draft.due_ms.is_none());
        let outcome = match (path.contains('/') || place == Place::Dead, is_wrong) {
            (true, _) => Err(NOT_ALLOWED),
            (false, true) => Err(ARGUMENT),
            (false, false) => self.bus.send(path, &drafts).map(Outcome::Numbers),
        };
        Prepared { operation: "schedule-message", body, outcome: outcome.into() }
    }

    fn prepare_cancel(&mut self, (path, place): (Path, Place), first: u8, count: u8) -> Prepared {
        let queue = match self.bus.topics.get(path) {
            Some(topic) => &topic.scheduled,
            None => &self.bus.queues[path],
        };
        let known: Vec<u64> = queue.messages.keys().copied().collect();
        let is_due = |number: &&u64| queue.messages[number].due_ms.is_some();
        let due: Vec<u64> = known.iter().filter(is_due).copied().collect();
        let from = if first.is_multiple_of(4) { known } else { due };
        let numbers: Vec<u64> =
            (0..count).filter_map(|index| pick(&from, first.wrapping_add(index))).collect();
        let body = map(vec![("sequence-numbers", longs(&numbers))]);
        let outcome = if path.contains('/') || place == Place::Dead {
            Err(NOT_ALLOWED)
        } else {
            self.bus.cancel(path, &numbers)
        };
        Prepared { operation: "cancel-scheduled-message", body, outcome: outcome.into() }
    }

    fn prepare_receive(&mut self, peer: usize, at: (Path, Place), ask: &Ask) -> Prepared {
        let Ask::Receive { first, count, deletes, session } = ask else { unreachable!("receives") };
        let (path, place) = at;
        let known = self.bus.queues.get(path).map(|queue| &queue.messages);
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
        let outcome = self.check_queue(path).and_then(|()| {
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

    fn prepare_renew(&mut self, peer: usize, at: (Path, Place), first: u8, count: u8) -> Option<Prepared> {
        let tokens: Vec<Token> = self.own(peer, at, first, count)?.iter().map(|one| one.token).collect();
        let body = map(vec![("lock-tokens", uuids(&tokens))]);
        let now_ms = self.bus.now_ms;
        let outcome = self.bus.queue(at.0).and_then(|queue| queue.renew(now_ms, at.1, &tokens));
        Some(Prepared { operation: "renew-lock", body, outcome: outcome.into() })
    }

    fn prepare_dispose(
        &mut self,
        peer: usize,
        at: (Path, Place),
        (first, count): (u8, u8),
        verdict: Verdict,
        names: bool,
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
        let outcome = held.and_then(|held| {
            let queue = self.bus.queue(at.0)?;
            let mut first_refusal = None;
            for token in &tokens {
                if let Err(refused) = queue.settle(now_ms, (*token, at.1), verdict) {
                    first_refusal.get_or_insert(refused);
                }
            }
            match first_refusal {
                Some(SESSION_LOST) if held.is_some() => Err(LOCK_LOST),
                Some(refused) => Err(refused),
                None => Ok(Outcome::Done),
            }
        });
        self.bus.look_after();
        Some(Prepared { operation: "update-disposition", body: map(body), outcome: outcome.into() })
    }

    fn prepare_rules(&mut self, (path, place): (Path, Place), ask: &Ask) -> Prepared {
        let rule = |number: &u8| usize::from(*number) % RULES.len();
        let is_wrong = !path.contains('/') || place == Place::Dead;
        let (operation, body, outcome) = match ask {
            Ask::AddRule(number) => {
                let (name, color) = RULES[rule(number)];
                let sql = color.map_or("1=1".to_owned(), |color| format!("color = {color}"));
                let filter = map(vec![("expression", sql.as_str().into())]);
                let description = map(vec![("sql-filter", filter), ("rule-name", name.into())]);
                let body = map(vec![("rule-name", name.into()), ("rule-description", description)]);
                (
                    "add-rule",
                    body,
                    if is_wrong { Err(NOT_ALLOWED) } else { self.bus.add_rule(path, rule(number)) },
                )
            }
            Ask::RemoveRule(number) => {
                let body = map(vec![("rule-name", RULES[rule(number)].0.into())]);
                let outcome =
                    if is_wrong { Err(NOT_ALLOWED) } else { self.bus.remove_rule(path, rule(number)) };
                ("remove-rule", body, outcome)
            }
            Ask::Rules { skip, top } => {
                let body =
                    map(vec![("skip", Value::Int((*skip).into())), ("top", Value::Int((*top).into()))]);
                let (skip, top) = ((*skip).into(), (*top).into());
                let outcome = if is_wrong { Err(NOT_ALLOWED) } else { self.bus.list_rules(path, skip, top) };
                ("enumerate-rules", body, outcome)
            }
            _ => unreachable!("about rules"),
        };
        Prepared { operation, body, outcome: outcome.into() }
    }
}
