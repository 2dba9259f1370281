//! Recovery of the writer after a failed append: determines which records are stored, and excludes the others.

use std::time::Duration;

use super::log::{RecordId, RecordPlace};
use super::shared::{fenced, lost_tail};
use super::writer::Writer;
use crate::{Epoch, Error};

/// First pause before another attempt; it doubles.
const PAUSE_MS: u64 = 20;
/// Longest pause.
const PAUSE_MS_MAX: u64 = 1_000;
/// The number of failed attempts from which they are reported: a session that was ended is usually replaced at once.
const REPORTED_FROM: u32 = 2;
/// An epoch exceeds the previous one by 1 to this many: two owners that see different ends of a log that lost records
/// must not choose the same epoch.
const EPOCH_STEP_MAX: u64 = 1 << 20;

/// The epoch of the next owner.
pub(super) const fn epoch_after(epoch: Epoch, random: u64) -> Epoch {
    Epoch(epoch.0.saturating_add(1 + random % EPOCH_STEP_MAX))
}

/// The pause before attempt `attempt`, from 1.
pub(super) fn pause_before(attempt: u32) -> Duration {
    let factor = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_millis(PAUSE_MS.saturating_mul(factor).min(PAUSE_MS_MAX))
}

/// The outcome of the records of the previous epoch.
struct Seized {
    owner: RecordId,
    /// The last stored record; no later one of the old epoch will be stored.
    stored: RecordPlace,
}

impl Writer {
    /// Seizes the log again in a higher epoch. Then nothing is in doubt any more: records before the new owner record
    /// are durable, because a later record was acknowledged; no other record of the old epoch can arrive, because its
    /// predecessor is not of that epoch. Records that are not stored are sent again, or refused if the engine has no
    /// room.
    ///
    /// Sending the same bytes to the same place again would be wrong after a refusal: the place would get other bytes,
    /// and a record sent after the refused one could still arrive and find a predecessor of its epoch.
    ///
    /// # Errors
    /// The cause, if the lease is lost.
    pub(super) async fn recover(&mut self, cause: Error) -> Result<(), Error> {
        self.answers.clear();
        match &cause {
            Error::Fenced { .. } | Error::Corrupt { .. } => return Err(cause),
            Error::Full { .. } => self.shared.set_refused(true),
            _ => {}
        }
        tracing::info!(shard = self.shared.shard.0, error = %cause, "an append failed; the log is read back");
        self.shared.begin_outage();
        self.shared.make_room(&cause).await;
        let Seized { owner, stored } = self.seize_again().await?;
        self.last = owner;
        self.shared.seized(owner);
        self.settle(stored);
        let mut again = Vec::new();
        for one in std::mem::take(&mut self.under_way) {
            again.extend(one.waiting);
            if let Some((_, reply)) = one.maintenance {
                let _ = reply.send(Err(Error::Unavailable { reason: cause.to_string() }));
            }
        }
        self.queue.restore(again);
        Ok(())
    }

    async fn seize_again(&mut self) -> Result<Seized, Error> {
        let own = self.shared.epoch();
        let mut attempted = Vec::new();
        let mut stored = self.shared.acknowledged().place;
        loop {
            if let Some(cause) = self.shared.cause() {
                return Err(cause);
            }
            if self.failures > 0 {
                self.shared.environment.pause(pause_before(self.failures)).await;
            }
            self.failures += 1;
            let tail = match self.shared.log.open().await {
                Ok(tail) => tail.last,
                Err(error @ (Error::Corrupt { .. } | Error::Fenced { .. })) => return Err(error),
                Err(error) => {
                    self.report_failure(&error);
                    continue;
                }
            };
            let known = self.shared.acknowledged();
            if tail.place < known.place || (tail.place == known.place && tail.epoch != known.epoch) {
                return Err(lost_tail(self.shared.shard, known, tail));
            }
            if tail.epoch == own {
                stored = tail.place;
            } else if !attempted.contains(&tail.epoch) {
                return Err(fenced("another owner has seized the log"));
            }
            let epoch = epoch_after(tail.epoch, self.shared.environment.draw());
            attempted.push(epoch);
            match self.shared.log.seize(tail, epoch).await {
                Ok(()) => return Ok(Seized { owner: RecordId { place: tail.place.next(), epoch }, stored }),
                Err(error) => {
                    self.report_failure(&error);
                    self.shared.make_room(&error).await;
                }
            }
        }
    }

    /// Logs a failed attempt to seize the log again, at growing intervals, because the reason may change.
    fn report_failure(&self, error: &Error) {
        if self.failures >= REPORTED_FROM && self.failures.is_power_of_two() {
            let (shard, attempts) = (self.shared.shard.0, self.failures);
            tracing::warn!(shard, attempts, %error, "the log can't be written; sends and settlements wait");
        }
    }

    /// Notes that an append was acknowledged.
    pub(super) fn note_success(&mut self) {
        self.shared.end_outage();
        if std::mem::take(&mut self.failures) >= REPORTED_FROM {
            tracing::info!(shard = self.shared.shard.0, "the log is written again");
        }
    }
}
