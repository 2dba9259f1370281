//! The share of the process's memory budget that one connection holds, and what is given up when memory gets short.
//!
//! Back-pressure comes first: a connection that holds its allowance is not read from and gets no further deliveries.
//! Connections that hold parts of messages then queue for a turn: one after the other is read from until its message is
//! complete, and those behind wait as long as the first makes progress. If memory is short and a peer neither sends nor
//! reads for a while, memory held idly is released: partly received deliveries are given up, also in the middle of a
//! frame, each refused after its last frame, and open transactions are rolled back; a connection whose peer does not
//! read its responses is closed. So waiting connections get memory, and reading eventually continues in any case.

use std::fmt;
use std::sync::Arc;

use peeklock_budget::turn::QueuePosition;
use peeklock_budget::{Budget, Owner, Share, UNREPORTED_BYTES_MAX, Waiting};
use peeklock_engine::runtime::Account;

use super::limits::{
    MEMORY_LOOK_MS, MEMORY_PATIENCE_MS, MEMORY_PATIENCE_STEP_MS, MEMORY_PATIENCE_STEPS, PROGRESS_BYTES_MIN,
    TURN_PROGRESS_BYTES_MIN,
};
use crate::endpoint::NowMs;

/// Memory that a connection holds, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HeldMemory {
    /// Partly received deliveries.
    pub(super) partial: usize,
    /// The received part of an incomplete frame.
    pub(super) frame: usize,
    /// The rest of the read buffer.
    pub(super) buffer: usize,
    /// Messages that wait for the engine.
    pub(super) unanswered: usize,
    /// Messages that wait until the peer commits a transaction.
    pub(super) kept: usize,
    /// Messages and answers that wait for the peer to read, and expected answers.
    pub(super) outgoing: usize,
}

/// What has to be given up of the memory that a connection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// Partly received deliveries and open transactions are to be given up.
    GiveUp,
    /// The delivery whose frame has partly arrived is to be given up.
    GiveUpFrame,
    /// The connection is to be closed.
    Close,
}

/// Memory accounting of one connection; see the module.
pub(super) struct Memory {
    budget: Budget,
    account: Option<Arc<Account>>,
    incoming: Share,
    outgoing: Share,
    held: HeldMemory,
    /// Allowance at the last turn, in bytes.
    allowance: usize,
    waiting: Option<Waiting>,
    /// Position in the queue for a turn; set while parts of messages are held and the allowance is used up.
    place: Option<QueuePosition>,
    /// The progress counter of all turns when this connection last checked.
    turn_progress: u64,
    /// Value of `moved` when this connection last reported progress during its turn.
    turn_moved: u64,
    /// Since when the peer has moved less than the minimum, and the value of `moved` at that time.
    idle_since: Option<(NowMs, u64)>,
    /// Bytes read and written so far.
    moved: u64,
    patience_ms: u64,
}

impl Memory {
    /// `account` is the account of the connection's mailbox, if it has one.
    pub(super) fn new(budget: &Budget, account: Option<Arc<Account>>) -> Self {
        let step = u64::try_from(budget.next_holder()).unwrap_or(0) % MEMORY_PATIENCE_STEPS;
        Self {
            account,
            incoming: budget.share(Owner::Incoming),
            outgoing: budget.share(Owner::Outgoing),
            held: HeldMemory::default(),
            allowance: budget.allowance(),
            waiting: None,
            place: None,
            turn_progress: 0,
            turn_moved: 0,
            idle_since: None,
            moved: 0,
            patience_ms: MEMORY_PATIENCE_MS + step * MEMORY_PATIENCE_STEP_MS,
            budget: budget.clone(),
        }
    }

    /// Counts bytes that the peer sent or read.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }

    /// Reports what the connection holds, once per turn.
    pub(super) fn report(&mut self, held: HeldMemory, now: NowMs) -> Verdict {
        self.held = held;
        self.incoming.set(held.partial + held.frame + held.buffer + held.unanswered + held.kept);
        self.outgoing.set(held.outgoing);
        self.allowance = self.budget.allowance();
        let is_over = self.held_bytes() >= self.allowance;
        if let Some(account) = &self.account {
            account.set_full(is_over && held.outgoing >= UNREPORTED_BYTES_MAX);
        }
        if !is_over {
            self.waiting = None;
            self.place = None;
            self.idle_since = None;
            return Verdict::Keep;
        }
        self.waiting.get_or_insert_with(|| self.budget.wait());
        self.queue_for_turn(now);
        self.judge(now)
    }

    /// Queues for a turn as long as a message is incomplete.
    fn queue_for_turn(&mut self, now: NowMs) {
        if self.held.partial + self.held.frame < UNREPORTED_BYTES_MAX {
            self.place = None;
            return;
        }
        let place = self.place.get_or_insert_with(|| self.budget.queue_for_turn());
        if place.is_first() {
            if self.moved - self.turn_moved >= TURN_PROGRESS_BYTES_MIN {
                self.turn_moved = self.moved;
                place.record_progress();
            }
        } else if self.budget.turn_progress() != self.turn_progress {
            self.turn_progress = self.budget.turn_progress();
            self.idle_since = Some((now, self.moved));
        }
    }

    fn has_turn(&self) -> bool {
        self.place.as_ref().is_some_and(QueuePosition::is_first)
    }

    /// Decides about a connection that holds its allowance.
    fn judge(&mut self, now: NowMs) -> Verdict {
        let (since, moved) = *self.idle_since.get_or_insert((now, self.moved));
        if self.moved - moved >= PROGRESS_BYTES_MIN {
            self.idle_since = Some((now, self.moved));
            return Verdict::Keep;
        }
        if now.saturating_sub(since) < self.patience_ms {
            return Verdict::Keep;
        }
        self.place = None;
        if self.held.partial + self.held.kept > 0 {
            Verdict::GiveUp
        } else if self.held.frame >= UNREPORTED_BYTES_MAX {
            Verdict::GiveUpFrame
        } else if self.held.outgoing >= UNREPORTED_BYTES_MAX {
            Verdict::Close
        } else {
            // Messages that wait for the engine leave without further action.
            Verdict::Keep
        }
    }

    /// Whether the connection held its allowance at the last report, so that it waits for room.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    fn held_bytes(&self) -> usize {
        let HeldMemory { partial, frame, buffer, unanswered, kept, outgoing } = self.held;
        partial + frame + buffer + unanswered + kept + outgoing
    }

    /// Bytes that may be read at once; 0 when nothing may be read.
    pub(super) fn readable_bytes(&self) -> usize {
        if self.has_turn() {
            return self.budget.free_bytes();
        }
        match self.allowance.saturating_sub(self.held_bytes()) {
            0 => 0,
            room => room.max(UNREPORTED_BYTES_MAX),
        }
    }

    /// Bytes that may wait for the peer in total.
    pub(super) fn outgoing_room_bytes(&self) -> usize {
        self.allowance.saturating_sub(self.held_bytes() - self.held.outgoing)
    }

    /// When to check again.
    pub(super) fn deadline(&self, now: NowMs) -> Option<NowMs> {
        self.waiting.as_ref().map(|_| now.saturating_add(MEMORY_LOOK_MS))
    }

    /// Releases everything except bytes still to be written and messages that the engine holds.
    pub(super) fn end(&mut self, unwritten_bytes: usize) {
        self.held = HeldMemory {
            unanswered: self.held.unanswered,
            outgoing: unwritten_bytes,
            ..HeldMemory::default()
        };
        self.incoming.set(self.held.unanswered);
        self.outgoing.set(unwritten_bytes);
        self.waiting = None;
        self.place = None;
    }

    /// Ends the accounting; messages already sent to the engine stay counted until they are answered.
    pub(super) fn leave(mut self) {
        self.incoming.set(self.held.unanswered);
        if let Some(account) = self.account.take().filter(|_| self.incoming.bytes() > 0) {
            account.keep(self.incoming);
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memory").field("held", &self.held).finish_non_exhaustive()
    }
}
