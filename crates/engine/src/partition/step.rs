//! One call of [`super::Partition::handle`]: what the deciding code can read and do.

use rand::Rng;

use std::sync::Arc;

use super::Outputs;
use super::policy::Policy;
use super::queue::Queue;
use super::record::Record;
use super::state::State;
use crate::{
    Command, Effect, Event, LockToken, QueueId, QueuePath, ReceiverId, Refusal, Reply, RequestId, RuleLimits,
    SubQueue, Timestamp,
};

/// Locks ended, messages activated, and messages made available after a delay in one call; the rest follows in the next.
pub(super) const TIMERS_PER_CALL_MAX: usize = 1024;
/// Copies of scheduled messages made in one call, not counting those of the last message; the rest follows in the next.
pub(super) const COPIES_PER_CALL_MAX: usize = 4096;
/// Visits (see [`Outputs::visits`]) that take as long as a copy.
pub(super) const VISITS_PER_COPY: usize = 16;
/// Maximum total size in bytes of the parts that copies do not share, because an action changed them or a rule failed; applies
/// to the command of a call, and separately to its scheduled messages. Further copies are dead-lettered unchanged: whatever
/// the rules are, the writes of one command stay below the store's limit.
pub(crate) const CHANGED_BYTES_PER_CALL_MAX: usize = 64 << 20;
/// Maximum total size in bytes of the variable parts of the records that timers write in one call: a record may have changed
/// properties of [`super::properties::HEADER_BYTES_MAX`], and the writes of a call are in one batch of the store. The record
/// that exceeds it is the last one; the rest follows in the next call.
pub(super) const TIMER_BYTES_PER_CALL_MAX: usize = 1 << 20;
/// Maximum total size in bytes of the variable parts of the existing records that one command rewrites: its estimated size
/// includes only what it adds to them.
pub(super) const REWRITTEN_BYTES_MAX: usize = 64 << 20;
/// Effort of deleting idle subscriptions in one call, in messages; the rest follows in the next.
pub(super) const IDLE_ENDS_PER_CALL_MAX: usize = 4096;
/// Messages whose deletion takes as long as that of an empty subscription.
pub(super) const MESSAGES_PER_SUBSCRIPTION: usize = 64;
/// Messages expired in one call, not counting those whose lock ended; the rest follows in the next.
pub(super) const EXPIRIES_PER_CALL_MAX: usize = 1024;

/// The context of one command.
pub(super) struct Step<'a> {
    /// The present time.
    pub(super) now: Timestamp,
    /// Limits on the rules of topics.
    pub(super) rule_limits: &'a RuleLimits,
    /// Remaining number of messages that may expire in this call.
    pub(super) expiries_left: usize,
    /// Remaining number of message locks that may end in this call because their session's lock ended.
    pub(super) returns_left: usize,
    /// Remaining number of messages whose hold-back time has passed that may become available in this call.
    pub(super) frees_left: usize,
    /// Remaining number of copies of scheduled messages that may be made in this call.
    pub(super) copies_left: usize,
    /// Remaining bytes of unshared parts of copies in this call.
    pub(super) changed_bytes_left: usize,
    /// Remaining bytes of the records that the command may rewrite.
    pub(super) rewritten_bytes_left: usize,
    /// Remaining bytes of the records that timers may write in this call.
    pub(super) timer_bytes_left: usize,
    /// Remaining effort of deleting idle subscriptions in this call, in messages.
    pub(super) idle_ends_left: usize,
    state: &'a mut State,
    random: &'a mut dyn Rng,
    outputs: &'a mut Outputs,
}

impl<'a> Step<'a> {
    /// Prepares the context of one command.
    pub(super) fn new(
        now: Timestamp,
        rule_limits: &'a RuleLimits,
        state: &'a mut State,
        random: &'a mut dyn Rng,
        outputs: &'a mut Outputs,
    ) -> Self {
        Self {
            now,
            rule_limits,
            expiries_left: EXPIRIES_PER_CALL_MAX,
            returns_left: TIMERS_PER_CALL_MAX,
            frees_left: TIMERS_PER_CALL_MAX,
            copies_left: COPIES_PER_CALL_MAX,
            changed_bytes_left: CHANGED_BYTES_PER_CALL_MAX,
            rewritten_bytes_left: REWRITTEN_BYTES_MAX,
            timer_bytes_left: TIMER_BYTES_PER_CALL_MAX,
            idle_ends_left: IDLE_ENDS_PER_CALL_MAX,
            state,
            random,
            outputs,
        }
    }

    /// Fires due timers, carries out the command, serves receivers.
    pub(super) fn run(&mut self, request: Option<RequestId>, command: Command) {
        if !self.state.ended {
            self.fire_due_timers();
        }
        if self.state.ended {
            if let Some(reply) = command.refused(Refusal::EntityDeleted) {
                self.reply(request, reply);
            }
            return;
        }
        self.changed_bytes_left = CHANGED_BYTES_PER_CALL_MAX;
        let used = self.use_of(&command);
        self.carry_out(request, command);
        if self.state.ended {
            return;
        }
        self.note_use(&used);
        while let Some(queue) = self.state.next_touched() {
            self.process_queue(queue);
            self.state.mark_processed(queue);
        }
        self.store_tombstones();
    }

    /// Carries out the command and nothing else.
    pub(super) fn run_prepared(&mut self, request: RequestId, command: Command) {
        // What was prepared must succeed.
        self.rewritten_bytes_left = usize::MAX;
        let used = self.use_of(&command);
        self.carry_out(Some(request), command);
        self.note_use(&used);
    }

    fn carry_out(&mut self, request: Option<RequestId>, command: Command) {
        if let Some(receiver) = command.session_holder() {
            self.end_late_lock_of(receiver);
        }
        match command {
            Command::Send { messages } => self.send(request, messages),
            Command::SendEach { messages } => self.send_each(request, messages),
            Command::CancelScheduled { numbers } => self.cancel_scheduled(request, &numbers),
            Command::OpenReceiver { receiver, options, session } => {
                self.open_receiver(request, receiver, options, session);
            }
            Command::Watch { watcher, queue, sends } => self.watch(watcher, queue, sends),
            Command::Select { receiver } => self.select(receiver),
            Command::Examined { receiver, matching } => self.examined(receiver, matching),
            Command::Credit { receiver, limit, drain } => self.set_credit(receiver, limit, drain),
            Command::CloseReceiver { receiver } => self.close_receiver(receiver),
            Command::Settle { queue, tokens, settlement } => {
                self.settle(request, queue, &tokens, &settlement);
            }
            Command::RenewLocks { queue, tokens } => self.renew_locks(request, queue, &tokens),
            Command::ReceiveDeferred { numbers, source, mode, receiver, bytes_max } => {
                self.receive_deferred(request, &numbers, (source, receiver), mode, bytes_max);
            }
            Command::Peek { from, count_max, bytes_max, source, session } => {
                self.peek(request, from, count_max, bytes_max, source, session);
            }
            Command::DeleteMessages { source, count_max, enqueued_until, receiver } => {
                self.delete_messages(request, source, count_max, enqueued_until, receiver);
            }
            Command::List { source, listing, top } => self.list(request, source, listing, top),
            Command::ActOnMessages { source, numbers, action } => {
                self.act_on_messages(request, source, &numbers, &action);
            }
            Command::RenewSessionLock { receiver } => self.renew_session_lock(request, receiver),
            Command::GetSessionState { receiver } => self.get_session_state(request, receiver),
            Command::SetSessionState { receiver, state } => {
                self.set_session_state(request, receiver, state);
            }
            Command::ListSessions { queue, updated_since, skip, top } => {
                self.list_sessions(request, queue, updated_since, skip, top);
            }
            Command::DeclareSubscription { intent, queue, name, options, rules } => {
                let declared = self.declare_subscription(intent, queue, name, options, rules);
                self.reply(request, Reply::Done(declared));
            }
            Command::DeleteSubscription { queue } => self.delete_subscription(request, queue),
            Command::AddRule { queue, rule } => self.add_rule(request, queue, rule),
            Command::ReplaceRule { queue, rule } => self.replace_rule(request, queue, rule),
            Command::RemoveRule { queue, name } => self.remove_rule(request, queue, name),
            Command::ListRules { queue, skip, top } => self.list_rules(request, queue, skip, top),
            Command::KeepUndelivered { messages, why } => self.keep_undelivered(request, messages, &why),
            Command::Provisional(command) => self.provisional(request, &command),
            Command::Quarantine { queue, number, assigned, receiver } => {
                self.quarantine(queue, number, assigned, receiver);
            }
            Command::ChangeOptions { options } => self.change_options(request, options),
            Command::EndEntity => self.end_on_request(request),
            Command::Tick => {}
        }
    }

    /// Processes a queue after a change: expiry, deliveries, ends of drains.
    fn process_queue(&mut self, queue: QueueId) {
        self.detach_receivers(queue);
        let is_plain = |queue: &Queue| queue.sessions.is_none() && queue.receivers.are_quiet();
        if self.state.queue(queue).is_some_and(is_plain) {
            return self.update_idle_timer(queue);
        }
        if self.sessions(queue).is_some() {
            self.process_sessions(queue);
            if self.state.queue(queue).is_some_and(|queue| queue.forwarders.get(SubQueue::Main).is_some()) {
                self.dispatch(QueuePath::main(queue));
            }
        } else {
            self.sweep_expired(queue);
            self.dispatch(QueuePath::main(queue));
        }
        for sub_queue in [SubQueue::DeadLetter, SubQueue::TransferDeadLetter] {
            self.dispatch(QueuePath { queue, sub_queue });
        }
        self.dispatch_selected(queue);
        self.finish_drains(queue);
        self.update_idle_timer(queue);
    }

    /// The rules for a queue's messages; those of the entity if the queue is deleted.
    pub(super) fn policy(&self, queue: QueueId) -> Arc<Policy> {
        Arc::clone(&self.state.queue(queue).unwrap_or(&self.state.entity).policy)
    }

    /// The state for reading, with the randomness and the outputs for deciding.
    pub(super) const fn parts(&mut self) -> (&State, &mut dyn Rng, &mut Outputs) {
        (self.state, self.random, self.outputs)
    }

    /// Takes the receivers with a selector that changes of a queue concern: bookkeeping, like that of touched queues.
    pub(super) fn take_selections(&mut self, queue: QueueId) -> Vec<ReceiverId> {
        self.state.take_selections(queue)
    }

    /// The state for reading.
    pub(super) const fn state(&self) -> &State {
        self.state
    }

    /// Marks the queues with a due timer, so that they are processed after the command. Expired session locks and idle
    /// entities end before it.
    pub(super) fn touch_due_queues(&mut self) {
        for queue in self.state.touch_due(self.now) {
            self.free_held_back(queue);
            self.fire_session_timers(queue);
            self.update_idle_timer(queue);
        }
    }

    /// Emits an event: the only way in which deciding code changes the state.
    pub(super) fn emit(&mut self, event: Event) {
        self.state.apply(&event);
        self.outputs.events.push(event);
    }

    /// Counts the variable parts of a record that a timer writes.
    pub(super) fn count_timer_bytes(&mut self, record: &Record) {
        let bytes = record.variable_bytes();
        self.timer_bytes_left = self.timer_bytes_left.saturating_sub(bytes);
        self.outputs.uncounted_bytes += bytes;
    }

    /// Adds an effect.
    pub(super) fn effect(&mut self, effect: Effect) {
        self.outputs.effects.push(effect);
    }

    /// Answers a request, if an answer is expected.
    pub(super) fn reply(&mut self, request: Option<RequestId>, reply: Reply) {
        if let Some(request) = request {
            self.effect(Effect::Reply { request, reply });
        }
    }

    /// Draws the token of a new lock.
    pub(super) fn new_token(&mut self) -> LockToken {
        LockToken(u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64()))
    }
}
