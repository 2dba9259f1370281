//! A queue with sessions: which receiver holds which session, the messages it must get next, and the session's state.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use peeklock_engine::{
    AcceptedSession, Command, CreditLimit, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, Refusal,
    SequenceNumber, SessionRequest, SubQueue, Timestamp,
};

use super::steps::{Place, SessionStep};
use super::world::{Asked, Reader, World};
use crate::auditor::Auditor;

/// The id of a session by its index, in lower or upper case.
pub(super) fn session_id(index: usize, is_upper: bool) -> String {
    let id = ["a", "b", "c"][index];
    if is_upper { id.to_ascii_uppercase() } else { id.to_owned() }
}

/// A request about a session's state.
pub(super) enum StateAsked {
    Set { session: String, value: Option<Bytes> },
    Get { session: String },
}

/// A session held by one of the simulation's receivers.
#[derive(Debug)]
struct Holding {
    session: String,
    until: Timestamp,
    /// Messages delivered since it was accepted.
    seen: BTreeSet<SequenceNumber>,
}

/// Possible values of a session's state.
#[derive(Debug, Default)]
struct State {
    /// The last answered value.
    value: Option<Bytes>,
    /// Values requested and not answered yet.
    under_way: Vec<Option<Bytes>>,
    /// Values not answered when the broker crashed.
    in_doubt: Vec<Option<Bytes>>,
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    held: BTreeMap<ReceiverId, Holding>,
    /// Messages by session and number, as far as the number is known.
    messages: BTreeMap<String, BTreeMap<SequenceNumber, String>>,
    states: BTreeMap<String, State>,
    next_state: u64,
    /// Messages that were deferred and made available again: they may be delivered after later ones.
    out_of_order: BTreeSet<SequenceNumber>,
}

impl Sessions {
    pub(super) fn holds(&self, receiver: ReceiverId) -> bool {
        self.held.contains_key(&receiver)
    }

    /// The message may be delivered after later ones from now on.
    pub(super) fn out_of_order(&mut self, number: SequenceNumber) {
        self.out_of_order.insert(number);
    }

    pub(super) fn closed(&mut self, receiver: ReceiverId) {
        self.held.remove(&receiver);
    }

    /// Whether the lock may have expired, or its acceptance is not known yet.
    pub(super) fn may_be_lost(&self, receiver: ReceiverId, now: Timestamp) -> bool {
        self.held.get(&receiver).is_none_or(|holding| holding.until <= now)
    }

    /// A message was accepted with this number.
    pub(super) fn accepted(&mut self, number: SequenceNumber, content: &str) {
        if let Some((_, session)) = content.split_once('@') {
            self.messages.entry(session.to_owned()).or_default().insert(number, content.to_owned());
        }
    }

    /// The holder of a session got a message: checks that it belongs to the session and that none before it was skipped.
    pub(super) fn delivered(
        &mut self,
        receiver: ReceiverId,
        number: SequenceNumber,
        content: &str,
        auditor: &Auditor,
    ) {
        self.accepted(number, content);
        let holding = self.held.get_mut(&receiver).expect("it holds one");
        assert!(content.ends_with(&format!("@{}", holding.session)), "{content} is not of {holding:?}");
        if self.out_of_order.contains(&number) || !holding.seen.insert(number) {
            return;
        }
        let last = holding.seen.last().copied();
        assert_eq!(last, Some(number), "{content} came late to {holding:?}");
        for (earlier, content) in self.messages[&holding.session].range(..number) {
            let due = !holding.seen.contains(earlier) && auditor.is_active(content);
            assert!(!due, "{number:?} came before {content}, {earlier:?}, to {holding:?}");
        }
    }

    pub(super) fn renewed(&mut self, receiver: ReceiverId, result: Result<Timestamp, Refusal>) {
        if let (Ok(until), Some(holding)) = (result, self.held.get_mut(&receiver)) {
            holding.until = until;
        }
    }

    pub(super) fn state_set(&mut self, session: &str, value: Option<Bytes>, result: Result<(), Refusal>) {
        let state = self.states.entry(session.to_owned()).or_default();
        if matches!(result, Err(Refusal::StorageFull | Refusal::StorageFailing)) {
            // A full disk refuses a request before its turn.
            let refused = state.under_way.iter().position(|under_way| *under_way == value);
            state.under_way.remove(refused.expect("a state under way"));
            return;
        }
        assert_eq!(state.under_way.remove(0), value, "answers come in order");
        match result {
            Ok(()) => {
                state.value = value;
                state.in_doubt.clear();
            }
            Err(Refusal::Unavailable) => state.in_doubt.push(value),
            Err(_) => {}
        }
    }

    /// Responses come in order, so the value read is the one that was answered last.
    pub(super) fn state_read(&mut self, session: &str, result: Result<Option<Bytes>, Refusal>) {
        let Ok(read) = result else { return };
        let state = self.states.entry(session.to_owned()).or_default();
        let expected = read == state.value || state.in_doubt.contains(&read);
        assert!(expected, "the state of {session} is {read:?}: {state:?}");
        state.value = read;
        state.in_doubt.clear();
    }

    /// Sessions that may have a state.
    pub(super) fn with_states(&self) -> Vec<String> {
        self.states.keys().cloned().collect()
    }

    /// Number of sessions with a state, once all values are known.
    pub(super) fn states_set(&self) -> usize {
        self.states.values().filter(|state| state.value.is_some()).count()
    }

    pub(super) fn restarted(&mut self) {
        self.held.clear();
        for state in self.states.values_mut() {
            state.in_doubt.append(&mut state.under_way);
        }
    }
}

impl World {
    pub(super) fn session_step(&mut self, step: SessionStep) {
        let address = self.find(Place::Sessions).expect("the queue stays");
        let receiver = match step {
            SessionStep::Accept { id, wait_ms, credit } => {
                self.accept(id.map(|id| session_id(id, wait_ms % 2 == 1)), wait_ms, credit);
                return;
            }
            SessionStep::Close { which }
            | SessionStep::Renew { which }
            | SessionStep::SetState { which, .. }
            | SessionStep::GetState { which } => {
                let count = self.sessions.held.len().max(1);
                self.sessions.held.keys().nth(which % count).copied()
            }
        };
        let Some(receiver) = receiver else { return };
        let session = self.sessions.held[&receiver].session.clone();
        let (command, asked) = match step {
            SessionStep::Accept { .. } => return,
            SessionStep::Close { .. } => {
                self.sessions.closed(receiver);
                let reader = self.receivers.remove(&receiver);
                reader.iter().for_each(|reader| self.closed(reader));
                (Command::CloseReceiver { receiver }, None)
            }
            SessionStep::Renew { .. } => {
                (Command::RenewSessionLock { receiver }, Some(Asked::Renew { receiver }))
            }
            SessionStep::SetState { clear, .. } => {
                self.sessions.next_state += 1;
                let value = (!clear).then(|| Bytes::from(format!("state {}", self.sessions.next_state)));
                let state = self.sessions.states.entry(session.clone()).or_default();
                state.under_way.push(value.clone());
                let command = Command::SetSessionState { receiver, state: value.clone() };
                (command, Some(Asked::State(StateAsked::Set { session, value })))
            }
            SessionStep::GetState { .. } => {
                let asked = Asked::State(StateAsked::Get { session });
                (Command::GetSessionState { receiver }, Some(asked))
            }
        };
        self.submit(&address, command, asked);
    }

    /// Requests a session by id, or the next one available.
    pub(super) fn accept(&mut self, id: Option<String>, wait_ms: u64, credit: u64) -> ReceiverId {
        let address = self.find(Place::Sessions).expect("the queue stays");
        let receiver = self.broker.namespace.next_receiver_id(&address.partition);
        let mode = ReceiveMode::PeekLock;
        let (sub_queue, selects) = (SubQueue::Main, false);
        let reader = Reader { address: address.clone(), sub_queue, mode, credit, selects };
        self.receivers.insert(receiver, reader);
        let options = ReceiverOptions { source: QueuePath::main(address.queue), mode };
        let wait_until = self.now().plus_ms(wait_ms);
        let session = Some(SessionRequest {
            id: id.map(String::into_boxed_str),
            wait_until,
            ..SessionRequest::default()
        });
        let open = Command::OpenReceiver { receiver, options, session };
        self.submit(&address, open, Some(Asked::Accept { receiver }));
        let limit = CreditLimit { messages: credit, bytes: u64::MAX };
        self.submit(&address, Command::Credit { receiver, limit, drain: false }, None);
        receiver
    }

    pub(super) fn accepted(
        &mut self,
        receiver: ReceiverId,
        result: Result<Option<AcceptedSession>, Refusal>,
    ) {
        let Ok(accepted) = result else {
            self.receivers.remove(&receiver);
            return;
        };
        let AcceptedSession { id, locked_until: until, .. } = accepted.expect("a session was asked for");
        if !self.receivers.contains_key(&receiver) {
            return;
        }
        // Session ids are case-insensitive.
        let id = id.to_ascii_lowercase();
        let other = self.sessions.held.iter().find(|(_, holding)| *holding.session == *id);
        assert!(other.is_none(), "{receiver:?} got session {id}, which has a holder: {other:?}");
        let holding = Holding { session: id, until, seen: BTreeSet::new() };
        self.sessions.held.insert(receiver, holding);
    }
}
