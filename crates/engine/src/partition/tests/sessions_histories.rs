//! Random histories of a queue with sessions. The rig checks after every command that the indexes equal a recount and that the
//! store restores to the live state; this test checks the clients' view: which receivers hold and get which sessions, delivery
//! counts, and that no receiver waits for an available session.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::rig::{QUEUE, Rig, abandon, dead_letter, defer, deliveries};
use super::rig_sessions::of;
use crate::{
    Command, CreditLimit, Effect, Event, LockToken, NewMessage, QueueOptions, ReceiveMode, ReceiverId,
    ReceiverOptions, Refusal, Reply, RequestId, SequenceNumber, SessionRequest, Settlement, SubQueue,
    Timestamp,
};

const LOCK_MS: u64 = 12;
const IDS: [&str; 4] = ["", "a", "b", "c"];

#[derive(Debug, Clone)]
enum Move {
    Send(Vec<(usize, Option<u64>, Option<u64>)>),
    Accept { session: Option<usize>, wait_ms: u64, deletes: bool },
    Credit { pick: usize, more: u64, bytes: u64, drain: bool },
    Close(usize),
    Settle(usize, u8),
    Renew(usize),
    SetState(usize, Option<u8>),
    ReceiveDeferred(usize, Vec<usize>),
    TakeDead,
    Cancel(usize),
    Wait(u64),
    Restart,
}

fn one_move() -> impl Strategy<Value = Move> {
    let time = || prop_oneof![2 => Just(None), 1 => (0..20u64).prop_map(Some)];
    let message = (0..IDS.len(), time(), prop_oneof![4 => Just(None), 1 => (0..9u64).prop_map(Some)]);
    let session = prop_oneof![1 => Just(None), 1 => (0..IDS.len()).prop_map(Some)];
    let accept = (session, 0..20u64, prop::bool::weighted(0.1));
    let bytes = prop_oneof![4 => Just(u64::MAX), 1 => 0..5u64];
    prop_oneof![
        20 => prop::collection::vec(message, 1..4).prop_map(Move::Send),
        14 => accept.prop_map(|(session, wait_ms, deletes)| Move::Accept { session, wait_ms, deletes }),
        16 => (0..4usize, 0..4u64, bytes, prop::bool::weighted(0.2))
            .prop_map(|(pick, more, bytes, drain)| Move::Credit { pick, more, bytes, drain }),
        6 => (0..5usize).prop_map(Move::Close),
        18 => (0..6usize, 0..5u8).prop_map(|(pick, verb)| Move::Settle(pick, verb)),
        4 => (0..4usize).prop_map(Move::Renew),
        5 => (0..4usize, prop::option::of(0..3u8)).prop_map(|(pick, state)| Move::SetState(pick, state)),
        8 => (0..4usize, prop::collection::vec(0..3usize, 1..3))
            .prop_map(|(pick, numbers)| Move::ReceiveDeferred(pick, numbers)),
        1 => Just(Move::TakeDead),
        1 => (0..5usize).prop_map(Move::Cancel),
        14 => (0..8u64).prop_map(Move::Wait),
        2 => Just(Move::Restart),
    ]
}

fn options() -> impl Strategy<Value = QueueOptions> {
    (1..4u32, any::<bool>()).prop_map(|(max_delivery_count, dead_lettering)| QueueOptions {
        lock_duration_ms: LOCK_MS,
        max_delivery_count,
        dead_lettering_on_message_expiration: dead_lettering,
        requires_session: true,
        ..QueueOptions::default()
    })
}

/// A locked message, as its receiver knows it.
#[derive(Clone, Copy)]
struct InFlight {
    token: LockToken,
    number: u64,
    receiver: ReceiverId,
    /// Whether losing it counts as a failed delivery.
    counts: bool,
}

/// A queue and the clients' view of it.
struct History {
    rig: Rig,
    /// Session and end of its lock, for every holder.
    held: BTreeMap<ReceiverId, (String, Timestamp)>,
    waiting: BTreeMap<ReceiverId, (RequestId, Timestamp)>,
    in_flight: Vec<InFlight>,
    /// Receivers in receive-and-delete mode.
    deleting: BTreeSet<ReceiverId>,
    sessions: BTreeMap<u64, String>,
    /// Failed deliveries of existing messages.
    counts: BTreeMap<u64, u32>,
    got: BTreeMap<ReceiverId, CreditLimit>,
    last_receiver: u64,
}

impl History {
    fn new(options: QueueOptions) -> Self {
        Self {
            rig: Rig::new(options),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            in_flight: Vec::new(),
            deleting: BTreeSet::new(),
            sessions: BTreeMap::new(),
            counts: BTreeMap::new(),
            got: BTreeMap::new(),
            last_receiver: 0,
        }
    }

    fn receiver(&self, pick: usize) -> ReceiverId {
        ReceiverId(self.last_receiver.saturating_sub(pick as u64))
    }

    fn number(&self, pick: usize) -> SequenceNumber {
        SequenceNumber(self.rig.partition.state.entity.next_number.0.saturating_sub(pick as u64 + 1))
    }

    /// Numbers of deferred messages, and one that is not deferred.
    fn deferred(&mut self, picks: &[usize]) -> Vec<SequenceNumber> {
        let main = self.rig.partition.state.entity.messages.get(SubQueue::Main).range(SequenceNumber(0));
        let deferred = main.filter(|(_, record)| record.state() == crate::MessageState::Deferred);
        let mut choice: Vec<_> = deferred.map(|(number, _)| number).collect();
        choice.push(self.number(0));
        picks.iter().map(|pick| choice[pick % choice.len()]).collect()
    }

    fn carry_out(&mut self, one: &Move) {
        match one {
            Move::Wait(ms) => {
                self.rig.now = self.rig.now.plus_ms(*ms);
                self.handle(Command::Tick);
            }
            Move::Restart => {
                self.rig.restart();
                (self.held, self.waiting, self.in_flight, self.got) = Default::default();
            }
            Move::TakeDead => {
                let taken = self.rig.take(SubQueue::DeadLetter, ReceiveMode::ReceiveAndDelete, 2);
                assert!(taken.iter().all(|(view, _)| self.sessions.contains_key(&view.sequence_number.0)));
                self.last_receiver = self.last_receiver.max(self.rig.next_receiver - 1);
                self.lose_late();
            }
            other => {
                let command = self.command(other);
                self.handle(command);
            }
        }
        self.check();
    }

    fn command(&mut self, one: &Move) -> Command {
        match one {
            Move::Send(messages) => {
                let messages = messages.iter().map(|(session, time_to_live_ms, delay_ms)| NewMessage {
                    time_to_live_ms: *time_to_live_ms,
                    scheduled_enqueue_time: delay_ms.map(|ms| self.rig.now.plus_ms(ms)),
                    ..of(IDS[*session], "xyz")
                });
                Command::Send { messages: messages.collect() }
            }
            Move::Accept { session, wait_ms, deletes } => {
                let receiver = self.rig.new_receiver();
                self.last_receiver = receiver.0;
                let mode = if *deletes { ReceiveMode::ReceiveAndDelete } else { ReceiveMode::PeekLock };
                self.deleting.extend(deletes.then_some(receiver));
                let options = ReceiverOptions { source: super::rig::path(SubQueue::Main), mode };
                let id = session.map(|session| IDS[session].into());
                let session = Some(SessionRequest {
                    id,
                    wait_until: self.rig.now.plus_ms(*wait_ms),
                    ..SessionRequest::default()
                });
                Command::OpenReceiver { receiver, options, session }
            }
            Move::Credit { pick, more, bytes, drain } => {
                let receiver = self.receiver(*pick);
                let got = self.got.get(&receiver).copied().unwrap_or_default();
                let (messages, bytes) = (got.messages + more, got.bytes.saturating_add(*bytes));
                Command::Credit { receiver, limit: CreditLimit { messages, bytes }, drain: *drain }
            }
            Move::Close(pick) => Command::CloseReceiver { receiver: self.receiver(*pick) },
            Move::Settle(pick, verb) => {
                let token = self.in_flight.iter().rev().nth(*pick).map_or(LockToken(5), |one| one.token);
                let settlement = match verb {
                    0 => Settlement::Complete,
                    1 => abandon(),
                    2 => defer(),
                    3 => dead_letter("bad"),
                    _ => Settlement::Release,
                };
                Command::Settle { queue: QUEUE, tokens: smallvec::smallvec![token], settlement }
            }
            Move::Renew(pick) => Command::RenewSessionLock { receiver: self.receiver(*pick) },
            Move::SetState(pick, state) => {
                let state = state.map(|length| vec![7; usize::from(length)].into());
                Command::SetSessionState { receiver: self.receiver(*pick), state }
            }
            Move::ReceiveDeferred(pick, numbers) => {
                let numbers = self.deferred(numbers);
                let (source, mode) = (super::rig::path(SubQueue::Main), ReceiveMode::PeekLock);
                Command::ReceiveDeferred {
                    numbers,
                    source,
                    mode,
                    receiver: Some(self.receiver(*pick)),
                    bytes_max: usize::MAX,
                }
            }
            Move::Cancel(pick) => Command::CancelScheduled { numbers: vec![self.number(*pick)] },
            Move::TakeDead | Move::Wait(_) | Move::Restart => Command::Tick,
        }
    }

    fn handle(&mut self, command: Command) {
        self.lose_late();
        let request = RequestId(self.rig.next_receiver);
        let effects = self.rig.handle(Some(request), command.clone());
        self.remember_messages();
        self.close_or_settle(&command, &effects);
        if let Command::OpenReceiver { receiver, session: Some(requested), .. } = &command
            && !effects
                .iter()
                .any(|effect| matches!(effect, Effect::Reply { request: of, .. } if *of == request))
        {
            assert!(requested.id.is_none(), "a name is answered at once");
            self.waiting.insert(*receiver, (request, requested.wait_until));
        }
        for effect in effects {
            self.notice(&command, request, effect);
        }
    }

    /// Applies expired locks and timeouts to holders and waiting receivers.
    fn lose_late(&mut self) {
        let now = self.rig.now;
        let late: Vec<_> =
            self.held.iter().filter(|(_, (_, until))| *until <= now).map(|(receiver, _)| *receiver).collect();
        for receiver in late {
            let receivers = &self.rig.partition.state.entity.receivers;
            let asks = receivers.get(receiver).is_some_and(|open| open.has_credit());
            let has_some = self.in_flight.iter().any(|one| one.receiver == receiver);
            match self.held.get_mut(&receiver) {
                Some((_, until)) if asks && !has_some => *until = now.plus_ms(LOCK_MS),
                _ => self.leave(receiver, 1),
            }
        }
    }

    /// Ends a receiver's session: its locked messages are returned.
    fn leave(&mut self, receiver: ReceiverId, failures: u32) {
        self.held.remove(&receiver);
        let (ended, kept) = self.in_flight.iter().partition(|one| one.receiver == receiver);
        self.in_flight = kept;
        for InFlight { number, .. } in ended.into_iter().filter(|one| one.counts) {
            *self.counts.entry(number).or_default() += failures;
        }
    }

    fn remember_messages(&mut self) {
        for event in &self.rig.events {
            match event {
                Event::Accepted { number, record, .. } | Event::Activated { number, record, .. } => {
                    self.sessions.insert(number.0, record.session_id().unwrap().to_string());
                    self.counts.insert(number.0, 0);
                }
                _ => {}
            }
        }
    }

    /// Applies a command to the delivery counts.
    fn close_or_settle(&mut self, command: &Command, effects: &[Effect]) {
        match command {
            Command::CloseReceiver { receiver } => self.leave(*receiver, 0),
            Command::Settle { tokens, settlement, .. } => {
                let known = self.in_flight.iter().position(|one| one.token == tokens[0]);
                let refused = effects.iter().find_map(|effect| match effect {
                    Effect::Reply { reply: Reply::Settled(failures), .. } => Some(failures.first().cloned()),
                    _ => None,
                });
                let refusal = refused.unwrap().map(|failure| failure.refusal);
                assert_eq!(refusal, known.is_none().then_some(Refusal::SessionLockLost));
                let Some(known) = known else { return };
                let InFlight { number, .. } = self.in_flight.remove(known);
                if matches!(settlement, Settlement::Abandon { .. } | Settlement::Defer { .. }) {
                    *self.counts.entry(number).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn notice(&mut self, command: &Command, request: RequestId, effect: Effect) {
        let now = self.rig.now;
        match effect {
            Effect::Deliver { receiver, view, lock, .. } => {
                let (session, until) = &self.held[&receiver];
                assert_eq!(self.sessions[&view.sequence_number.0], *session, "of its session");
                assert!(view.expires_at > now, "S-4");
                let got = self.got.entry(receiver).or_default();
                (got.messages, got.bytes) = (got.messages + 1, got.bytes + 3);
                if let Some(lock) = lock {
                    assert_eq!(lock.locked_until, *until);
                    let number = view.sequence_number.0;
                    let counts = !self.deleting.contains(&receiver);
                    self.in_flight.push(InFlight { token: lock.token, number, receiver, counts });
                }
            }
            Effect::Reply { request: of, reply: Reply::Opened(opened) } => {
                let waited = self.waiting.iter().find(|(_, (request, _))| *request == of).map(|(id, _)| *id);
                let receiver = waited.unwrap_or(self.receiver(0));
                let waited_until = self.waiting.remove(&receiver).map(|(_, until)| until);
                match opened {
                    Ok(session) => {
                        let id = session.unwrap().id.to_string();
                        assert!(self.held.values().all(|(held, _)| *held != id), "one holder");
                        self.held.insert(receiver, (id, now.plus_ms(LOCK_MS)));
                    }
                    Err(Refusal::NoSessionAvailable) => {
                        assert!(of == request || waited_until.is_some_and(|until| until <= now));
                    }
                    Err(Refusal::ReceiverNotFound) => {
                        assert!(matches!(command, Command::CloseReceiver { .. }));
                    }
                    Err(Refusal::SessionCannotBeLocked(id)) => {
                        assert!(self.held.values().any(|(held, _)| **held == *id));
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            Effect::Reply { reply: Reply::SessionRenewed(renewed), .. } => {
                let Command::RenewSessionLock { receiver } = command else { panic!() };
                assert_eq!(renewed.is_ok(), self.held.contains_key(receiver));
                if let (Ok(until), Some(held)) = (renewed, self.held.get_mut(receiver)) {
                    held.1 = until;
                }
            }
            Effect::Reply { reply: Reply::Received(Ok(received)), .. } => {
                let Command::ReceiveDeferred { receiver: Some(receiver), .. } = command else { panic!() };
                for (view, lock) in received {
                    let number = view.sequence_number.0;
                    assert_eq!(self.sessions[&number], self.held[receiver].0);
                    let token = lock.unwrap().token;
                    self.in_flight.push(InFlight { token, number, receiver: *receiver, counts: true });
                }
            }
            Effect::ReceiverClosed { receiver, refusal } => {
                assert_eq!(refusal, Refusal::SessionLockLost);
                assert!(!self.held.contains_key(&receiver), "only when its time is over");
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        let state = &self.rig.partition.state;
        let sessions = state.entity.sessions.as_ref().unwrap();
        assert!(
            sessions.waiters.is_empty() || sessions.first_ready().is_none(),
            "no receiver waits for available messages"
        );
        assert_eq!(sessions.next_served(self.rig.now), None, "who can be served was served");
        assert!(sessions.first_overdue(self.rig.now).is_none(), "S-23");
        assert!(sessions.next_return().is_none());
        for (receiver, (id, until)) in &self.held {
            let (session, holder) = sessions.held_by(*receiver).expect("still the holder");
            assert_eq!((&*session.id, holder.until), (&**id, *until));
        }
        let flying = self.in_flight.len();
        assert_eq!(state.locks.len(), flying, "every lock has a holder");
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter] {
            for (number, record) in state.entity.messages.get(sub_queue).range(SequenceNumber(0)) {
                assert_eq!(record.delivery_count(), self.counts[&number.0], "message {}", number.0);
            }
        }
        assert!(deliveries(self.rig.handle(None, Command::Tick)).is_empty(), "nothing is left over");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_keep_their_promises_whatever_happens(
        options in options(),
        moves in prop::collection::vec(one_move(), 0..100),
    ) {
        let mut history = History::new(options);
        for one in &moves {
            history.carry_out(one);
        }
    }
}
