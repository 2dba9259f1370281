//! What clients get from the broker, compared with what they expect.

use bytes::Bytes;
use peeklock_amqp::endpoint::{Event, IncomingId, LinkId};
use peeklock_amqp::servicebus::condition;
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::{Sections, lookup};
use peeklock_amqp::wire::performative::{Attach, DeliveryState, Error};

use super::acting::is_of_the_past;
use super::bus::Path;
use super::message::{Seen, Token};
use super::outcome::{Answered, Outcome, ROLLED_BACK, Refused};
use super::peer::{Asked, Delivery, Purpose};
use super::requests::swapped;
use super::world::World;

/// Ticks of 100 ns from the year 1 to 1970, and per millisecond.
const EPOCH_TICKS: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;

impl World {
    pub(crate) fn hear(&mut self, peer: usize, event: Event) {
        let link = match &event {
            Event::Attach { link, .. }
            | Event::Message { id: IncomingId { link, .. }, .. }
            | Event::Disposition { link, .. }
            | Event::Drained { link } => Some(*link),
            _ => None,
        };
        if is_of_the_past(&event) && link.is_some_and(|link| !self.peers[peer].links.contains_key(&link)) {
            return;
        }
        match event {
            Event::Attach { link, attach, .. } => self.attached(peer, link, &attach),
            Event::Detached { link, error, .. } => self.detached(peer, link, error.as_ref()),
            Event::Message { id, tag, settled, payload, .. } => {
                self.message(peer, id, Token::try_from(&tag[..]).ok(), settled, &payload);
            }
            Event::Disposition { link, first, tags, state, .. } => {
                for index in 0..tags.len() {
                    let sent = first.wrapping_add(u32::try_from(index).expect("few"));
                    self.sent_answered(peer, (link, sent), state.as_ref());
                }
            }
            Event::Settled { id, state } => self.settled(peer, id, state.as_ref()),
            Event::Updated { id, state } => self.settled(peer, id, Some(&state)),
            Event::Drained { link } => self.drained(peer, link),
            Event::Opened(_) | Event::Credit { .. } | Event::SessionEnded { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn check(&mut self, peer: usize, asked: Asked, outcome: &Outcome) {
        let mut expected = self.peers[peer].expected.remove(&asked);
        if let Some(Outcome::In(transaction, done)) = expected {
            let is_failed = self.bus.transactions[transaction].is_failed();
            let is_rolled_back = is_failed && *outcome == Outcome::Refused(ROLLED_BACK);
            expected = Some(if is_rolled_back { Outcome::Refused(ROLLED_BACK) } else { *done });
        }
        assert_eq!(expected.as_ref(), Some(outcome), "the answer to {asked:?} of client {peer}");
    }

    fn attached(&mut self, peer: usize, link: LinkId, attach: &Attach) {
        // A refusal: its reason follows.
        if attach.source.is_none() && attach.target.is_none() || self.peers[peer].left.contains(&link) {
            return;
        }
        let Some(purpose) = self.peers[peer].links.get(&link).copied() else { return };
        let Purpose::Receives { path, .. } = purpose else {
            return self.check(peer, Asked::Attach(link), &Outcome::Attached(None));
        };
        let granted = granted(attach);
        let session = granted.as_ref().map(|(id, until, _)| (id.clone(), *until));
        self.check(peer, Asked::Attach(link), &Outcome::Attached(session));
        if let Some((id, _, token)) = granted {
            let queue = self.bus.queues.get_mut(path).expect("it was attached to");
            queue.sessions.get_mut(&id).expect("it is held").token = token;
        }
    }

    fn detached(&mut self, peer: usize, link: LinkId, error: Option<&Error>) {
        let client = &mut self.peers[peer];
        if client.left.remove(&link) {
            return;
        }
        let condition = error.map(|error| known(&error.condition));
        let purpose = client.links.get(&link).copied();
        if client.expected.contains_key(&Asked::Attach(link)) {
            let refused = Outcome::Refused(condition.expect("a reason"));
            self.check(peer, Asked::Attach(link), &refused);
        } else {
            let expected = client.expected_ends.remove(&link);
            assert_eq!(
                condition, expected,
                "link {link:?} of client {peer}, {purpose:?}, is ended: {error:?}"
            );
        }
        self.peers[peer].forget(link);
    }

    fn message(&mut self, peer: usize, id: IncomingId, token: Option<Token>, settled: bool, payload: &Bytes) {
        match self.peers[peer].links[&id.link] {
            Purpose::Receives { path, place, deletes } => {
                assert_eq!(settled, deletes);
                let seen = Seen::decode(payload);
                let token = token.filter(|_| !settled);
                let now_ms = self.bus.now_ms;
                let queue = self.bus.queue(path).expect("a link to what exists");
                queue.delivered(now_ms, (peer, id.link), &seen, token);
                let Some(token) = token else { return };
                let (id, session) = (Some(id), seen.session);
                let delivery = Delivery { path, place, token, session, id, work: None };
                self.peers[peer].deliveries.push(delivery);
            }
            Purpose::Responses => self.responded(peer, id.link, payload),
            other => panic!("a message on a link that {other:?}"),
        }
    }

    fn responded(&mut self, peer: usize, link: LinkId, payload: &Bytes) {
        let (number, answered) = read_response(payload);
        let (path, place, session) = self.peers[peer].asked_at.remove(&number).expect("a request of ours");
        self.check(peer, Asked::Request(number, link), &answered.outcome);
        let Outcome::Messages(messages) = answered.outcome else { return };
        for (seen, token) in messages.iter().zip(answered.tokens) {
            let queue = self.bus.queue(path).expect("it was asked");
            queue.learn(seen.number, token);
            let session = session.clone().or_else(|| seen.session.clone());
            let delivery = Delivery { path, place, token, session, id: None, work: None };
            self.peers[peer].deliveries.push(delivery);
        }
    }

    fn sent_answered(&mut self, peer: usize, sent: (LinkId, u32), state: Option<&DeliveryState>) {
        let declared = self.peers[peer].declared.remove(&sent);
        if let (Some(transaction), Some(DeliveryState::Declared { txn_id })) = (declared, state) {
            self.bus.transactions[transaction].id = Some(txn_id.clone());
        }
        self.check(peer, Asked::Sent(sent.0, sent.1), &outcome_of(state));
    }

    fn settled(&mut self, peer: usize, id: IncomingId, state: Option<&DeliveryState>) {
        let asked = Asked::Settled(id.link, id.delivery_id);
        if self.peers[peer].expected.contains_key(&asked) {
            return self.check(peer, asked, &outcome_of(state));
        }
        // The broker settles the deliveries of a committed transaction.
        let open = self.peers[peer].deliveries.iter().find(|one| one.id == Some(id));
        assert!(open.is_none(), "{open:?} is settled by the broker: {state:?}");
    }

    fn drained(&mut self, peer: usize, link: LinkId) {
        assert!(self.draining.remove(&(peer, link)), "link {link:?} of client {peer} was not drained");
        let Purpose::Receives { path, .. } = self.peers[peer].links[&link] else { return };
        let queue = self.bus.queue(path).expect("a link to what exists");
        if let Some(receiver) = queue.receivers.get_mut(&(peer, link)) {
            receiver.credit = 0;
        }
    }
}

fn outcome_of(state: Option<&DeliveryState>) -> Outcome {
    match state {
        Some(DeliveryState::Rejected(Some(error))) => Outcome::Refused(known(&error.condition)),
        Some(DeliveryState::Transactional { outcome, .. }) => outcome_of(outcome.as_deref()),
        Some(_) => Outcome::Done,
        None => panic!("no state"),
    }
}

/// The session that a receiver was given: its key, the end of its lock, the token of a shared one.
fn granted(attach: &Attach) -> Option<(String, u64, Option<Token>)> {
    let (_, filter) = attach.source.as_ref()?.filter.first()?;
    let (id, token) = match filter {
        Value::Described(described) => match &described.value {
            Value::List(fields) => match &fields[..] {
                [Value::String(id), Value::Uuid(token)] => (id.to_string(), Some(*token)),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        },
        Value::String(id) => (id.to_string(), None),
        other => panic!("{other:?}"),
    };
    let until = attach.properties.iter().find(|(key, _)| &**key == "com.microsoft:locked-until-utc");
    let ticks = until.and_then(|(_, value)| value.as_i64()).expect("the end of the lock");
    let until_ms = u64::try_from((ticks - EPOCH_TICKS) / TICKS_PER_MS).expect("a time");
    Some((id.to_ascii_lowercase(), until_ms, token))
}

/// A condition that the model knows.
fn known(text: &str) -> Refused {
    let all = [
        condition::ARGUMENT_ERROR,
        condition::ENTITY_ALREADY_EXISTS,
        condition::ENTITY_DISABLED,
        condition::MESSAGE_LOCK_LOST,
        condition::MESSAGE_NOT_FOUND,
        condition::NOT_ALLOWED,
        condition::NOT_FOUND,
        condition::NOT_IMPLEMENTED,
        condition::RESOURCE_LIMIT_EXCEEDED,
        condition::SESSION_CANNOT_BE_LOCKED,
        condition::SESSION_LOCK_LOST,
        condition::TIMEOUT,
        condition::TRANSACTION_ROLLBACK,
        condition::TRANSACTION_TIMEOUT,
    ];
    all.into_iter().find(|one| *one == text).unwrap_or_else(|| panic!("the condition {text}"))
}

/// The number of a request, and the answer to it.
fn read_response(payload: &Bytes) -> (u64, Answered) {
    let sections = Sections::split(payload).expect("a response");
    let Value::ULong(number) = sections.decode_properties().expect("properties").correlation_id else {
        panic!("no number")
    };
    let properties = Sections::decode_map(&sections.application_properties).expect("properties");
    let status = lookup(&properties, "statusCode").and_then(Value::as_i64).expect("a status");
    let condition = lookup(&properties, "errorCondition").and_then(Value::as_str);
    let body = sections.body_value().expect("a body");
    let mut tokens = Vec::new();
    let outcome = match status {
        200 => read_result(&body, &mut tokens),
        204 => Outcome::Nothing,
        _ => Outcome::Refused(known(condition.expect("a condition"))),
    };
    (number, Answered { outcome, tokens })
}

fn read_result(body: &Value, tokens: &mut Vec<Token>) -> Outcome {
    let numbers = |key: &str| {
        let elements = body.get(key)?.as_elements()?;
        Some(elements.iter().map(|one| u64::try_from(number_of(one)).expect("positive")).collect())
    };
    let texts = |key: &str| {
        let elements = body.get(key)?.as_elements()?;
        Some(elements.iter().map(|one| one.as_str().expect("a text").to_ascii_lowercase()).collect())
    };
    if let Some(messages) = body.get("messages").and_then(Value::as_elements) {
        let mut seen = Vec::new();
        for entry in messages {
            let Some(Value::Binary(encoded)) = entry.get("message") else { panic!("no message") };
            seen.push(Seen::decode(encoded));
            if let Some(Value::Uuid(token)) = entry.get("lock-token") {
                tokens.push(swapped(*token));
            }
        }
        return Outcome::Messages(seen);
    }
    if let Some(rules) = body.get("rules").and_then(Value::as_elements) {
        return Outcome::Rules(rules.iter().map(rule_name).collect());
    }
    if let Some(state) = body.get("session-state") {
        return Outcome::State(match state {
            Value::Binary(bytes) => Some(bytes.to_vec()),
            _ => None,
        });
    }
    if let Some(count) = body.get("message-count") {
        return Outcome::Deleted(u32::try_from(number_of(count)).expect("a count"));
    }
    let until = body.get("expiration").map(|at| vec![u64::try_from(number_of(at)).expect("a time")]);
    None.or_else(|| numbers("sequence-numbers").map(Outcome::Numbers))
        .or_else(|| numbers("expirations").map(Outcome::Until))
        .or_else(|| until.map(Outcome::Until))
        .or_else(|| texts("sessions-ids").map(Outcome::Sessions))
        .unwrap_or(Outcome::Done)
}

fn number_of(value: &Value) -> i64 {
    match value {
        Value::Timestamp(at_ms) => *at_ms,
        other => other.as_i64().expect("a number"),
    }
}

/// The name of a rule in a list of rules.
fn rule_name(entry: &Value) -> String {
    let Some(Value::Described(description)) = entry.get("rule-description") else { panic!("{entry:?}") };
    let fields = description.value.as_elements().expect("fields");
    fields.iter().find_map(|field| field.as_str()).expect("a name").to_owned()
}

/// The path of a queue or subscription as the engine names it.
pub(crate) fn split(path: Path) -> (&'static str, Option<&'static str>) {
    path.split_once("/Subscriptions/").map_or((path, None), |(topic, name)| (topic, Some(name)))
}
