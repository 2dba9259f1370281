//! One turn: requests in, facts to the store.

use peeklock_storage::{Batch, Pressure};

use super::Actor;
use super::held::{HeldRemoval, Removals, Wanted};
use super::limits::{BATCH_BYTES_MAX, MEMORY_LOOK_MS, TURN_EVENTS_MAX, TURN_REQUESTS_MAX};
use super::weight::{check_weight, weight};
use crate::partition::persist;
use crate::runtime::Request;
use crate::runtime::answer::{self, AnswerKind};
use crate::{Command, Durability, Effect, Event, Lock, MessageView, Reply, RequestId, Timestamp};

/// What a turn decided at its beginning.
#[derive(Clone, Copy)]
struct Moment {
    now: Timestamp,
    storage_full: bool,
}

impl Actor {
    /// Does all that waits, within the limits of one turn; true when it is time to let other tasks run.
    pub(super) fn turn(&mut self) -> bool {
        let storage_full = *self.pressure.borrow() == Pressure::Full;
        let moment = Moment { now: self.now, storage_full };
        while self.outputs.events.len() < TURN_EVENTS_MAX
            && let Some(command) = self.internal.pop_front()
        {
            self.handle(&moment, None, command);
        }
        let postponed = self.admit_all(&moment);
        // Otherwise the next commit wakes the actor.
        let mut behind = self.is_due(moment.now) && self.commits.has_room_for_timers();
        if behind {
            self.handle(&moment, None, Command::Tick);
            behind = self.is_due(moment.now);
        }
        behind |= self.travel(moment);
        self.flush();
        self.show_access(self.now);
        self.see_to_forwarders();
        self.store_removals();
        self.lane.start_reads(&*self.shared.shard);
        if self.lane.is_short_of_memory() {
            let look_at = self.shared.clock.now().plus_ms(MEMORY_LOOK_MS);
            self.memory_alarm.arm(&*self.shared.clock, Some(look_at));
        }
        self.browses.start_reads(&*self.shared.shard);
        self.release();
        self.answer_catch_ups();
        self.cache.shrink(self.commits.durable_body());
        self.cache.report();
        self.alarm.arm(&*self.shared.clock, self.seat.partition.next_deadline());
        let crowded = self.handled_since_yield >= TURN_REQUESTS_MAX;
        if crowded {
            self.handled_since_yield = 0;
        }
        crowded || behind || postponed
    }

    /// Carries out what was asked, up to the limit of one turn and of what may be under way to the store, which few commands
    /// can reach when each writes much; true when something is left.
    fn admit_all(&mut self, moment: &Moment) -> bool {
        let mut requests = std::mem::take(&mut self.requests);
        let mut waiting = requests.drain(..);
        while self.outputs.events.len() < TURN_EVENTS_MAX
            && self.commits.has_room()
            && let Some(request) = waiting.next()
        {
            self.handled_since_yield += 1;
            self.admit(moment, request);
        }
        let left: Vec<Request> = waiting.collect();
        let postponed = !left.is_empty();
        self.requests = if postponed { left } else { requests };
        postponed
    }

    /// Lets happen what is due before the instant to which the clock is about to be moved, each at its own instant; true
    /// when something is left.
    fn travel(&mut self, mut moment: Moment) -> bool {
        let Some(until) = self.catch_ups.until() else { return false };
        while let Some(due) = self.seat.partition.next_deadline().filter(|due| *due <= until) {
            if self.outputs.events.len() >= TURN_EVENTS_MAX || !self.commits.has_room_for_timers() {
                return self.commits.has_room_for_timers();
            }
            moment.now = due.max(self.now);
            (self.now, self.travelled) = (moment.now, moment.now);
            self.handle(&moment, None, Command::Tick);
            if self.batch_bytes > self.limits.batch_bytes_max.min(BATCH_BYTES_MAX) {
                self.flush();
            }
        }
        (self.now, self.travelled) = (self.now.max(until), self.travelled.max(until));
        false
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.seat.partition.next_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Carries out a request, or refuses it before the state is touched.
    fn admit(&mut self, moment: &Moment, request: Request) {
        let partition = &self.seat.partition;
        if let Err(refusal) =
            check_weight(partition, moment.now, &request.command, moment.storage_full, self.limits)
        {
            answer::refuse(request, &refusal);
            return;
        }
        let weight = weight(&request.command);
        let batch_bytes_max = self.limits.batch_bytes_max.min(BATCH_BYTES_MAX);
        if self.batch_bytes > 0 && self.batch_bytes.saturating_add(weight) > batch_bytes_max {
            self.flush();
        }
        self.batch_bytes = self.batch_bytes.saturating_add(weight);
        self.note_access(&request.command);
        let Request { mailbox, tag, command } = request;
        match &command {
            Command::OpenReceiver { receiver, .. } | Command::Watch { watcher: receiver, .. } => {
                self.receivers.insert(*receiver, mailbox.clone());
            }
            Command::CloseReceiver { receiver } => {
                self.receivers.remove(receiver);
            }
            _ => {}
        }
        let waiter = answer::waiter(mailbox, tag, &command);
        let request = waiter.map(|waiter| RequestId(self.waiters.insert(waiter) as u64));
        self.handle(moment, request, command);
        // What copies take is known only now.
        if self.batch_bytes > batch_bytes_max {
            self.flush();
        }
    }

    fn handle(&mut self, moment: &Moment, request: Option<RequestId>, command: Command) {
        self.seat.partition.handle(moment.now, &mut self.seat.random, request, command, &mut self.outputs);
        self.event_ends.push(self.outputs.events.len());
        self.batch_bytes = self.batch_bytes.saturating_add(std::mem::take(&mut self.outputs.copies_bytes));
    }

    /// Stores the facts so far as one batch and sends their effects on their way.
    fn flush(&mut self) {
        self.batch_bytes = 0;
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut ends = std::mem::take(&mut self.event_ends);
        self.cache_stored(&outputs.events);
        self.unlocked_bytes_max = self.shared.cache.process().allowance();
        let mut removals = self.hold_removals(&outputs.effects, &mut outputs.events, &mut ends);
        self.submit(&outputs.events, &ends, 0);
        let after = self.commits.last_sync();
        for effect in outputs.effects.drain(..) {
            self.route(after, effect, &mut removals);
        }
        if !outputs.events.is_empty() || !removals.is_empty() {
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

    /// Lets everybody see what there is now.
    pub(super) fn show_counts(&mut self) {
        self.seat.counts.set(self.seat.partition.counts());
        if self.seat.subscriptions.take_over(&mut self.seat.partition) {
            self.shared.changes.notify();
        }
    }

    pub(super) fn cache_stored(&mut self, events: &[Event]) {
        for (body, content) in events.iter().filter_map(Event::stored_body) {
            self.cache.insert(body, content.clone());
        }
    }

    /// Takes out the removals of messages that are handed out by this very turn and whose contents must be read from
    /// the disk first: receive-and-delete of a cold message. Everything else of the turn goes ahead.
    fn hold_removals(&mut self, effects: &[Effect], events: &mut Vec<Event>, ends: &mut [usize]) -> Removals {
        let mut wanted = Wanted::default();
        for effect in effects {
            match effect {
                Effect::Deliver { lock: None, view, .. } if self.is_cold(view, None) => {
                    wanted.add(view);
                }
                // All or none, so that a refused answer has taken nothing.
                Effect::Reply { request, reply: Reply::Received(Ok(views)) }
                    if self.takes(*request)
                        && views.iter().any(|(view, _)| !self.cache.contains(view.body)) =>
                {
                    views.iter().for_each(|(view, _)| wanted.add(view));
                }
                _ => {}
            }
        }
        self.held.hold(&wanted, events, ends)
    }

    /// Whether the content of a message for a receiver has to be read. One without a lock can't be sent back once it has left:
    /// while memory is short it counts as cold, and waits with the others until there is room for it.
    pub(super) fn is_cold(&self, view: &MessageView, lock: Option<Lock>) -> bool {
        let waits = lock.is_none()
            && view.content_bytes as usize > self.unlocked_bytes_max
            && self.commits.durable_body().is_some_and(|durable| view.body.0 <= durable.0);
        waits || !self.cache.contains(view.body)
    }

    fn takes(&self, request: RequestId) -> bool {
        let waiter = usize::try_from(request.0).ok().and_then(|slot| self.waiters.get(slot));
        waiter.is_some_and(|waiter| waiter.kind == AnswerKind::Received { takes: true })
    }

    /// Submits events, split between commands when they exceed the store's limit. `ends` are the commands' ends,
    /// counted from `start` events before the first.
    fn submit(&mut self, events: &[Event], ends: &[usize], start: usize) {
        let durability = events.iter().map(Event::durability).max();
        if durability.is_none_or(|durability| durability == Durability::Volatile) {
            return;
        }
        let mut batch = Batch::new();
        persist(self.seat.id, events, &mut batch);
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
        let body = events.iter().filter_map(|event| Some(event.stored_body()?.0.0)).max();
        let commit = self.shared.shard.submit(batch);
        self.commits.push(commit, durability == Some(Durability::Sync), bytes, body);
    }

    /// Stores removals whose contents have been read by now.
    fn store_removals(&mut self) {
        let (mut removals, mut numbers) = (Vec::new(), Vec::new());
        for unread in self.lane.take_unread() {
            self.held.abandon(&unread);
        }
        self.lane.take_removals(&mut removals, &mut numbers);
        for browse in self.browses.with_removals() {
            // What can't be handed out stays on the disk.
            browse.take_unread().iter().for_each(|unread| self.held.abandon(unread));
            if !browse.removals.is_empty() {
                removals.append(&mut browse.removals);
                browse.after = super::CommitNumber::MAX;
            }
        }
        if removals.is_empty() {
            return;
        }
        let release = |removal: HeldRemoval| self.held.release(removal);
        let events: Vec<Event> = removals.into_iter().map(release).collect();
        self.submit(&events, &[], 0);
        let after = self.commits.last_sync();
        self.lane.removed(&numbers, after);
        self.browses.removed(after);
    }
}
