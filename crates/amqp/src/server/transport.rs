//! The driver of one connection: a socket, an endpoint and an application in one task.

mod end;
mod holding;

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use peeklock_budget::{Budget, UNREPORTED_BYTES_MAX};
use peeklock_engine::runtime::{Account, Clock, MailboxReceiver};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;

use super::application::Application;
use super::input::Input;
use super::limits::{
    BUSY_PAUSE, INPUT_MS_PER_TURN, INPUT_ROUNDS_PER_TURN, OUTPUTS_PER_TURN, TRANSMIT_BYTES_PER_TURN,
    UNANSWERED_BYTES_MAX, UNANSWERED_MESSAGES_MAX, UNAUTHENTICATED_UNWRITTEN_BYTES_MAX, UNWRITTEN_BYTES_MAX,
    WRITE_STALL_MS_MAX,
};
use super::log_span;
use super::memory::Memory;
use super::output::Output;
use super::rare_wakeups::RareWakeups;
use super::timer::Timer;
use super::unauthenticated::Share;
use crate::endpoint::condition::{self, error};
use crate::endpoint::{Connection, Event, NowMs};
use crate::wire::loggable;

pub use end::{Ended, Stop, StopSignal};

/// Drives one connection over a socket to its end.
///
/// Reading and writing make progress independently; work per turn is bounded. Nothing is read from a peer while too
/// much of its input waits for the engine, or too much output for it waits for the socket.
pub struct Transport<S, A> {
    socket: S,
    connection: Connection,
    application: A,
    mailbox: MailboxReceiver,
    mailbox_open: bool,
    input: Input,
    /// Whether the last turn spent its time on input, or left some that it could have handled.
    yields: bool,
    output: Output,
    memory: Memory,
    timer: Timer,
    /// `None` once the signal has arrived.
    stop: Option<StopSignal>,
    /// Wakes for the timer, the application and the signal to stop.
    rare: RareWakeups,
    /// When the socket last accepted bytes, or had none to write.
    last_write: NowMs,
    ended: Option<Ended>,
    /// Whether to end without a close frame.
    cut: bool,
    /// Set until the peer has authenticated.
    unauthenticated: Option<Share>,
}

/// What a turn has to handle beside input.
#[derive(Debug, Default)]
struct Woken {
    end_of_input: bool,
    failure: Option<io::Error>,
    stop: Option<Stop>,
    /// Whether there is any reason for a turn.
    any: bool,
}

impl<S, A> Transport<S, A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    A: Application,
{
    /// Joins the parts. `first_bytes` is input that was already read to detect the protocol.
    pub fn new(
        socket: S,
        first_bytes: BytesMut,
        connection: Connection,
        (application, mailbox): (A, MailboxReceiver),
        clock: Arc<dyn Clock>,
        stop: StopSignal,
    ) -> Self {
        let timer = Timer::new(clock);
        Self {
            socket,
            connection,
            application,
            mailbox,
            mailbox_open: true,
            input: Input::new(first_bytes),
            yields: false,
            output: Output::default(),
            memory: Memory::new(&Budget::default(), None),
            last_write: timer.now(),
            timer,
            stop: Some(stop),
            rare: RareWakeups::new(),
            ended: None,
            cut: false,
            unauthenticated: None,
        }
    }

    /// Limits the memory of the connection until its peer has authenticated, if authentication is required.
    #[must_use]
    pub(super) fn limited(mut self, share: Share) -> Self {
        if self.application.is_unauthenticated() {
            self.connection.limit_unauthenticated();
            self.input.limit(true);
            self.unauthenticated = Some(share);
        }
        self
    }

    /// Lifts the limits once the peer has authenticated.
    fn lift_limits(&mut self) {
        if self.unauthenticated.is_some() && !self.application.is_unauthenticated() {
            self.unauthenticated = None;
            self.connection.authenticated();
            self.input.limit(false);
        }
    }

    /// Ends an unauthenticated connection that holds more than its share.
    fn check_share(&mut self, now: NowMs) {
        let Some(share) = &mut self.unauthenticated else { return };
        let held_bytes = self.connection.held_bytes()
            + self.application.unanswered().bytes
            + self.input.bytes.capacity()
            + self.output.len();
        if self.ended.is_none() && !share.cover(held_bytes) {
            let reason = "too much memory is held for peers that have not authenticated; try again";
            self.connection.abort(error(condition::CONNECTION_FORCED, reason));
            self.drain_events(now);
        }
    }

    fn unwritten_bytes_max(&self) -> usize {
        match self.unauthenticated {
            None => UNWRITTEN_BYTES_MAX,
            Some(_) => UNAUTHENTICATED_UNWRITTEN_BYTES_MAX,
        }
    }

    /// Applies a memory budget; `account` is the account of the connection's mailbox.
    #[must_use]
    pub fn within(mut self, budget: &Budget, account: Arc<Account>) -> Self {
        self.memory = Memory::new(budget, Some(account));
        self
    }

    /// Runs the connection to its end, including its last output. Boxed: futures around this one would reserve room for
    /// several copies of the state.
    pub fn run(self) -> impl Future<Output = Ended> + Send {
        Box::new(self).run_boxed()
    }

    async fn run_boxed(mut self: Box<Self>) -> Ended {
        // Input that was already read, and a client's first frames.
        self.turn(Woken::default());
        let ended = loop {
            if let Some(ended) = self.ended.take() {
                break ended;
            }
            if self.application.is_busy() {
                Box::pin(sleep(BUSY_PAUSE)).await;
            }
            tokio::task::coop::consume_budget().await;
            let woken = poll_fn(|context| self.poll_wake(context)).await;
            self.turn(woken);
        };
        Box::pin(self.leave()).await;
        ended
    }

    /// Polls everything that can make progress once; ready if anything did or work is waiting. A peer that is always ready
    /// does not keep the rest from being polled.
    fn poll_wake(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        if self.input.take_more_waits() | std::mem::take(&mut self.yields) {
            // Other tasks must be able to handle the input so far before the rest, so this task yields.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut woken = Woken { any: self.has_work(), ..Woken::default() };
        let unwritten = self.output.len();
        if self.output.is_unfinished()
            && let Poll::Ready(result) = self.output.poll_write(&mut self.socket, context)
        {
            woken.any |= result.is_err() || self.needs_turn_after_write(unwritten);
            woken.failure = result.err();
            self.last_write = self.timer.now();
            self.memory.moved(unwritten - self.output.len());
        }
        let readable_bytes = self.memory.readable_bytes();
        if self.may_read()
            && let Poll::Ready(result) = self.input.poll_read(&mut self.socket, readable_bytes, context)
        {
            woken.any = true;
            match result {
                Ok(bytes) => {
                    self.memory.moved(bytes);
                    woken.end_of_input = bytes == 0;
                }
                Err(failure) => woken.failure = Some(failure),
            }
        }
        if self.mailbox_open
            && let Poll::Ready(is_open) = self.mailbox.poll_ready(context)
        {
            woken.any = true;
            self.mailbox_open = is_open;
        }
        if !woken.any || self.rare.is_due() {
            self.poll_rarely_ready(context, &mut woken);
        }
        if woken.any { Poll::Ready(woken) } else { Poll::Pending }
    }

    /// Whether a turn has to follow a write, before which `unwritten` bytes waited. Nothing waits for the end of a short
    /// output: a turn after it would be a second one for each answer.
    fn needs_turn_after_write(&self, unwritten: usize) -> bool {
        unwritten >= UNREPORTED_BYTES_MAX || self.output.is_unfinished() || self.memory.is_waiting()
    }

    /// Polls what is rarely ready, if it may be: time, the application's own wake-up, and the signal to stop.
    fn poll_rarely_ready(&mut self, context: &mut Context<'_>, woken: &mut Woken) {
        let deadline = self.deadline();
        if !(self.timer.arm(deadline) | self.rare.take(context.waker())) {
            return;
        }
        let waker = self.rare.waker();
        let context = &mut Context::from_waker(&waker);
        let mut is_any_ready = self.timer.poll(context).is_ready();
        is_any_ready |= self.application.poll_wake(context).is_ready();
        if let Some(stop) = &mut self.stop
            && let Poll::Ready(how) = stop.as_mut().poll(context)
        {
            self.stop = None;
            is_any_ready = true;
            woken.stop = Some(how);
        }
        if is_any_ready {
            self.rare.repeat();
            woken.any = true;
        }
    }

    /// Whether a turn has work without any wake-up.
    fn has_work(&self) -> bool {
        self.application.is_busy()
            || self.connection.has_input_work(&self.input.bytes)
            || (self.connection.has_output() && self.output.len() < self.unwritten_bytes_max())
    }

    /// Whether another read is due: the input is consumed except for the start of a frame, and the peer has not too
    /// many requests unanswered.
    fn may_read(&self) -> bool {
        let (messages, bytes) = self.connection.incoming_unsettled();
        let more = self.application.unanswered();
        self.connection.accepts_input()
            && !self.connection.has_input_work(&self.input.bytes)
            && messages.saturating_add(more.messages) < UNANSWERED_MESSAGES_MAX
            && bytes + more.bytes + more.answer_bytes < UNANSWERED_BYTES_MAX
            && self.output.len() < self.unwritten_bytes_max()
            && self.memory.readable_bytes() > 0
    }

    fn deadline(&self) -> Option<NowMs> {
        let stall = self.output.is_unfinished().then(|| self.last_write.saturating_add(WRITE_STALL_MS_MAX));
        let memory = self.memory.deadline(self.timer.now());
        let deadlines = [self.connection.poll_deadline(), self.application.poll_deadline(), stall, memory];
        deadlines.into_iter().flatten().min()
    }

    fn turn(&mut self, woken: Woken) {
        let now = self.timer.now();
        self.application.set_room(self.memory.outgoing_room_bytes());
        self.take_input(now);
        self.take_engine_outputs(now);
        self.take_time(now);
        self.take_end(woken, now);
        self.drain_events(now);
        if self.ended.is_none() {
            self.application.end_of_turn(&mut self.connection, now);
        }
        self.lift_limits();
        self.check_share(now);
        self.transmit(now);
        if self.ended.is_none() {
            self.application.after_transmit(&mut self.connection);
        }
        self.report_memory(now);
        self.drain_events(now);
        self.application.submit_commands();
        self.connection.set_reading(self.may_read(), now);
    }

    /// Prepares bytes for the socket. Nothing follows our close, so the stream ends with it: a peer whose close we await
    /// may already open its next connection while it reads this one.
    fn transmit(&mut self, now: NowMs) {
        let room = self.unwritten_bytes_max().saturating_sub(self.output.len()).min(TRANSMIT_BYTES_PER_TURN);
        if room > 0 {
            if !self.output.is_unfinished() {
                self.last_write = now;
            }
            let connection = &mut self.connection;
            self.output.append(|slices| connection.poll_transmit(slices, room, now));
        }
        if self.connection.has_transmitted_close() {
            self.output.finish();
        }
    }

    fn take_input(&mut self, now: NowMs) {
        for _ in 0..INPUT_ROUNDS_PER_TURN {
            self.connection.handle_input(&mut self.input.bytes, now);
            self.drain_events(now);
            self.lift_limits();
            let is_long = self.timer.now().saturating_sub(now) >= INPUT_MS_PER_TURN;
            let is_left = self.connection.has_input_work(&self.input.bytes);
            self.yields = is_long || is_left;
            if is_long || !is_left {
                break;
            }
        }
        self.input.release();
    }

    fn take_engine_outputs(&mut self, now: NowMs) {
        let mut left = OUTPUTS_PER_TURN;
        while left > 0 && (self.ended.is_some() || !self.application.is_busy()) {
            let Ok(output) = self.mailbox.try_recv() else { return };
            left = left.saturating_sub(output.messages().max(1));
            if self.ended.is_none() {
                self.application.handle_output(output, &mut self.connection, now);
            }
        }
    }

    fn take_time(&mut self, now: NowMs) {
        let due = |deadline: Option<NowMs>| deadline.is_some_and(|deadline| deadline <= now);
        if due(self.connection.poll_deadline()) {
            self.connection.handle_timeout(now);
            self.drain_events(now);
        }
        if self.ended.is_none() && due(self.application.poll_deadline()) {
            self.application.handle_timeout(&mut self.connection, now);
        }
    }

    fn drain_events(&mut self, now: NowMs) {
        while let Some(event) = self.connection.poll_event() {
            match &event {
                Event::Opened(open) => {
                    // From now on administrators can reach the connection.
                    self.rare.repeat();
                    log_span::record_container(&open.container_id);
                    tracing::debug!(
                        host = open.hostname.as_deref().map(loggable).as_deref(),
                        "connection opened"
                    );
                }
                Event::Closed { error, by_peer } => {
                    self.ended = Some(Ended { error: error.clone(), by_peer: *by_peer });
                }
                _ => {}
            }
            self.application.handle_event(event, &mut self.connection, now);
        }
    }
}

impl<S, A> fmt::Debug for Transport<S, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Transport").field("connection", &self.connection).finish_non_exhaustive()
    }
}
