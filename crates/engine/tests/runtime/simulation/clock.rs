//! The wall clock of the machine is off for a while. What is stored keeps its order, and while the broker runs nothing
//! shows.

use std::collections::BTreeMap;

use peeklock_engine::runtime::{Clock, Machine};
use peeklock_engine::{MessageView, QueueId, SequenceNumber, Timestamp};

use super::world::World;

/// Locks hold no longer than this: what queues have by default.
pub(super) const LOCK_MS: u64 = 60_000;
/// A wall clock that is off for less is never believed.
pub(super) const TRANSIENT_MS_MAX: u64 = 170_000;
/// The same soon after a start.
const FRESH_TRANSIENT_MS_MAX: u64 = 9_000;
const FRESH_MS: u64 = 310_000;
/// How often the broker looks at the wall clock at most.
const LOOK_MS: u64 = 100;

/// What is known of the broker's time.
#[derive(Debug, Default)]
pub(super) struct Time {
    /// What it showed last, since the last start.
    last: Option<Timestamp>,
    /// The latest that it ever showed.
    pub(super) latest: Timestamp,
    /// When the broker started, by the boot clock.
    started_ms: u64,
    /// Whether a start believed a wall clock that was behind: then it may be behind until that is corrected.
    may_lag: bool,
    /// When messages were enqueued.
    enqueued: BTreeMap<(QueueId, SequenceNumber), Timestamp>,
}

impl Time {
    pub(super) fn restarted(&mut self, now: Timestamp, boot_ms: u64) {
        (self.last, self.started_ms) = (Some(now), boot_ms);
        // What is not stored any more binds nobody.
        self.enqueued.clear();
    }

    /// Numbers and instants have one order, and no instant changes.
    pub(super) fn enqueued(&mut self, view: &MessageView) {
        let (queue, number, at) = (view.queue, view.sequence_number, view.enqueued_at);
        let known = *self.enqueued.entry((queue, number)).or_insert(at);
        assert_eq!(known, at, "message {number:?} of {queue:?} was enqueued at another time");
        let first = (queue, SequenceNumber(0));
        let before = self.enqueued.range(first..(queue, number)).next_back();
        assert!(before.is_none_or(|(_, before)| *before <= at), "{before:?} is before {number:?} at {at:?}");
        let last = (queue, SequenceNumber(u64::MAX));
        let after = self.enqueued.range((queue, SequenceNumber(number.0 + 1))..last).next();
        assert!(after.is_none_or(|(_, after)| *after >= at), "{after:?} is after {number:?} at {at:?}");
    }
}

impl World {
    /// The wall clock is off for so short a time that nobody may notice.
    pub(super) fn disturb(&mut self, off_ms: i64, for_ms: u64) {
        let machine = &self.broker.clock.machine;
        if machine.off_ms() == 0 {
            let is_fresh = machine.boot_ms() - self.time.started_ms < FRESH_MS;
            machine.disturb(off_ms, if is_fresh { for_ms.min(FRESH_TRANSIENT_MS_MAX) } else { for_ms });
            machine.pass(LOOK_MS);
        }
    }

    /// The broker starts while the wall clock is behind, and hears of it later.
    pub(super) async fn crash_behind(&mut self, behind_ms: u64) {
        let machine = self.broker.clock.machine.clone();
        machine.disturb(-behind_ms.cast_signed(), FRESH_TRANSIENT_MS_MAX);
        self.crash(self.sent).await;
    }

    /// A start believes a wall clock that is ahead of all that is stored: that is no case for claims about order.
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

    /// It never goes back, is never ahead, and is right unless a start was misled.
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
