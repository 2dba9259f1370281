//! Recovery after the store refused a batch or lost the shard.

use std::sync::Arc;
use std::task::Poll;

use peeklock_storage::{Error, PartitionId};
use tokio::sync::mpsc;

use super::commits::Commits;
use super::lane::DeliveryLane;
use super::{Actor, Browses};
use crate::command::Link;
use crate::partition::{Credible, Partition, Watched};
use crate::runtime::StartError;
use crate::runtime::answer;
use crate::runtime::damage::Unreadable;
use crate::runtime::growth::refusal_of_batch;
use crate::runtime::joint::LoanRequest;
use crate::runtime::long_work;
use crate::runtime::restore::{FirstPages, restore};
use crate::runtime::retry_backoff::RetryBackoff;
use crate::runtime::{Mailbox, Output, Request};
use crate::{Command, QueueId, Refusal, Timestamp};

impl Actor {
    /// Recovers from a refused batch (no room, or a store that could not be reached). The store applied neither that batch
    /// nor later ones that build on it, so the state in memory is ahead of the store. All waiting requests are refused,
    /// receivers are closed, and the state is read back. Links that only watch (senders) lose nothing and stay open.
    ///
    /// # Errors
    /// `Some`: the shard is lost. `None`: the entity's stored state is damaged, or the actor was stopped; only this actor
    /// must end.
    pub(super) async fn recover(&mut self, error: Error) -> Result<(), Option<Error>> {
        let partition = self.owned.id.0;
        // Results that are durable must not be refused: a client whose request is refused may repeat it.
        self.release_before_refusing();
        if error.is_loss() {
            // The host logs the loss, once and with the reason that the store gives.
            tracing::debug!(partition, %error, "the shard is lost; the partition stops");
            self.refuse_everything(&Refusal::Unavailable);
            return Err(Some(error));
        }
        tracing::warn!(partition, %error, "the store refused a batch; the partition is reloaded from the store");
        let settled = self.commits.settle().await;
        let refusal = refusal_of_batch(&error);
        self.read_back(&refusal, settled).await
    }

    /// Adjusts to a clock that was set back: timestamps in memory that are now in the future would hold for too long.
    /// Batches under way become durable and are answered; then receivers are closed and the state is read back.
    ///
    /// # Errors
    /// As [`Self::recover`].
    pub(super) async fn follow_the_clock_back(&mut self) -> Result<(), Option<Error>> {
        while !self.commits.is_empty() {
            if let Err(error) = std::future::poll_fn(|context| self.commits.poll(context)).await {
                return self.recover(error).await;
            }
        }
        self.release_before_refusing();
        self.travelled = Timestamp::default();
        let (now, set_backs) = self.shared.clock.reading();
        (self.now, self.owned.set_backs) = (now, set_backs.count);
        self.read_back(&Refusal::Unavailable, Ok(())).await
    }

    /// Refuses all waiting requests, closes receivers and reads the state from the store.
    async fn read_back(
        &mut self,
        refusal: &Refusal,
        settled: Result<(), Error>,
    ) -> Result<(), Option<Error>> {
        let watching = self.owned.partition.watchers();
        let mailboxes: Vec<_> =
            watching.iter().filter_map(|(watcher, _)| self.receivers.remove_entry(watcher)).collect();
        // A close is sent once, so pending closes must not be refused.
        let closings: Vec<Request> = self.requests.extract_if(.., |request| is_closing(request)).collect();
        self.refuse_everything(refusal);
        self.requests = closings;
        self.receivers.extend(mailboxes);
        settled.map_err(Some)?;
        self.shared.shard.resume(self.owned.id);
        self.resume_subscriptions();
        if self.owned.partition.has_ended() {
            // The entity is about to be deleted and must accept nothing; a state read back would not know that it ended.
            return Ok(());
        }
        let restored = self.restore_with_retries().await?;
        let restored = restored.with_rule_limits(self.shared.rule_limits);
        let restored = restored.in_place_of(&self.owned.partition);
        long_work::free(std::mem::replace(&mut self.owned.partition, restored));
        // Subscriptions whose deletion was in a refused batch exist again.
        self.resume_subscriptions();
        self.owned.counts.set_entity(&self.owned.partition, QueueId(self.owned.id.0));
        self.owned.subscriptions.reset(&mut self.owned.partition);
        self.shared.changes.notify();
        let watch = |(watcher, watched): (_, Watched)| {
            let Watched { queue, sends } = watched;
            Command::Watch { watcher, queue, sends }
        };
        self.internal.extend(watching.into_iter().map(watch));
        // A subscription whose deletion was refused forwards again.
        self.update_forwarders();
        self.alarm.arm(&*self.shared.clock, self.owned.partition.next_deadline());
        Ok(())
    }

    /// Reads the state from the store, repeatedly while the device fails: only a wrong checksum proves damage. Requests
    /// that arrive meanwhile are refused as retryable.
    async fn restore_with_retries(&mut self) -> Result<Partition, Option<Error>> {
        let mut backoff = RetryBackoff::default();
        loop {
            // Timestamps in the store that are later than now count as now.
            let credible = Credible::until(self.now.max(self.travelled));
            let (shard, damages) = (&*self.shared.shard, &self.shared.damages);
            let subject = (self.owned.id, self.owned.name.as_str());
            let options = Arc::clone(&self.owned.options);
            let first = FirstPages::ask(shard, self.owned.id);
            let reading = restore(shard, subject, options, credible, first, damages, backoff);
            match refusing_loans(&mut self.loans, reading).await {
                Ok(restored) => return Ok(restored),
                Err(StartError::Storage(error)) if error.is_transient() => {
                    if backoff.is_fresh() {
                        let (entity, error) = (&self.owned.name, &error);
                        tracing::warn!(entity, %error, "the entity is not available until it can be reloaded");
                    }
                    self.refuse_for(backoff.next_pause_ms()).await?;
                }
                Err(error) => return Err(self.set_damaged(error)),
            }
        }
    }

    /// Refuses all requests for `pause_ms` milliseconds.
    ///
    /// # Errors
    /// The actor is to stop.
    async fn refuse_for(&mut self, pause_ms: u64) -> Result<(), Option<Error>> {
        let mut sleep = self.shared.clock.sleep_until(self.shared.clock.now().plus_ms(pause_ms));
        std::future::poll_fn(|context| {
            self.poll_control(context);
            self.confirm();
            while let Poll::Ready(Some(refused)) = self.loans.poll_recv(context) {
                drop(refused);
            }
            while let Poll::Ready(Some(request)) = self.inbox.poll_next(context) {
                // A close is sent once, so pending closes must not be refused.
                match is_closing(&request) {
                    true => self.requests.push(request),
                    false => answer::refuse(request, &Refusal::Unavailable, Mailbox::put),
                }
            }
            if self.stopping || self.is_lost { Poll::Ready(()) } else { sleep.as_mut().poll(context) }
        })
        .await;
        if self.stopping || self.is_lost {
            return Err(None);
        }
        // If the clock was set back meanwhile, the next turn handles it.
        self.check_set_back();
        Ok(())
    }

    /// Marks the entity as damaged until a restart, because its state can't be read back; returns the error if the whole
    /// shard is lost.
    fn set_damaged(&self, error: StartError) -> Option<Error> {
        let why = match error {
            StartError::Storage(error) if error.is_loss() => return Some(error),
            StartError::Storage(error) => Unreadable::from(error),
            other => Unreadable::new(other.to_string()),
        };
        let (damages, name) = (&self.shared.damages, &self.owned.name);
        damages.note(why.about("the stored data of the entity").damage(name.clone(), None));
        self.owned.handle.set_damaged(name);
        None
    }

    fn resume_subscriptions(&self) {
        for subscription in self.owned.partition.subscriptions() {
            self.shared.shard.resume(PartitionId(subscription.queue.0));
        }
    }

    /// Answers all waiting requests with `refusal`, closes all receivers and discards the work under way.
    pub(super) fn refuse_everything(&mut self, refusal: &Refusal) {
        for reply in self.replies.drain(..) {
            self.outgoing.put(&reply.waiter.mailbox, reply.waiter.refusal(refusal.clone()));
        }
        for browse in self.browses.drain() {
            self.outgoing.put(&browse.waiter.mailbox, browse.waiter.refusal(refusal.clone()));
        }
        for waiter in self.waiters.drain() {
            self.outgoing.put(&waiter.mailbox, waiter.refusal(refusal.clone()));
        }
        for request in self.requests.drain(..) {
            answer::refuse(request, refusal, |mailbox, output| self.outgoing.put(mailbox, output));
        }
        for (receiver, mailbox) in self.receivers.drain() {
            let closed = Output::ReceiverClosed { receiver, refusal: Refusal::Unavailable };
            self.outgoing.put(&mailbox, closed);
        }
        self.outgoing.send();
        self.loan = None;
        self.lane = DeliveryLane::new(self.owned.id, self.shared.cache.process());
        self.browses = Browses::new(self.owned.id);
        self.commits = Commits::default();
        self.catch_ups.start_over();
        self.tallies.start_over();
        self.traces.start_over();
        self.internal.clear();
        self.unfinished.clear();
        self.outputs.events.clear();
        self.outputs.effects.clear();
        self.outputs.unfinished.clear();
        self.event_ends.clear();
        self.cache.clear();
    }
}

/// Awaits the reading of a state. Joint steps are refused meanwhile, because they may hold the states of other partitions.
async fn refusing_loans<T>(
    loans: &mut mpsc::UnboundedReceiver<LoanRequest>,
    reading: impl Future<Output = T>,
) -> T {
    let mut reading = std::pin::pin!(reading);
    loop {
        tokio::select! {
            biased;
            read = &mut reading => return read,
            Some(refused) = loans.recv() => drop(refused),
        }
    }
}

fn is_closing(request: &Request) -> bool {
    matches!(request.command.describe().link, Link::Closes(_))
}
