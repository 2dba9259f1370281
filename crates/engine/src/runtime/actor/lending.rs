//! Lends the partition's state to the committer, see [`crate::runtime::joint`].
//!
//! Between two turns everything that was decided is submitted. While the state is lent, the actor handles nothing, so no
//! batch of this partition can come before or between the parts of a joint batch.

use std::sync::Arc;
use std::task::{Context, Poll};

use peeklock_storage::Error;
use tokio::sync::oneshot;

use super::commits::Contents;
use super::tally::Cause;
use super::{Actor, OwnedPartition};
use crate::partition::Partition;
use crate::runtime::joint::{Lent, Part, Returned};
use crate::{Command, Event, QueueId};

impl OwnedPartition {
    /// Takes the state out and leaves an empty one in its place.
    pub(super) fn take_partition(&mut self) -> Partition {
        let placeholder = Partition::sharing(QueueId(self.id.0), Arc::clone(&self.options));
        std::mem::replace(&mut self.partition, placeholder)
    }
}

impl Actor {
    /// Receives a request of the committer; true if there is one.
    pub(super) fn poll_loans(&mut self, context: &mut Context<'_>) -> bool {
        if self.loan.is_none()
            && let Poll::Ready(Some(request)) = self.loans.poll_recv(context)
        {
            self.loan = Some(request);
        }
        self.loan.is_some()
    }

    /// Lends the state if the committer requested it, and applies the result of the joint step.
    ///
    /// # Errors
    /// The state has to be read back from the store.
    pub(super) async fn lend_if_requested(&mut self) -> Result<(), Error> {
        let Some(request) = self.loan.take() else { return Ok(()) };
        let (back, returned) = oneshot::channel();
        let partition = self.owned.take_partition();
        let lent = Lent { id: self.owned.id, partition, now: self.now, back };
        if let Err(lent) = request.lent.send(lent) {
            // The committer is gone.
            self.owned.partition = lent.partition;
            return Ok(());
        }
        let gone = || Error::Stopped { reason: "the task of joint steps is gone".to_owned() };
        let Returned { partition, parts, is_broken } = returned.await.map_err(|_| gone())?;
        self.owned.partition = partition;
        self.tenancy.check();
        let happened = !parts.is_empty();
        parts.into_iter().for_each(|part| self.take_over(part));
        if is_broken {
            return Err(Error::Full { reason: "a joint step was given up".to_owned() });
        }
        if happened {
            // Serves receivers and fires due timers.
            self.internal.push_back(Command::Tick);
        }
        Ok(())
    }

    /// Applies the result of one joint batch to the actor's bookkeeping.
    fn take_over(&mut self, part: Part) {
        let Part { events, effects, commit, batch_bytes } = part;
        self.cache_stored(&events);
        self.commits.push(commit, Contents::of(&events), batch_bytes);
        self.tallies.note(self.now, Cause::Joint, &events, &effects);
        self.traces.joined(&events);
        let after = self.commits.last_sync();
        self.tallies.stored_by(after);
        self.traces.stored_by(after);
        for effect in effects {
            self.route(after, effect);
        }
        self.show_counts();
        for body in events.iter().flat_map(Event::removed_bodies) {
            self.cache.remove(*body);
        }
    }
}
