//! Requests to management nodes.

use bytes::{Bytes, BytesMut};
use peeklock_amqp::wire::Value;
use peeklock_amqp::wire::message::{MessageProperties, encode_application_properties, encode_body_value};
use peeklock_amqp::wire::performative::{Target, Terminus};

use super::bus::{Path, Place};
use super::message::{SESSIONS, Token};
use super::outcome::{ARGUMENT, NOT_ALLOWED, Outcome, UNKNOWN_OPERATION};
use super::peer::{Asked, Node, Purpose, address};
use super::step::Ask;
use super::world::World;

/// What the model says about a request, with its operation and body.
pub(crate) struct Prepared {
    pub(crate) operation: &'static str,
    pub(crate) body: Value,
    pub(crate) outcome: Outcome,
}

pub(crate) fn map(entries: Vec<(&'static str, Value)>) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (Value::String(key.into()), value)).collect())
}

pub(crate) fn longs(numbers: &[u64]) -> Value {
    let longs: Vec<i64> = numbers.iter().map(|number| i64::try_from(*number).expect("small")).collect();
    Value::array_of_longs(&longs)
}

/// A token of a delivery tag as a uuid, and the reverse.
pub(crate) fn swapped(token: Token) -> Token {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = token;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

impl World {
    pub(crate) fn request(
        &mut self,
        peer: usize,
        (path, place, copy): (Path, Place, u8),
        ask: &Ask,
        work: Option<u8>,
    ) {
        let is_missing = !self.bus.exists(path) || (path == "t" && place == Place::Dead);
        // Responses are received, which is refused from another entity than the session's.
        if is_missing || self.bus.via(peer, path).is_some() {
            return;
        }
        let node = self.node(peer, (path, place, copy));
        let ask = &self.with_session(peer, path, ask);
        // Removing what is received is refused in a transaction.
        let work = work.filter(|_| !matches!(ask, Ask::Receive { deletes: true, .. } | Ask::Bad(_)));
        let work = work.and_then(|number| self.pick_transaction(peer, number));
        let transaction = work.as_ref().map(|(transaction, _)| *transaction);
        let txn_id = work.map(|(_, id)| id);
        let Some(prepared) = self.prepare(peer, (path, place), ask, transaction) else { return };
        let peer = &mut self.peers[peer];
        peer.requests += 1;
        let number = peer.requests;
        let session = match ask {
            Ask::Receive { session: Some(session), .. } => {
                Some(SESSIONS[usize::from(*session) % 4].to_owned())
            }
            _ => None,
        };
        peer.asked_at.insert(number, (path, place, session));
        let payload = encode(number, &format!("client {}", node.key), &prepared);
        peer.send(node.requests, (true, 0), payload, txn_id);
        let asked = Asked::Request(number, node.responses);
        // What is carried out at once does not depend on the transaction.
        peer.expect(asked, prepared.outcome.within(transaction.filter(|_| ask.is_work())));
    }

    /// The request with the number of a session in [`SESSIONS`], mostly one that the client holds.
    fn with_session(&self, peer: usize, path: Path, ask: &Ask) -> Ask {
        let mut ask = ask.clone();
        let of = |number: u8| {
            let id = self.session_of(peer, path, number);
            let index = SESSIONS.iter().position(|known| *known == id);
            index.and_then(|index| u8::try_from(index).ok()).expect("one of them")
        };
        // Where no sessions are, naming one is refused: that is tried less often.
        let has_sessions = self.bus.queues.get(path).is_some_and(|queue| queue.shape.sessions);
        match &mut ask {
            Ask::Peek { session, .. } | Ask::Receive { session, .. } | Ask::Delete { session, .. } => {
                *session = session.filter(|number| has_sessions || *number >= 230).map(of);
            }
            Ask::RenewSession(session) | Ask::GetState(session) | Ask::SetState(session, _) => {
                *session = of(*session);
            }
            _ => {}
        }
        ask
    }

    /// A node of a client, attached if need be.
    fn node(&mut self, number: usize, (path, place, copy): (Path, Place, u8)) -> Node {
        let peer = &mut self.peers[number];
        let is_it = |node: &Node| (node.path, node.place, node.copy) == (path, place, copy);
        if let Some(node) = peer.nodes.iter().copied().find(|node| is_it(node)) {
            return node;
        }
        peer.names += 1;
        let key = peer.names;
        let node = format!("{}/$management", address(path, place));
        let terminus = |address: &str| Terminus { address: Some(address.into()), ..Terminus::default() };
        let requests = peer.attach(Purpose::Requests, |attach| {
            attach.target = Some(Target::Node(terminus(&node)));
        });
        let responses = peer.attach(Purpose::Responses, |attach| {
            attach.source = Some(terminus(&node));
            attach.target = Some(Target::Node(terminus(&format!("client {key}"))));
        });
        peer.connection.set_credit(responses, 1_000, false);
        let node = Node { key, path, place, copy, requests, responses };
        peer.nodes.push(node);
        for link in [requests, responses] {
            let outcome = self.bus.watch((number, link), path, false);
            self.peers[number].expect(Asked::Attach(link), outcome);
        }
        node
    }
}

pub(crate) fn uuids(tokens: &[Token]) -> Value {
    Value::Array(tokens.iter().map(|token| Value::Uuid(swapped(*token))).collect())
}

/// A malformed request.
pub(crate) fn bad(kind: u8, is_topic: bool) -> Prepared {
    let (operation, body, refused) = match kind % 5 {
        0 => ("make-coffee", map(Vec::new()), UNKNOWN_OPERATION),
        1 => ("peek-message", Value::Int(1), ARGUMENT),
        2 => ("peek-message", map(vec![("from-sequence-number", Value::Long(1))]), ARGUMENT),
        3 => ("receive-by-sequence-number", map(vec![("sequence-numbers", longs(&[]))]), ARGUMENT),
        _ => ("update-disposition", map(vec![("lock-tokens", longs(&[1]))]), ARGUMENT),
    };
    let refused = if is_topic && kind % 5 > 2 { NOT_ALLOWED } else { refused };
    Prepared { operation, body, outcome: Outcome::Refused(refused) }
}

fn encode(number: u64, reply_to: &str, prepared: &Prepared) -> Bytes {
    let mut output = BytesMut::new();
    let (message_id, reply_to) = (Value::ULong(number), Some(reply_to.into()));
    MessageProperties { message_id, reply_to, ..MessageProperties::default() }.encode(&mut output);
    let operation = format!("com.microsoft:{}", prepared.operation);
    let entries = [(Value::String("operation".into()), Value::String(operation.as_str().into()))];
    encode_application_properties(&entries, &mut output);
    encode_body_value(&prepared.body, &mut output);
    output.freeze()
}
