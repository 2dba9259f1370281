//! Cost of sessions; the cost per session should hardly grow with their number.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use peeklock_engine::{
    Command, NewMessage, QueueOptions, QueuePath, ReceiveMode, ReceiverId, ReceiverOptions, SessionRequest,
    Timestamp,
};
use smallvec::smallvec;

use super::{ALLOCATED, Bench, ID, MESSAGES, report};

const FEW: usize = 100;
const MANY: usize = 100_000;

fn options() -> QueueOptions {
    QueueOptions {
        requires_session: true,
        dead_lettering_on_message_expiration: true,
        ..QueueOptions::default()
    }
}

impl Bench {
    /// Sends all messages, round-robin to `sessions` sessions.
    fn fill_sessions(&mut self, sessions: usize, time_to_live_ms: Option<u64>) {
        for index in 0..MESSAGES {
            let content = Bytes::from_static(&[0; 1024]);
            let session_id = Some(id(index % sessions));
            let message = NewMessage { content, time_to_live_ms, session_id, ..NewMessage::default() };
            self.handle(Command::Send { messages: smallvec![message] });
            self.clear();
        }
    }

    fn accept(&mut self, receiver: ReceiverId, id: Option<Box<str>>, wait_ms: u64) {
        let options = ReceiverOptions { source: QueuePath::main(ID), mode: ReceiveMode::PeekLock };
        let session =
            Some(SessionRequest { id, wait_until: self.now.plus_ms(wait_ms), ..SessionRequest::default() });
        self.handle(Command::OpenReceiver { receiver, options, session });
    }

    /// Runs all due timers; returns the number of turns this took.
    fn catch_up(&mut self) -> usize {
        let mut turns = 0;
        while self.partition.next_deadline().is_some_and(|at| at <= self.now) {
            self.clear();
            self.handle(Command::Tick);
            turns += 1;
        }
        turns
    }
}

fn id(session: usize) -> Box<str> {
    format!("session-{session:08}").into()
}

/// Accepts the next available session, receives and completes all its messages and closes it, until no session is left.
fn process(sessions: usize) {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut bench = Bench::new(options());
    let started = Instant::now();
    bench.fill_sessions(sessions, None);
    report(&format!("send to {sessions} sessions"), started, MESSAGES);
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    let each = bytes as f64 / MESSAGES as f64;
    println!("{:<58} {each:>8.1} bytes each", format!("memory of messages waiting in {sessions} sessions"));
    let started = Instant::now();
    for receiver in 0..sessions as u64 {
        let receiver = ReceiverId(receiver);
        bench.accept(receiver, None, 0);
        bench.credit(receiver, MESSAGES as u64);
        bench.complete();
        bench.handle(Command::CloseReceiver { receiver });
        bench.clear();
    }
    report(&format!("accept, take, complete, close: {sessions} sessions"), started, MESSAGES);
    assert_eq!(bench.partition.counts().active, 0);
}

/// All sessions are locked, with one message of each in flight; then all locks expire at the same time.
fn lock_ends() {
    let mut bench = Bench::new(options());
    bench.fill_sessions(MANY, None);
    let started = Instant::now();
    for session in 0..MANY {
        let receiver = ReceiverId(session as u64);
        bench.accept(receiver, Some(id(session)), 0);
        bench.credit(receiver, 1);
        bench.clear();
    }
    report("accept by id and take one", started, MANY);
    bench.now = bench.now.plus_ms(100_000);
    let started = Instant::now();
    let turns = bench.catch_up();
    report(&format!("end the locks of sessions, in {turns} turns"), started, MANY);
    assert_eq!(bench.partition.next_deadline(), None);
}

/// The messages of all sessions have expired when a receiver requests the next available session.
fn expiry() {
    let mut bench = Bench::new(options());
    bench.fill_sessions(MANY, Some(60_000));
    bench.now = bench.now.plus_ms(100_000);
    let started = Instant::now();
    bench.accept(ReceiverId(1), None, Timestamp::NEVER.0);
    let turns = bench.catch_up();
    report(&format!("expire session by session, in {turns} turns"), started, MESSAGES);
    assert_eq!(bench.partition.counts().dead_letter, MESSAGES as u64);
}

/// The report on sessions.
pub(super) fn main() {
    process(FEW);
    process(MANY);
    lock_ends();
    expiry();
}
