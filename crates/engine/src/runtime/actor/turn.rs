//! One turn: requests in, events to the store.

use peeklock_storage::Batch;

use super::commits::Contents;
use super::limits::{BATCH_BYTES_MAX, MEMORY_LOOK_MS, TURN_EVENTS_MAX, TURN_REQUESTS_MAX, TURN_VISITS_MAX};
use super::reads::Allowance;
use super::tally::Cause;
use super::traces::Names;
use super::write_estimate::check_writes;
use super::{Actor, OwnedPartition};
use crate::command::{Descriptor, Link};
use crate::partition::persist;
use crate::runtime::answer;
use crate::runtime::growth::Shortage;
use crate::runtime::long_work;
use crate::runtime::{Mailbox, Request};
use crate::{Command, Event, QueueId, Refusal, RequestId, Timestamp};

/// Values read once at the start of a turn.
#[derive(Clone, Copy)]
struct TurnContext {
    now: Timestamp,
    shortage: Option<Shortage>,
}

impl Actor {
    /// Processes all waiting work within the limits of one turn; true if the actor should yield to other tasks.
    pub(super) fn turn(&mut self) -> bool {
        self.tenancy.check();
        let context = TurnContext { now: self.now, shortage: self.note_shortage() };
        self.take_buffers();
        self.visits = 0;
        let is_confirmed = self.handle_internal(&context);
        self.continue_unfinished(&context);
        let postponed = self.admit_all(&context);
        // If there is no room, the next commit wakes the actor.
        let mut behind = self.is_due(context.now) && self.commits.has_room_for_timers();
        if behind {
            self.handle(&context, None, Command::Tick);
            behind = self.is_due(context.now);
        }
        behind |= self.travel(context);
        self.flush();
        if is_confirmed {
            self.confirm();
        }
        self.take_finished_reads(&context);
        self.show_access(self.now);
        self.update_forwarders();
        let mut allowance = Allowance::of_a_turn();
        let mut has_read_much = self.lane.start_reads(&*self.shared.shard, &mut allowance);
        self.schedule_another_turn();
        has_read_much |= self.browses.start_reads(&*self.shared.shard, &mut allowance);
        self.release();
        self.show_tallies();
        self.answer_catch_ups();
        self.cache.end_turn(self.commits.durable_body());
        self.alarm.arm(&*self.shared.clock, self.owned.partition.next_deadline());
        let crowded = self.handled_since_yield >= TURN_REQUESTS_MAX;
        if crowded {
            self.handled_since_yield = 0;
        }
        crowded || behind || postponed || has_read_much || !self.unfinished.is_empty()
    }

    /// Returns the shortage, if there is one. Meanwhile messages scheduled on a topic are not published: each would be
    /// copied to many subscriptions and use up the memory or disk space left for settling and deleting.
    fn note_shortage(&mut self) -> Option<Shortage> {
        let shortage = self.growth.shortage();
        self.owned.partition.hold_publications(shortage.is_some());
        shortage
    }

    /// Schedules another turn for bodies that wait for memory, and for messages that are held back.
    fn schedule_another_turn(&mut self) {
        if self.lane.is_short_of_memory() {
            let look_at = self.shared.clock.now().plus_ms(MEMORY_LOOK_MS);
            self.memory_alarm.arm(&*self.shared.clock, Some(look_at));
        }
        if self.owned.partition.held_publication().is_some() {
            self.relief.await_end(&self.growth, &self.shared.clock);
        }
    }

    /// Carries out the actor's internal commands, up to the limit of one turn; true if none is left.
    fn handle_internal(&mut self, context: &TurnContext) -> bool {
        while self.outputs.events.len() < TURN_EVENTS_MAX
            && let Some(command) = self.internal.pop_front()
        {
            self.handle(context, None, command);
        }
        self.internal.is_empty()
    }

    /// Continues requests of earlier turns, for half of a turn at most, so that new requests are not held up.
    fn continue_unfinished(&mut self, context: &TurnContext) {
        while self.visits < TURN_VISITS_MAX / 2
            && let Some(unfinished) = self.unfinished.pop_front()
        {
            let OwnedPartition { partition, random, .. } = &mut self.owned;
            partition.resume(context.now, random, unfinished, &mut self.outputs);
            self.note_visits();
        }
    }

    /// Counts what the last command visited, and keeps what it left unfinished.
    fn note_visits(&mut self) {
        self.visits = self.visits.saturating_add(std::mem::take(&mut self.outputs.visits));
        self.unfinished.extend(self.outputs.unfinished.drain(..));
    }

    /// Answers whether the entity accepts commands, once all earlier commands are carried out; the catalogue has been
    /// notified of an end by then.
    pub(super) fn confirm(&mut self) {
        let takes_commands = !self.owned.partition.has_ended();
        for answer in self.confirmations.drain(..) {
            let _ = answer.send(takes_commands);
        }
    }

    /// Carries out requests, up to the limits of one turn and of the writes under way (a few large commands can reach the
    /// latter); true if requests may be left.
    fn admit_all(&mut self, context: &TurnContext) -> bool {
        let mut requests = std::mem::take(&mut self.requests);
        let mut waiting = requests.drain(..);
        let mut handled = 0;
        while handled < TURN_REQUESTS_MAX
            && self.outputs.events.len() < TURN_EVENTS_MAX
            && self.visits < TURN_VISITS_MAX
            && self.commits.has_room()
        {
            let Some(request) = waiting.next().or_else(|| self.inbox.try_next()) else {
                drop(waiting);
                self.requests = requests;
                return false;
            };
            let requests = requests_in(&request);
            handled += requests;
            self.handled_since_yield += requests;
            self.admit(context, request);
        }
        self.requests = waiting.collect();
        handled > 0 || !self.requests.is_empty()
    }

    /// Fires the timers that are due before the point in time to which the clock is about to be moved, each at its own due
    /// time; true if some are left.
    fn travel(&mut self, mut context: TurnContext) -> bool {
        let Some(until) = self.catch_ups.until() else { return false };
        while let Some(due) = self.owned.partition.next_deadline().filter(|due| *due <= until) {
            if self.outputs.events.len() >= TURN_EVENTS_MAX || !self.commits.has_room_for_timers() {
                return self.commits.has_room_for_timers();
            }
            context.now = due.max(self.now);
            (self.now, self.travelled) = (context.now, context.now);
            self.handle(&context, None, Command::Tick);
            if self.batch_bytes > self.limits.batch_bytes_max.min(BATCH_BYTES_MAX) {
                self.flush();
            }
        }
        (self.now, self.travelled) = (self.now.max(until), self.travelled.max(until));
        false
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.owned.partition.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Carries out a request, or refuses it before it reaches the partition.
    fn admit(&mut self, context: &TurnContext, request: Request) {
        let visits = match &request.command {
            Command::Send { .. } | Command::SendEach { .. } => {
                self.owned.partition.publishing_visits(request.command.sent_messages())
            }
            Command::DeleteSubscription { queue } => self.owned.partition.deleting_visits(*queue),
            _ => 0,
        };
        long_work::carry_out(visits, || self.admit_at_once(context, request));
    }

    fn admit_at_once(&mut self, context: &TurnContext, request: Request) {
        let described = request.command.describe();
        let answer = described.answer;
        let own_bytes = match self.check(context, &described) {
            Ok(own_bytes) => own_bytes,
            Err(refusal) => {
                let attempt = self.traces.begin(&request.command);
                let OwnedPartition { name, partition, .. } = &self.owned;
                self.traces.refused(attempt, &refusal, Names { entity: name, partition });
                let put = |mailbox: &Mailbox, output| self.outgoing.put(mailbox, output);
                return answer::refuse(request, &refusal, put);
            }
        };
        let batch_bytes_max = self.limits.batch_bytes_max.min(BATCH_BYTES_MAX);
        if self.batch_bytes > 0 && self.batch_bytes.saturating_add(own_bytes) > batch_bytes_max {
            self.flush();
        }
        self.batch_bytes = self.batch_bytes.saturating_add(own_bytes);
        self.note_access(&described);
        match described.link {
            Link::Opens(receiver) | Link::Watches(receiver) => {
                self.receivers.insert(receiver, request.mailbox.clone());
            }
            Link::Closes(receiver) => {
                self.receivers.remove(&receiver);
            }
            Link::Unchanged | Link::Credits(_) => {}
        }
        let Request { mailbox, tag, command } = request;
        let waiter = answer::waiter(mailbox, tag, answer);
        let request = waiter.map(|waiter| RequestId(self.waiters.insert(waiter) as u64));
        self.handle(context, request, command);
        // The size of copies is known only now.
        if self.batch_bytes > batch_bytes_max {
            self.flush();
        }
    }

    /// Checks whether a command may be carried out; returns the estimated size of its writes without copies, in bytes.
    fn check(&self, context: &TurnContext, command: &Descriptor<'_>) -> Result<usize, Refusal> {
        if command.link.id_of_this_epoch().is_some_and(|receiver| !receiver.is_of(self.shared.epoch)) {
            // The client of a link attached to an earlier owner of the shard attaches again.
            return Err(Refusal::Unavailable);
        }
        let partition = &self.owned.partition;
        let estimate = check_writes(partition, context.now, command, context.shortage, self.limits)?;
        Ok(estimate.own_bytes)
    }

    fn handle(&mut self, context: &TurnContext, request: Option<RequestId>, command: Command) {
        let attempt = self.traces.begin(&command);
        let (cause, outputs) = (Cause::of(&command), &mut self.outputs);
        let (event_count, effect_count) = (outputs.events.len(), outputs.effects.len());
        self.owned.partition.handle(context.now, &mut self.owned.random, request, command, outputs);
        let (events, effects) = (outputs.events.get(event_count..), outputs.effects.get(effect_count..));
        let (events, effects) = (events.unwrap_or_default(), effects.unwrap_or_default());
        self.tallies.note(context.now, cause, events, effects);
        let OwnedPartition { name, partition, .. } = &self.owned;
        self.traces.decided(attempt, request, effects, Names { entity: name, partition });
        self.traces.note(events);
        self.event_ends.push(self.outputs.events.len());
        self.note_visits();
        self.batch_bytes = self.batch_bytes.saturating_add(std::mem::take(&mut self.outputs.uncounted_bytes));
    }

    /// Submits the events so far as one batch and routes their effects.
    fn flush(&mut self) {
        self.batch_bytes = 0;
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut ends = std::mem::take(&mut self.event_ends);
        self.cache_stored(&outputs.events);
        self.submit(&outputs.events, &ends, 0);
        let after = self.commits.last_sync();
        self.tallies.stored_by(after);
        self.traces.stored_by(after);
        for effect in outputs.effects.drain(..) {
            self.route(after, effect);
        }
        if !outputs.events.is_empty() {
            self.show_counts();
        }
        for body in outputs.events.iter().flat_map(Event::removed_bodies) {
            self.cache.remove(*body);
        }
        outputs.events.clear();
        ends.clear();
        self.outputs = outputs;
        self.event_ends = ends;
    }

    /// Publishes the present message counts.
    pub(super) fn show_counts(&mut self) {
        let OwnedPartition { id, partition, counts, metrics, .. } = &self.owned;
        counts.set_entity(partition, QueueId(id.0));
        metrics.set_oldest(partition.oldest_available(QueueId(id.0)));
        if self.owned.subscriptions.take_over(&mut self.owned.partition) {
            self.shared.changes.notify();
        }
    }

    pub(super) fn cache_stored(&mut self, events: &[Event]) {
        for (body, content) in events.iter().filter_map(Event::stored_body) {
            self.cache.insert(body, content.clone());
        }
    }

    /// Submits events, split between commands if they exceed the store's limit. `ends` are the end indexes of the commands,
    /// counted from `start` events before the first.
    fn submit(&mut self, events: &[Event], ends: &[usize], start: usize) {
        let contents = Contents::of(events);
        if !contents.is_stored {
            return;
        }
        let mut batch = Batch::new();
        persist(self.owned.id, events, &mut batch);
        if batch.is_empty() {
            return;
        }
        let (left, right) = ends.split_at(ends.len() / 2);
        let middle = left.last().map_or(0, |end| end.saturating_sub(start));
        if let (true, [_, ..], Some((first, second))) =
            (batch.value_bytes() > self.limits.batch_bytes_max, left, events.split_at_checked(middle))
        {
            self.submit(first, left, start);
            self.submit(second, right, start + middle);
            return;
        }
        let bytes = batch.value_bytes();
        let commit = self.shared.shard.submit(batch);
        self.commits.push(commit, contents, bytes);
    }

    /// Removes deferred messages received in receive-and-delete mode, once their bodies are read; they are sent once the
    /// removal is durable. Each answer is removed completely or not at all.
    fn take_finished_reads(&mut self, context: &TurnContext) {
        let removals = self.browses.removals();
        if removals.is_empty() {
            return;
        }
        for (position, removal) in removals {
            let OwnedPartition { partition, random, .. } = &mut self.owned;
            let asked = std::iter::once(((), &removal));
            let taken = partition.prepare(context.now, random, asked, &mut self.outputs);
            if taken.is_ok() {
                self.handle(context, None, removal);
            }
            self.browses.taken(position, taken.map_err(|((), refusal)| refusal));
        }
        self.flush();
        self.browses.removed(self.commits.last_sync());
    }
}

/// The number of requests that a client made in one: messages that are sent each on its own count singly. The visits of
/// a settlement limit the turn instead.
const fn requests_in(request: &Request) -> usize {
    match &request.command {
        Command::SendEach { messages } if !messages.is_empty() => messages.len(),
        _ => 1,
    }
}
