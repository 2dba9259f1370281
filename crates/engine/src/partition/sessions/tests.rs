//! Recounts the session indexes from messages, locks and receivers, to be compared after every event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::State;
use super::super::queue::Queue;
use super::Session;
use crate::layout::HeadSubject;
use crate::{MessageState, SequenceNumber, SessionId, SubQueue, Timestamp};

type StoredStates = Vec<(String, u64, bytes::Bytes, Timestamp)>;

/// The states of a queue's sessions, by key.
pub(in crate::partition) fn states(queue: &Queue) -> StoredStates {
    let sessions = queue.sessions.iter().flat_map(|sessions| sessions.by_id.values());
    let with_state = sessions.filter_map(|session| Some((session, session.state()?)));
    let stored = with_state
        .map(|(of, state)| (of.id.key().to_string(), state.number, state.bytes.clone(), state.updated_at));
    stored.collect()
}

/// Total size of the states of a queue's sessions, in bytes.
pub(in crate::partition) fn state_bytes(queue: &Queue) -> u64 {
    states(queue).iter().map(|(_, _, bytes, _)| bytes.len() as u64).sum()
}

/// Panics unless the indexes of a queue's sessions equal a recount.
pub(in crate::partition) fn check(state: &State, queue: &Queue) {
    let Some(sessions) = &queue.sessions else { return };
    check_messages(state, queue);
    let by_id = &sessions.by_id;
    for (id, session) in by_id {
        assert_eq!(id, session.id.key());
        assert_eq!(session.extra.session_id.as_ref().map(SessionId::key), Some(id));
        assert!(!session.is_vacant(), "{session:?}");
        check_holder(queue, session);
    }
    let each = |pick: &dyn Fn(&Session) -> Option<(Timestamp, u64)>| -> BTreeSet<(Timestamp, u64)> {
        by_id.values().filter_map(pick).collect()
    };
    let pairs = |set: &BTreeSet<(Timestamp, crate::ReceiverId)>| -> BTreeSet<(Timestamp, u64)> {
        set.iter().map(|(at, receiver)| (*at, receiver.0)).collect()
    };
    let ready: BTreeMap<SequenceNumber, Arc<str>> = by_id
        .values()
        .filter(|session| session.holder.is_none() && session.returning.is_none())
        .filter_map(|session| Some((session.first_available()?, Arc::clone(session.id.key()))))
        .collect();
    assert_eq!(sessions.ready, ready);
    assert_eq!(
        pairs(&sessions.lock_ends),
        each(&|session| session.holder.map(|holder| (holder.until, holder.receiver.0)))
    );
    let listened = |session: &Session| {
        let holder = session.holder.filter(|holder| holder.listens)?;
        Some((session.expiries.first()?.0, holder.receiver.0))
    };
    assert_eq!(pairs(&sessions.expiries), each(&listened));
    let served = |session: &Session| {
        let holder =
            session.holder.filter(|holder| holder.can_be_served && session.first_available().is_some())?;
        Some((session.expiries.first().map_or(Timestamp::NEVER, |(at, _)| *at), holder.receiver.0))
    };
    assert_eq!(pairs(&sessions.served), each(&served));
    let returning = by_id.values().filter(|session| session.returning.is_some());
    assert_eq!(sessions.returning, returning.map(|session| Arc::clone(session.id.key())).collect());
    let held =
        by_id.values().filter_map(|session| Some((session.holder?.receiver, Arc::clone(session.id.key()))));
    assert_eq!(sessions.held, held.collect());
    let states = states(queue);
    assert_eq!(sessions.state_bytes, state_bytes(queue));
    assert_eq!(sessions.counts().2, states.len() as u64);
    let numbers: BTreeSet<u64> = states.iter().map(|(_, number, ..)| *number).collect();
    assert_eq!(numbers.len(), states.len(), "each state has a number of its own");
    let first = HeadSubject::SessionState(0).number();
    assert!(numbers.iter().all(|number| (first..first + sessions.next_state).contains(number)));
}

/// The messages of a session, by availability.
#[derive(Debug, Default, PartialEq)]
struct Recounted {
    available: BTreeSet<SequenceNumber>,
    expiries: BTreeSet<(Timestamp, SequenceNumber)>,
    in_flight: BTreeSet<SequenceNumber>,
    aside: BTreeSet<SequenceNumber>,
    held_back: BTreeSet<SequenceNumber>,
    active: u64,
}

fn check_messages(state: &State, queue: &Queue) {
    let messages = queue.messages.get(SubQueue::Main);
    let mut expected: BTreeMap<Arc<str>, Recounted> = BTreeMap::new();
    for (number, record) in messages.range(SequenceNumber(0)) {
        let session = expected.entry(Arc::clone(record.session_id().unwrap().key())).or_default();
        let is_active = record.state() == MessageState::Active;
        session.active += u64::from(is_active);
        if messages.is_locked(number) {
            session.in_flight.insert(number);
        } else if !record.is_aside() {
            session.available.insert(number);
            if record.expiry() != Timestamp::NEVER {
                session.expiries.insert((record.expiry(), number));
            }
        } else {
            session.aside.insert(number);
            if record.held_until().is_some() {
                session.held_back.insert(number);
            }
        }
    }
    let sessions = queue.sessions.as_ref().unwrap();
    let mut found: BTreeMap<Arc<str>, Recounted> = BTreeMap::new();
    for (id, session) in &sessions.by_id {
        let recounted = Recounted {
            available: session.available.clone(),
            expiries: session.expiries.clone(),
            in_flight: session.in_flight.keys().copied().collect(),
            aside: session.aside.clone(),
            held_back: session.held_back.clone(),
            active: session.active,
        };
        if recounted != Recounted::default() {
            found.insert(Arc::clone(id), recounted);
        }
        for (number, token) in &session.in_flight {
            let held = state.locks.get(*token, Timestamp::NEVER).unwrap();
            assert_eq!((held.queue, held.number, held.in_session), (queue.id, *number, true));
        }
    }
    assert_eq!(found, expected);
}

fn check_holder(queue: &Queue, session: &Session) {
    assert!(session.holder.is_none() || session.returning.is_none());
    assert!(session.returning.is_none() || !session.in_flight.is_empty());
    assert!(session.in_flight.is_empty() || session.holder.is_some() || session.returning.is_some());
    if let Some(holder) = session.holder {
        let receiver = queue.receivers.get(holder.receiver).expect("a holder is open");
        assert_eq!(holder.listens, receiver.has_credit());
        assert_eq!(holder.can_be_served, receiver.can_be_served());
    }
}
