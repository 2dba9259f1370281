//! Moves time forward: everything due is done, each timer at its own due time.

use tokio::sync::mpsc;

use super::actor::CatchUp;
use super::directory::Directory;
use super::namespace::Namespace;
use super::{TooFarAhead, Travel};
use crate::{EntityOptions, Timestamp};

/// The first steps of a journey, up to this number, stop exactly at the next due time. Each further step covers at least
/// 1/`STEPS` of the rest; within it every entity still fires each timer at its own due time, but entities are not
/// synchronized with each other.
const STEPS: u64 = 1_000;

/// Resolves once everything due by `until` is done in every entity, and all results are durable, delivered or forwarded.
/// Work of one entity can make another one due, so rounds are repeated until one found nothing to do. Returns the next due
/// time.
async fn catch_up(directory: &Directory, until: Timestamp) -> Option<Timestamp> {
    loop {
        let (answer, mut answers) = mpsc::unbounded_channel();
        for entity in directory.all() {
            entity.catch_up(CatchUp { until, answer: answer.clone() });
        }
        drop(answer);
        let (mut was_due, mut next) = (false, None);
        // The channel closes when every actor and forwarder has answered or ended.
        while let Some(answer) = answers.recv().await {
            was_due |= answer.was_due;
            next = [next, answer.next].into_iter().flatten().min();
        }
        if !was_due {
            return next;
        }
    }
}

impl Namespace {
    /// Does everything that is due by the clock's present time: locks expire, scheduled messages become available, messages
    /// expire, idle entities are deleted, forwarders move their messages. Resolves once all results are durable and sent to
    /// the mailboxes. Needed only after a jump of the clock, or to wait for these results; cancelling it is safe.
    pub async fn catch_up(&self) {
        let _alone = self.inner.catching_up.lock().await;
        self.catch_up_until(self.inner.common.clock.now()).await;
    }

    /// Moves `clock`, which must be the namespace's, forward by a duration in milliseconds, as if the time had passed:
    /// everything due until then is done at its own due time, one timer after the other, as by [`Self::catch_up`]. If it is
    /// cancelled, the clock stops at an intermediate time.
    ///
    /// # Errors
    /// The clock can't be moved so far; it is unchanged then.
    pub async fn travel(&self, clock: &dyn Travel, duration_ms: u64) -> Result<(), TooFarAhead> {
        let _alone = self.inner.catching_up.lock().await;
        // Only now: another journey may have moved the clock meanwhile.
        clock.check(duration_ms)?;
        let start = clock.now();
        let until = start.plus_ms(duration_ms);
        let mut next = self.catch_up_until(start).await;
        let (mut steps, mut step_ms_min) = (0, 1);
        loop {
            let now = clock.now();
            if now >= until {
                break;
            }
            if steps == STEPS {
                step_ms_min = ((until.0 - now.0) / STEPS).max(1);
            }
            steps += 1;
            let step = next.unwrap_or(until).max(now.plus_ms(step_ms_min)).min(until);
            // If several due times lie before `step`, entities handle them ahead of the clock.
            if next.is_none_or(|next| next >= step) {
                clock.move_to(step);
                // Tasks whose alarm fired run first and so find nothing left to do in the round.
                tokio::task::yield_now().await;
            }
            next = self.catch_up_until(step).await;
            clock.move_to(step);
        }
        Ok(())
    }

    async fn catch_up_until(&self, until: Timestamp) -> Option<Timestamp> {
        let next = catch_up(&self.inner.directory, until).await;
        // The catalogue deletes ended entities before it answers this empty declaration. An error means that the shard is
        // lost.
        let _ = self.declare_all::<EntityOptions>([]).await;
        next
    }
}
