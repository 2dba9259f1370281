//! What follows when the clock is moved: everything due happens, each at its own instant.

use tokio::sync::mpsc;

use super::Travel;
use super::actor::CatchUp;
use super::directory::Directory;
use super::namespace::Namespace;
use crate::{EntityOptions, Timestamp};

/// So many steps of a journey go to the very instant at which something is due next. If there are more, each of the others
/// covers at least this share of the rest, within which entities still handle what is due at its own instant, one
/// entity beside the other.
const STEPS: u64 = 1_000;

/// Resolves once everything due by an instant has happened, in every entity, and all that came of it is durable, handed
/// out, or forwarded. What one entity does may make another one due: rounds follow until a whole one found nothing to
/// do. Gives the next instant at which something is due.
async fn catch_up(directory: &Directory, until: Timestamp) -> Option<Timestamp> {
    loop {
        let (answer, mut answers) = mpsc::unbounded_channel();
        for entity in directory.all() {
            entity.catch_up(CatchUp { until, answer: answer.clone() });
        }
        drop(answer);
        let (mut was_due, mut next) = (false, None);
        // It ends when nobody has anything left to do: also who ends meanwhile.
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
    /// Lets everything that is due by the clock's present time happen: locks end, scheduled messages become available,
    /// messages expire, idle entities go, and what forwards hands on what there is. Resolves once all that came of it is
    /// durable and handed to the mailboxes.
    /// Needed only after the clock jumped and by those who can't wait for what they expect; cancelling it does no harm.
    pub async fn catch_up(&self) {
        let _alone = self.inner.catching_up.lock().await;
        self.catch_up_until(self.inner.common.clock.now()).await;
    }

    /// Moves `clock`, which is the namespace's, forward by a duration in milliseconds, so that it is as if the time had
    /// passed: whatever is due until then happens at its own instant, one after the other, as [`Self::catch_up`]
    /// says. When it is cancelled, the clock stops on its way.
    pub async fn travel(&self, clock: &dyn Travel, duration_ms: u64) {
        let _alone = self.inner.catching_up.lock().await;
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
            // With several instants before it, entities go through them ahead of the clock.
            if next.is_none_or(|next| next >= step) {
                clock.move_to(step);
                // Those whose alarm it is wake first: they find nothing left to do when they are asked.
                tokio::task::yield_now().await;
            }
            next = self.catch_up_until(step).await;
            clock.move_to(step);
        }
    }

    async fn catch_up_until(&self, until: Timestamp) -> Option<Timestamp> {
        let next = catch_up(&self.inner.directory, until).await;
        // The catalogue deletes what ended before it answers a declaration, here of nothing; if it is gone, so is all.
        let _ = self.declare_all::<EntityOptions>([]).await;
        next
    }
}
