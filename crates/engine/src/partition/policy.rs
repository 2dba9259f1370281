//! The rules for the messages of a queue or subscription, derived from its options.

use super::reasons::Reasons;
use crate::{EntityOptions, EntityStatus, SubQueue, SubscriptionOptions};

/// The common options of queues and subscriptions. For a topic, whose own messages are scheduled or transfer dead letters, few
/// of them matter.
#[derive(Debug)]
pub(super) struct Policy {
    /// Duration of a lock.
    pub(super) lock_duration_ms: u64,
    /// Maximum delivery count.
    pub(super) max_delivery_count: u32,
    /// Default and maximum of the effective time to live.
    pub(super) default_message_time_to_live_ms: Option<u64>,
    /// Whether expired messages are dead-lettered.
    pub(super) dead_lettering_on_message_expiration: bool,
    /// Whether messages belong to sessions.
    pub(super) requires_session: bool,
    /// Effective idle time after which it is deleted.
    pub(super) auto_delete_on_idle_ms: Option<u64>,
    /// Whether a listening receiver counts as use; in a topic, one of its transfer dead letters does not (S-31).
    pub(super) is_used_by_listening: bool,
    /// Whether sending and receiving are allowed.
    pub(super) status: EntityStatus,
    /// Whether its messages are forwarded to another entity.
    pub(super) forwards: bool,
    /// Whether its dead letters are forwarded.
    pub(super) forwards_dead_letters: bool,
    /// Duplicate detection window; 0 without duplicate detection.
    pub(super) duplicate_detection_history_time_window_ms: u64,
    /// Reasons with which the broker itself dead-letters messages.
    pub(super) reasons: Reasons,
}

impl From<&EntityOptions> for Policy {
    fn from(options: &EntityOptions) -> Self {
        match options {
            EntityOptions::Queue(queue) => Self {
                lock_duration_ms: queue.lock_duration_ms,
                max_delivery_count: queue.max_delivery_count,
                default_message_time_to_live_ms: queue
                    .forwarding
                    .life_in_effect_ms(queue.default_message_time_to_live_ms),
                dead_lettering_on_message_expiration: queue.dead_lettering_on_message_expiration,
                requires_session: queue.requires_session,
                status: queue.status,
                auto_delete_on_idle_ms: queue.forwarding.idle_in_effect_ms(queue.auto_delete_on_idle_ms),
                is_used_by_listening: true,
                forwards: queue.forwarding.forward_to.is_some(),
                forwards_dead_letters: queue.forwarding.forward_dead_lettered_messages_to.is_some(),
                duplicate_detection_history_time_window_ms: queue.duplicate_detection_history_time_window_ms,
                reasons: Reasons::new(queue.max_delivery_count),
            },
            EntityOptions::Topic(topic) => Self {
                default_message_time_to_live_ms: topic.default_message_time_to_live_ms,
                auto_delete_on_idle_ms: topic.auto_delete_on_idle_ms,
                is_used_by_listening: false,
                status: topic.status,
                duplicate_detection_history_time_window_ms: topic.duplicate_detection_history_time_window_ms,
                ..Self::from(&SubscriptionOptions::default())
            },
        }
    }
}

impl From<&SubscriptionOptions> for Policy {
    fn from(options: &SubscriptionOptions) -> Self {
        Self {
            lock_duration_ms: options.lock_duration_ms,
            max_delivery_count: options.max_delivery_count,
            default_message_time_to_live_ms: options
                .forwarding
                .life_in_effect_ms(options.default_message_time_to_live_ms),
            dead_lettering_on_message_expiration: options.dead_lettering_on_message_expiration,
            requires_session: options.requires_session,
            status: options.status,
            auto_delete_on_idle_ms: options.forwarding.idle_in_effect_ms(options.auto_delete_on_idle_ms),
            is_used_by_listening: true,
            forwards: options.forwarding.forward_to.is_some(),
            forwards_dead_letters: options.forwarding.forward_dead_lettered_messages_to.is_some(),
            duplicate_detection_history_time_window_ms: 0,
            reasons: Reasons::new(options.max_delivery_count),
        }
    }
}

impl Policy {
    /// Whether messages of a sub-queue are forwarded.
    pub(super) const fn forwards(&self, sub_queue: SubQueue) -> bool {
        match sub_queue {
            SubQueue::Main => self.forwards,
            SubQueue::DeadLetter => self.forwards_dead_letters,
            SubQueue::TransferDeadLetter => false,
        }
    }

    /// Whether any messages are forwarded.
    pub(super) const fn is_forwarding(&self) -> bool {
        self.forwards || self.forwards_dead_letters
    }

    /// The requested time to live, limited by the default (S-12, S-13).
    pub(super) fn effective_time_to_live_ms(&self, asked_ms: Option<u64>) -> Option<u64> {
        asked_ms.into_iter().chain(self.default_message_time_to_live_ms).min()
    }
}
