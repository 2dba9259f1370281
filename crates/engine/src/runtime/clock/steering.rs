//! How the broker's time follows the wall clock: the policy of docs/time.md, as a pure state machine.

use super::SetBack;
use crate::Timestamp;

/// Differences up to this are followed at once, in milliseconds: NTP slews by such steps.
const SMALL_MS: u64 = 250;
/// The two clocks are read one after the other and truncated to milliseconds: differences up to this are ignored.
const NOISE_MS: u64 = 2;
/// How long a different wall clock must be stable before it is accepted, in milliseconds.
pub(super) const CONFIRMATION_MS: u64 = 180_000;
/// The same within [`FRESH_MS`] of the start, if the wall clock was set since the start: probably it was corrected.
pub(super) const FRESH_CONFIRMATION_MS: u64 = 10_000;
/// The period after a start in which [`FRESH_CONFIRMATION_MS`] applies, in milliseconds.
pub(super) const FRESH_MS: u64 = 300_000;
/// Two differences count as the same if they deviate by no more than this, in milliseconds.
const SAME_MS: u64 = 1_000;
/// Time that is ahead by up to this, in milliseconds, runs at half speed until the wall clock has caught up; by more, it is
/// set back.
pub(super) const SLOW_MS_MAX: u64 = 300_000;
/// A wall clock before this is considered unset: January 1st 2023, before the broker existed.
pub(super) const WALL_MS_MIN: u64 = 1_672_531_200_000;

/// A notice for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notice {
    /// The wall clock differs by `by_ms` and must be stable for `confirmation_ms` to be accepted.
    Differs { by_ms: i64, confirmation_ms: u64 },
    /// The wall clock agrees again.
    Vanished,
    /// Time was stepped forward.
    Forward { by_ms: u64 },
    /// Time runs at half speed, because it is ahead.
    Slow { by_ms: u64 },
    /// Time was set back.
    Back(SetBack),
}

/// A different wall clock that is not accepted yet.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    distance_ms: i64,
    since: u64,
    confirmation_ms: u64,
}

/// See the module. Values named `boot` are readings of the boot clock in milliseconds.
#[derive(Debug)]
pub(super) struct Steering {
    started: u64,
    observed: u64,
    /// Broker's time minus boot clock.
    offset_ms: u64,
    /// The target of `offset_ms`, which is greater while time runs at half speed.
    wanted_ms: u64,
    candidate: Option<Candidate>,
    /// Whether a difference would mean that the wall clock was set since the start.
    would_be_set: bool,
    /// Whether the wall clock was not set at the start.
    was_unset: bool,
    /// The latest time returned.
    latest: u64,
}

impl Steering {
    /// Accepts the wall clock, if it is set.
    pub(super) fn new(boot: u64, wall: u64) -> Self {
        let offset_ms = wall.max(WALL_MS_MIN).saturating_sub(boot);
        Self {
            started: boot,
            observed: boot,
            offset_ms,
            wanted_ms: offset_ms,
            candidate: None,
            would_be_set: true,
            was_unset: wall < WALL_MS_MIN,
            latest: 0,
        }
    }

    /// The broker's time; it never goes back, except when it is set back.
    pub(super) fn now(&mut self, boot: u64) -> Timestamp {
        self.latest = self.latest.max(self.offset_ms.saturating_add(boot));
        Timestamp(self.latest)
    }

    /// Continues from `latest`, the latest timestamp in the store, if the time is behind it.
    pub(super) fn go_on_from(&mut self, boot: u64, latest: Timestamp) -> Option<Notice> {
        let ahead_ms = latest.0.checked_sub(self.now(boot).0).filter(|ahead_ms| *ahead_ms > 0)?;
        self.offset_ms = self.offset_ms.saturating_add(ahead_ms);
        if ahead_ms <= SLOW_MS_MAX {
            return Some(Notice::Slow { by_ms: ahead_ms });
        }
        self.wanted_ms = self.offset_ms;
        self.would_be_set = self.was_unset;
        None
    }

    /// Compares the time with the wall clock.
    pub(super) fn observe(&mut self, boot: u64, wall: u64) -> Option<Notice> {
        let elapsed_ms = boot.saturating_sub(std::mem::replace(&mut self.observed, boot));
        // Half speed: half of the elapsed time is subtracted; `now` never goes back meanwhile.
        self.offset_ms = self.offset_ms.saturating_sub(elapsed_ms / 2).max(self.wanted_ms);
        if wall < WALL_MS_MIN {
            return None;
        }
        let distance_ms = i64::try_from(i128::from(wall) - i128::from(self.wanted_ms.saturating_add(boot)));
        let distance_ms = distance_ms.unwrap_or(i64::MAX);
        let was_set = std::mem::replace(&mut self.would_be_set, true);
        if distance_ms.unsigned_abs() <= SMALL_MS {
            if distance_ms.unsigned_abs() > NOISE_MS {
                self.want(distance_ms);
            }
            return self.candidate.take().map(|_| Notice::Vanished);
        }
        match self.candidate {
            Some(candidate) if candidate.distance_ms.abs_diff(distance_ms) <= SAME_MS => {
                let stood_ms = boot.saturating_sub(candidate.since);
                (stood_ms >= candidate.confirmation_ms).then(|| self.believe(boot, distance_ms))
            }
            _ => {
                let fresh = was_set && boot.saturating_sub(self.started) < FRESH_MS;
                let confirmation_ms = if fresh { FRESH_CONFIRMATION_MS } else { CONFIRMATION_MS };
                self.candidate = Some(Candidate { distance_ms, since: boot, confirmation_ms });
                Some(Notice::Differs { by_ms: distance_ms, confirmation_ms })
            }
        }
    }

    /// Accepts a wall clock that was stable for long enough.
    fn believe(&mut self, boot: u64, distance_ms: i64) -> Notice {
        self.candidate = None;
        let before = self.now(boot);
        self.want(distance_ms);
        let ahead_ms = self.offset_ms - self.wanted_ms;
        let by_ms = distance_ms.unsigned_abs();
        if distance_ms > 0 {
            Notice::Forward { by_ms }
        } else if ahead_ms <= SLOW_MS_MAX {
            Notice::Slow { by_ms: ahead_ms }
        } else {
            self.offset_ms = self.wanted_ms;
            self.latest = 0;
            Notice::Back(SetBack { from: before, to: self.now(boot) })
        }
    }

    /// Changes the target time by `distance_ms`: forward at once, backward at half speed.
    fn want(&mut self, distance_ms: i64) {
        self.wanted_ms = self.wanted_ms.saturating_add_signed(distance_ms);
        self.offset_ms = self.offset_ms.max(self.wanted_ms);
    }
}
