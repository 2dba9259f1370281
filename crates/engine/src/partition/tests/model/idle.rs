//! AutoDeleteOnIdle in the model (S-25…S-32, semantics §17).

use super::queue::{Queue, Receiver};
use super::{ENTITY, Model, Rule};
use crate::{Command, Effect, End, QueueId, ReceiverId, Refusal};

/// A use is stored when the stored one is older than a quarter of the idle time, or a minute.
const STORED_EVERY_MS_MAX: u64 = 60_000;

impl Queue {
    pub(super) fn use_it(&mut self, turn: &super::Turn) {
        let Some(idle_ms) = self.options.auto_delete_on_idle_ms else { return };
        self.used_at = turn.now;
        let step_ms = (idle_ms / 4 + 1).min(STORED_EVERY_MS_MAX);
        if self.used_at_stored + step_ms <= turn.now || turn.breaks(Rule::UseIsStoredCoarsely) {
            self.used_at_stored = turn.now;
        }
    }

    fn is_over(&self, turn: &super::Turn) -> bool {
        let grace_ms = u64::from(turn.breaks(Rule::IdlenessEndsItAtItsInstant));
        let idle_ms = self.options.auto_delete_on_idle_ms;
        idle_ms.is_some_and(|idle_ms| self.used_at + idle_ms + grace_ms <= turn.now)
    }
}

impl Model {
    /// The entity that a command uses, whether or not it is refused.
    pub(super) fn use_of(&self, command: &Command) -> Option<QueueId> {
        let used = self.named_by(command);
        // Commands that send to the topic itself are use of it; others read its own messages.
        let reads = !matches!(
            command,
            Command::Send { .. }
                | Command::SendEach { .. }
                | Command::KeepUndelivered { .. }
                | Command::CancelScheduled { .. }
                | Command::DeleteSubscription { .. }
        );
        used.filter(|queue| !(reads && self.is_read_only(*queue)))
    }

    /// Whether operations on a queue are no use of it: it is the topic, of which clients can only read.
    fn is_read_only(&self, queue: QueueId) -> bool {
        self.is_topic() && queue.0 == ENTITY && self.turn.keeps(Rule::ReadingIsNoUseOfATopic)
    }

    /// The entity that a command names.
    fn named_by(&self, command: &Command) -> Option<QueueId> {
        let turn = &self.turn;
        match command {
            Command::Send { .. }
            | Command::SendEach { .. }
            | Command::KeepUndelivered { .. }
            | Command::CancelScheduled { .. }
            | Command::DeleteSubscription { .. } => Some(QueueId(ENTITY)),
            Command::Peek { source, .. } => Some(source.queue).filter(|_| turn.keeps(Rule::PeekingIsUse)),
            Command::ReceiveDeferred { source, .. }
            | Command::DeleteMessages { source, .. }
            | Command::ActOnMessages { source, .. } => Some(source.queue),
            Command::Settle { queue, .. } | Command::RenewLocks { queue, .. } => {
                Some(*queue).filter(|_| turn.keeps(Rule::SettlingIsUse))
            }
            Command::AddRule { queue, .. }
            | Command::ReplaceRule { queue, .. }
            | Command::RemoveRule { queue, .. } => {
                Some(*queue).filter(|_| turn.keeps(Rule::ChangingRulesIsUse))
            }
            Command::DeclareSubscription { queue, name, .. } => {
                Some(self.declared(*queue, name)).filter(|_| turn.keeps(Rule::AnUpdateIsUse))
            }
            Command::Credit { receiver, .. }
            | Command::RenewSessionLock { receiver }
            | Command::GetSessionState { receiver }
            | Command::SetSessionState { receiver, .. } => self.home(*receiver),
            Command::OpenReceiver { options, .. } => {
                Some(options.source.queue).filter(|_| turn.breaks(Rule::AttachingIsNoUse))
            }
            Command::ListSessions { queue, .. } | Command::ListRules { queue, .. } => {
                Some(*queue).filter(|_| turn.breaks(Rule::ListingIsNoUse))
            }
            Command::Watch { .. }
            | Command::Select { .. }
            | Command::Examined { .. }
            | Command::CloseReceiver { .. }
            | Command::ChangeOptions { .. }
            | Command::EndEntity
            | Command::Provisional(_)
            | Command::Quarantine { .. }
            | Command::List { .. }
            | Command::Tick => None,
        }
    }

    /// Use of a subscription counts for its topic as well (S-31).
    pub(super) fn use_queue(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id.0) {
            queue.use_it(&self.turn);
        }
        if id.0 != ENTITY && self.turn.keeps(Rule::SubscriptionsKeepTheirTopic) {
            self.queues.get_mut(&ENTITY).unwrap().use_it(&self.turn);
        }
    }

    /// Whether it counts as used permanently: a receiver is listening, or messages are scheduled.
    fn is_in_use(&self, queue: &Queue) -> bool {
        let is_listened_to = queue.receivers.values().any(Receiver::has_credit) || !queue.waiters.is_empty();
        let is_scheduled = queue.messages.values().any(|message| message.scheduled_for.is_some());
        (is_listened_to && self.turn.keeps(Rule::AListenerIsUse) && !self.is_read_only(queue.id))
            || (is_scheduled && self.turn.keeps(Rule::ScheduledMessagesAreUse))
    }

    /// Records use of all entities in use, until now.
    pub(super) fn use_entities_in_use(&mut self) {
        let in_use: Vec<_> =
            self.queues.values().filter(|queue| self.is_in_use(queue)).map(|queue| queue.id).collect();
        for id in in_use {
            self.use_queue(id);
        }
    }

    /// Records use of new entities, and of those with new options, from the next command on.
    pub(super) fn use_new_entities(&mut self) {
        let is_new = |queue: &&Queue| queue.used_at == 0 && queue.options.auto_delete_on_idle_ms.is_some();
        let new: Vec<_> = self.queues.values().filter(is_new).map(|queue| queue.id).collect();
        for id in new {
            self.use_queue(id);
        }
    }

    /// Ends idle subscriptions, or an idle topic with its subscriptions.
    pub(super) fn delete_idle_entities(&mut self) {
        let over = |queue: &&Queue| queue.is_over(&self.turn);
        let ids: Vec<_> = self.queues.values().filter(over).map(|queue| queue.id).collect();
        if ids.contains(&QueueId(ENTITY)) {
            return self.end_all(End::Idle);
        }
        for id in ids {
            self.end(id);
        }
    }

    /// Ends the entity with everything in it.
    pub(super) fn end_all(&mut self, end: End) {
        for id in self.queues.keys().copied().collect::<Vec<_>>() {
            self.tell_attached(QueueId(id));
        }
        self.turn.effects.push(Effect::Ended(end));
        self.ended = true;
    }

    /// Ends a subscription with everything in it.
    pub(super) fn end(&mut self, id: QueueId) {
        self.tell_attached(id);
        self.queues.remove(&id.0);
        self.subscriptions.remove(&id.0);
    }

    fn tell_attached(&mut self, id: QueueId) {
        let queue = self.queues.get_mut(&id.0).unwrap();
        queue.refuse_waiters(&mut self.turn, &Refusal::EntityDeleted);
        let watching = self.watchers.iter().filter(|(_, watched)| **watched == id.0).map(|(id, _)| *id);
        let watching = watching.filter(|_| self.turn.keeps(Rule::WatchersAreTold)).collect::<Vec<_>>();
        for receiver in queue.receivers.keys().copied().chain(watching) {
            let (receiver, refusal) = (ReceiverId(receiver), Refusal::EntityDeleted);
            self.turn.effects.push(Effect::ReceiverClosed { receiver, refusal });
        }
        queue.receivers.clear();
        self.watchers.retain(|_, watched| *watched != id.0);
    }
}
