//! The requests to management nodes with what the model answers.

use peeklock_amqp::wire::Value;

use super::acting::pick;
use super::bus::{Path, Place, RULES, Work};
use super::message::{Draft, SESSIONS};
use super::outcome::{ARGUMENT, NOT_ALLOWED, Outcome, Refused};
use super::requests::{Prepared, bad, longs, map};
use super::step::{Ask, DraftStep};
use super::world::World;

type Entries = Vec<(&'static str, Value)>;

impl World {
    pub(crate) fn prepare(
        &mut self,
        peer: usize,
        at: (Path, Place),
        ask: &Ask,
        work: Option<usize>,
    ) -> Option<Prepared> {
        match ask {
            Ask::Peek { .. } | Ask::Delete { .. } | Ask::Sessions { .. } => {
                Some(self.prepare_listing(peer, at, ask))
            }
            Ask::RenewSession(_) | Ask::GetState(_) | Ask::SetState(..) => {
                Some(self.prepare_session(peer, at, ask, work))
            }
            Ask::Schedule(drafts) => Some(self.prepare_schedule(at, drafts, work)),
            Ask::Cancel { first, count } => Some(self.prepare_cancel(at, (*first, *count), work)),
            Ask::Receive { .. } => Some(self.prepare_receive(peer, at, ask)),
            Ask::Renew { first, count } => self.prepare_renew(peer, at, *first, *count),
            Ask::Dispose { first, count, verdict, names } => {
                self.prepare_dispose(peer, at, (*first, *count), (*verdict, *names), work)
            }
            Ask::AddRule(_) | Ask::RemoveRule(_) | Ask::Rules { .. } => Some(self.prepare_rules(at, ask)),
            Ask::Bad(kind) => Some(bad(*kind, self.check_queue(at).is_err())),
        }
    }

    pub(super) fn has_sessions(&self, (path, place): (Path, Place)) -> bool {
        place == Place::Main && self.bus.queues.get(path).is_some_and(|queue| queue.shape.sessions)
    }

    /// Whether messages can be received: of a topic, only its transfer dead letters.
    pub(super) fn check_queue(&self, (path, place): (Path, Place)) -> Result<(), Refused> {
        let is_topic = self.bus.topics.contains_key(path);
        if is_topic && place != Place::Transfer { Err(NOT_ALLOWED) } else { Ok(()) }
    }

    /// The key of a session that the client holds, if one is named.
    pub(super) fn held(
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
                } else if let Err(refused) = self.bus.check_receives(path) {
                    Outcome::Refused(refused)
                } else {
                    let queue = self.bus.source(path).expect("it exists");
                    queue.peek(place, (*from).into(), (*count).into(), session_id(session))
                };
                Prepared { operation: "peek-message", body: map(body), outcome }
            }
            Ask::Delete { count, session } => {
                name(session);
                body.push(("message-count", Value::Int((*count).into())));
                let now = i64::try_from(self.bus.now_ms).expect("a time");
                body.push(("enqueued-time-utc", Value::Timestamp(now)));
                let outcome = self.check_queue(at).and_then(|()| {
                    let held = self.held(peer, at, *session)?;
                    if held.is_none() && self.has_sessions(at) {
                        return Err(NOT_ALLOWED);
                    }
                    self.bus.queue(path)?.delete_messages(place, (*count).into(), held.as_deref())
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
        let outcome = if !self.has_sessions(at) {
            Outcome::Refused(NOT_ALLOWED)
        } else if let Err(refused) = self.bus.check_receives(at.0) {
            Outcome::Refused(refused)
        } else {
            let after = (!*all).then_some(hour_ago);
            self.bus.queues[at.0].list_sessions(after, (*skip).into(), (*top).into())
        };
        Prepared { operation: "get-message-sessions", body: map(body), outcome }
    }

    fn prepare_session(
        &mut self,
        peer: usize,
        at: (Path, Place),
        ask: &Ask,
        work: Option<usize>,
    ) -> Prepared {
        let (operation, session, state) = match ask {
            Ask::RenewSession(session) => ("renew-session-lock", *session, None),
            Ask::GetState(session) => ("get-session-state", *session, None),
            Ask::SetState(session, state) => ("set-session-state", *session, Some(*state)),
            _ => unreachable!("of a session"),
        };
        let id = SESSIONS[usize::from(session) % 4];
        let mut body: Entries = vec![("session-id", id.into())];
        let bytes = state.map(|state| state.map(|state| vec![state; [0, 1, 60][usize::from(state % 3)]]));
        if let Some(state) = &bytes {
            let value = state.as_ref().map_or(Value::Null, |bytes| Value::Binary(bytes.clone().into()));
            body.push(("session-state", value));
        }
        if let (Some(transaction), Some(state)) = (work, &bytes) {
            let outcome = self.set_state_in(transaction, peer, at, (session, state.clone()));
            return Prepared { operation, body: map(body), outcome: outcome.into() };
        }
        let now_ms = self.bus.now_ms;
        let outcome = self.held(peer, at, Some(session)).and_then(|key| {
            let queue = self.bus.queues.get_mut(at.0).expect("it is held");
            let key = key.unwrap_or_default();
            Ok(match (ask, bytes) {
                (Ask::RenewSession(_), _) => queue.renew_session(now_ms, id),
                (_, Some(state)) => self.bus.change_state(at.0, &key, state)?,
                _ => Outcome::State(queue.sessions[&key].state.as_ref().map(|(bytes, _)| bytes.clone())),
            })
        });
        Prepared { operation, body: map(body), outcome: outcome.into() }
    }

    /// A refusal before the engine is asked fails the transaction of a request.
    pub(super) fn checked<T>(
        &mut self,
        work: Option<usize>,
        result: Result<T, Refused>,
    ) -> Result<T, Refused> {
        if let (Some(transaction), Err(_)) = (work, &result) {
            self.bus.fail(transaction);
        }
        result
    }

    fn set_state_in(
        &mut self,
        transaction: usize,
        peer: usize,
        at: (Path, Place),
        (session, state): (u8, Option<Vec<u8>>),
    ) -> Result<Outcome, Refused> {
        let held = self.held(peer, at, Some(session));
        let id = self.checked(Some(transaction), held)?.unwrap_or_default();
        let holder = self.bus.queue(at.0)?.holder(peer, &id)?;
        let work = Work::State { path: at.0, holder, id, state };
        self.bus.work_in(transaction, vec![work]).map(|_| Outcome::Done)
    }

    fn prepare_schedule(
        &mut self,
        (path, place): (Path, Place),
        steps: &[DraftStep],
        work: Option<usize>,
    ) -> Prepared {
        let drafts: Vec<Draft> = steps.iter().map(|step| self.draft(path, step)).collect();
        let message = |draft: &Draft| {
            let message_id = draft.message_id();
            map(vec![("message-id", message_id.as_str().into()), ("message", Value::Binary(draft.encode()))])
        };
        let body = map(vec![("messages", Value::List(drafts.iter().map(message).collect()))]);
        let is_wrong = drafts.iter().any(|draft| draft.due_ms.is_none());
        let outcome = match (path.contains('/') || place != Place::Main, is_wrong) {
            (true, _) => Err(NOT_ALLOWED),
            (false, true) => Err(ARGUMENT),
            (false, false) => Ok(()),
        };
        let outcome = self.checked(work, outcome).and_then(|()| match work {
            Some(transaction) => {
                let drafts = drafts.into_iter().map(|draft| (draft, None)).collect();
                self.bus.work_in(transaction, vec![Work::Sent(path, drafts)])
            }
            None => self.bus.send(path, &drafts),
        });
        Prepared { operation: "schedule-message", body, outcome: outcome.map(Outcome::Numbers).into() }
    }

    fn prepare_cancel(
        &mut self,
        (path, place): (Path, Place),
        (first, count): (u8, u8),
        work: Option<usize>,
    ) -> Prepared {
        let queue = self.bus.source(path).expect("it exists");
        let known: Vec<u64> = queue.messages.keys().copied().collect();
        let is_due = |number: &&u64| queue.messages[number].due_ms.is_some();
        let due: Vec<u64> = known.iter().filter(is_due).copied().collect();
        let from = if first.is_multiple_of(4) { known } else { due };
        let numbers: Vec<u64> =
            (0..count).filter_map(|index| pick(&from, first.wrapping_add(index))).collect();
        let body = map(vec![("sequence-numbers", longs(&numbers))]);
        let outcome = if path.contains('/') || place != Place::Main {
            Err(NOT_ALLOWED)
        } else if numbers.is_empty() {
            Err(ARGUMENT)
        } else {
            Ok(())
        };
        let outcome = self.checked(work, outcome).and_then(|()| match work {
            Some(transaction) => {
                let cancelled = vec![Work::Cancelled(path, numbers)];
                self.bus.work_in(transaction, cancelled).map(|_| Outcome::Done)
            }
            None => self.bus.cancel(path, &numbers),
        });
        Prepared { operation: "cancel-scheduled-message", body, outcome: outcome.into() }
    }

    fn prepare_rules(&mut self, (path, place): (Path, Place), ask: &Ask) -> Prepared {
        let rule = |number: &u8| usize::from(*number) % RULES.len();
        let is_wrong = !path.contains('/') || place != Place::Main;
        let (operation, body, outcome) = match ask {
            Ask::AddRule(number) => {
                let shape = &RULES[rule(number)];
                let name = shape.name;
                let sql = |expression: &str| map(vec![("expression", expression.into())]);
                let mut entries = vec![("sql-filter", sql(&shape.filter())), ("rule-name", name.into())];
                entries.extend(shape.action().map(|action| ("sql-rule-action", sql(&action))));
                let description = map(entries);
                let body = map(vec![("rule-name", name.into()), ("rule-description", description)]);
                (
                    "add-rule",
                    body,
                    if is_wrong { Err(NOT_ALLOWED) } else { self.bus.add_rule(path, rule(number)) },
                )
            }
            Ask::RemoveRule(number) => {
                let body = map(vec![("rule-name", RULES[rule(number)].name.into())]);
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
