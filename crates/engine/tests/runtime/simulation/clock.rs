//! The wall clock of the machine is wrong for a while. Stored timestamps keep their order, and a running broker is
//! not affected.

use std::collections::BTreeMap;

use peeklock_engine::runtime::{Clock, Machine};
use peeklock_engine::{MessageView, QueueId, SequenceNumber, Timestamp};

use super::world::World;

/// The longest lock duration, and the default of queues.
pub(super) const LOCK_MS: u64 = 60_000;
/// The broker must ignore a wall clock that is wrong for less than this.
pub(super) const TRANSIENT_MS_MAX: u64 = 170_000;
/// The same shortly after a start.
const FRESH_TRANSIENT_MS_MAX: u64 = 9_000;
const FRESH_MS: u64 = 310_000;
/// Minimum interval between the broker's checks of the wall clock.
const LOOK_MS: u64 = 100;

/// What is known of the broker's time.
#[derive(Debug, Default)]
pub(super) struct Time {
    /// The last observed time since the last start.
    last: Option<Timestamp>,
    /// The latest time ever observed.
    pub(super) latest: Timestamp,
    /// When the broker started, by the boot clock.
    started_ms: u64,
    /// Whether the broker started with a wall clock that was behind: its time may lag until that clock is corrected.
    may_lag: bool,
    /// Whether messages are there whose times could not be read at such a start, so that later ones may have earlier times.
    is_unordered: bool,
    /// Enqueue times of messages.
    enqueued: BTreeMap<(QueueId, SequenceNumber), Timestamp>,
}

impl Time {
    pub(super) fn restarted(&mut self, now: Timestamp, boot_ms: u64) {
        (self.last, self.started_ms) = (Some(now), boot_ms);
        // Messages that are not stored any more don't constrain the order.
        self.enqueued.clear();
    }

    /// Attributes that could not be read can be read again.
    pub(super) fn repaired(&mut self) {
        self.is_unordered = self.may_lag;
    }

    /// Sequence numbers and enqueue times have the same order, and no enqueue time changes.
    pub(super) fn enqueued(&mut self, view: &MessageView) {
        let (queue, number, at) = (view.queue, view.sequence_number, view.enqueued_at);
        let known = *self.enqueued.entry((queue, number)).or_insert(at);
        assert_eq!(known, at, "message {number:?} of {queue:?} was enqueued at another time");
        if self.is_unordered {
            return;
        }
        let first = (queue, SequenceNumber(0));
        let before = self.enqueued.range(first..(queue, number)).next_back();
        assert!(before.is_none_or(|(_, before)| *before <= at), "{before:?} is before {number:?} at {at:?}");
        let last = (queue, SequenceNumber(u64::MAX));
        let after = self.enqueued.range((queue, SequenceNumber(number.0 + 1))..last).next();
        assert!(after.is_none_or(|(_, after)| *after >= at), "{after:?} is after {number:?} at {at:?}");
    }
}

impl World {
    /// The wall clock is wrong so briefly that the broker must not notice.
    pub(super) fn disturb(&mut self, off_ms: i64, for_ms: u64) {
        let machine = &self.broker.clock.machine;
        if machine.off_ms() == 0 {
            let is_fresh = machine.boot_ms() - self.time.started_ms < FRESH_MS;
            machine.disturb(off_ms, if is_fresh { for_ms.min(FRESH_TRANSIENT_MS_MAX) } else { for_ms });
            machine.pass(LOOK_MS);
        }
    }

    /// The broker starts while the wall clock is behind, and notices it later.
    pub(super) async fn crash_behind(&mut self, behind_ms: u64) {
        let machine = self.broker.clock.machine.clone();
        machine.disturb(-behind_ms.cast_signed(), FRESH_TRANSIENT_MS_MAX);
        self.crash(self.sent).await;
    }

    /// A start believes a wall clock that is ahead of everything stored, and no order is promised then; so that error is ended
    /// first.
    pub(super) fn before_start(&mut self) {
        let machine = &self.broker.clock.machine;
        if machine.off_ms() > 0 {
            machine.disturb(0, 0);
        }
        let off_ms = machine.off_ms();
        if off_ms < 0 {
            self.time.may_lag = true;
            self.forwarding.started_behind(off_ms.unsigned_abs());
        }
    }

    /// The broker's time never decreases, is never ahead, and is correct unless a start was misled by the wall clock.
    pub(super) fn observe_clock(&mut self) {
        let clock = &self.broker.clock;
        let (now, off_ms) = (clock.now(), clock.machine.off_ms());
        let right = Timestamp(clock.machine.wall_ms().saturating_add_signed(-off_ms));
        assert!(self.time.last.is_none_or(|last| last <= now), "{now:?} after {:?}", self.time.last);
        assert!(now <= right, "{now:?} is ahead of {right:?}");
        assert!(self.time.may_lag || now == right, "{now:?} instead of {right:?}");
        self.time.last = Some(now);
        self.time.latest = self.time.latest.max(now);
    }
}
