//! One call of [`super::Partition::handle`]: what deciding code may see and do.

use rand::Rng;

use super::Outputs;
use super::reasons::Reasons;
use super::state::State;
use crate::{Command, Effect, Event, LockToken, QueueOptions, Reply, RequestId, SubQueue, Timestamp};

/// Locks ended and messages activated in one call; what is left over follows in the next.
pub(super) const TIMERS_PER_CALL_MAX: usize = 1024;
/// Messages expired in one call, not counting those whose lock ended; what is left over follows in the next.
pub(super) const EXPIRIES_PER_CALL_MAX: usize = 1024;

/// What is at hand while one command is handled.
pub(super) struct Step<'a> {
    /// Now.
    pub(super) now: Timestamp,
    /// The queue's options.
    pub(super) options: &'a QueueOptions,
    /// Why the broker itself dead-letters messages.
    pub(super) reasons: &'a Reasons,
    /// Messages that may still expire in this call.
    pub(super) expiries_left: usize,
    state: &'a mut State,
    random: &'a mut dyn Rng,
    outputs: &'a mut Outputs,
}

impl<'a> Step<'a> {
    /// Gets ready for one command.
    pub(super) fn new(
        now: Timestamp,
        options: &'a QueueOptions,
        reasons: &'a Reasons,
        state: &'a mut State,
        random: &'a mut dyn Rng,
        outputs: &'a mut Outputs,
    ) -> Self {
        let expiries_left = EXPIRIES_PER_CALL_MAX;
        Self { now, options, reasons, expiries_left, state, random, outputs }
    }

    /// Fires what is due, carries out the command, serves receivers.
    pub(super) fn run(&mut self, request: Option<RequestId>, command: Command) {
        self.fire_due_timers();
        match command {
            Command::Send { messages } => self.send(request, messages),
            Command::CancelScheduled { numbers } => self.cancel_scheduled(request, &numbers),
            Command::OpenReceiver { receiver, options } => self.open_receiver(request, receiver, options),
            Command::Credit { receiver, limit, drain } => self.set_credit(receiver, limit, drain),
            Command::CloseReceiver { receiver } => self.close_receiver(receiver),
            Command::Settle { tokens, settlement } => self.settle(request, &tokens, &settlement),
            Command::RenewLocks { tokens } => self.renew_locks(request, &tokens),
            Command::ReceiveDeferred { numbers, sub_queue, mode } => {
                self.receive_deferred(request, &numbers, sub_queue, mode);
            }
            Command::Peek { from, count_max, bytes_max, sub_queue } => {
                self.peek(request, from, count_max, bytes_max, sub_queue);
            }
            Command::Tick => {}
        }
        self.sweep_expired();
        for sub_queue in [SubQueue::Main, SubQueue::DeadLetter, SubQueue::TransferDeadLetter] {
            self.dispatch(sub_queue);
        }
        self.finish_drains();
    }

    /// The state, to decide by.
    pub(super) const fn state(&self) -> &State {
        self.state
    }

    /// Makes a fact: the only way in which deciding code changes the state.
    pub(super) fn emit(&mut self, event: Event) {
        self.state.apply(&event);
        self.outputs.events.push(event);
    }

    /// Asks for something outside.
    pub(super) fn effect(&mut self, effect: Effect) {
        self.outputs.effects.push(effect);
    }

    /// Answers whoever waits for it.
    pub(super) fn reply(&mut self, request: Option<RequestId>, reply: Reply) {
        if let Some(request) = request {
            self.effect(Effect::Reply { request, reply });
        }
    }

    /// A name for a new lock.
    pub(super) fn new_token(&mut self) -> LockToken {
        LockToken(u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64()))
    }
}
