//! The durable properties of one stored message, packed small because there are millions of them.

use std::sync::Arc;

use super::properties::variable_bytes;
use crate::{
    BodyRef, DeadLetter, Forwarded, KeyPartition, MessageState, MessageView, Origin, Properties,
    PropertyChanges, QueueId, RuleProperties, SequenceNumber, SessionId, SubQueue, Timestamp,
};

/// Encodes "no limit" in a packed time to live.
const NO_LIMIT_MS: u64 = u64::MAX;
/// Low bits of [`Record::packed`] for the place: two for the sub-queue, two for the state.
const PLACE_BITS: u32 = 4;
/// The next bits, for the partition of a partitioned entity.
const PARTITION_BITS: u32 = 4;
/// The bits above all of these hold the delivery count.
const COUNT_SHIFT: u32 = PLACE_BITS + PARTITION_BITS;
/// Maximum delivery count that is stored (24 bits).
const DELIVERY_COUNT_MAX: u32 = u32::MAX >> COUNT_SHIFT;
const _: () = assert!(KeyPartition::COUNT == 1 << PARTITION_BITS);

/// The durable properties of one message except its number and its body: 32 bytes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    enqueued_at: Timestamp,
    time_to_live_ms: u64,
    extra: Option<Arc<Extra>>,
    content_bytes: u32,
    packed: u32,
}

/// Optional fields that few messages have. Shared between messages with equal values.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Extra {
    /// Properties changed by receivers.
    pub(crate) modified: Option<Arc<Properties>>,
    /// Set when it was dead-lettered.
    pub(crate) dead_letter: Option<Arc<DeadLetter>>,
    /// When a scheduled message becomes available; cleared at activation.
    pub(crate) scheduled_enqueue_time: Option<Timestamp>,
    /// As sent; ignored in an entity without sessions.
    pub(crate) session_id: Option<SessionId>,
    /// The body's number, if it differs from the message's.
    pub(crate) body: Option<BodyRef>,
    /// Length of its header as sent, if large enough to matter when receivers change properties.
    pub(crate) header_bytes: u32,
    /// The properties for the rules, for a message scheduled on a topic.
    pub(crate) rule_properties: Option<Arc<RuleProperties>>,
    /// Forwarding information, if it was forwarded.
    pub(crate) forwarded: Option<Arc<Forwarded>>,
    /// Changes made by the action of a rule.
    pub(crate) changes: Option<Arc<PropertyChanges>>,
    /// Time until which it is held back, because it was abandoned with a delay.
    pub(crate) held_until: Option<Timestamp>,
}

impl Extra {
    /// Sets the fields that a forwarded message brings from its source.
    pub(crate) fn set_forwarding_fields(&mut self, origin: Origin) {
        self.changes = origin.changes;
        self.modified = origin.modified;
        self.dead_letter = origin.dead_letter;
        self.forwarded = Some(origin.forwarded);
    }
}

impl Record {
    /// An active message of the main queue, never delivered.
    pub(crate) fn new(enqueued_at: Timestamp, time_to_live_ms: Option<u64>, content_bytes: u32) -> Self {
        Self {
            enqueued_at,
            time_to_live_ms: time_to_live_ms.unwrap_or(NO_LIMIT_MS),
            extra: None,
            content_bytes,
            packed: 0,
        }
    }

    /// When it was accepted, or activated if it had been scheduled (S-9).
    pub(crate) const fn enqueued_at(&self) -> Timestamp {
        self.enqueued_at
    }

    /// Corrects the time of acceptance; the expiry moves with it.
    pub(crate) const fn set_enqueued_at(&mut self, at: Timestamp) {
        self.enqueued_at = at;
    }

    /// Effective time to live in milliseconds, `None` for no limit.
    pub(crate) fn time_to_live_ms(&self) -> Option<u64> {
        (self.time_to_live_ms != NO_LIMIT_MS).then_some(self.time_to_live_ms)
    }

    /// When it expires (S-2); the life of a scheduled message starts when it becomes available (S-9).
    pub(crate) fn expires_at(&self) -> Timestamp {
        self.scheduled_enqueue_time().unwrap_or(self.enqueued_at).plus_ms(self.time_to_live_ms)
    }

    /// When it must be removed as expired: only active messages of the main queue expire by themselves, never deferred
    /// (S-36), scheduled (S-9) and dead-lettered ones.
    pub(crate) fn expiry(&self) -> Timestamp {
        if self.packed & ((1 << PLACE_BITS) - 1) == 0 {
            self.enqueued_at.plus_ms(self.time_to_live_ms)
        } else {
            Timestamp::NEVER
        }
    }

    /// Length of its body.
    pub(crate) const fn content_bytes(&self) -> u32 {
        self.content_bytes
    }

    /// Failed deliveries so far.
    pub(crate) const fn delivery_count(&self) -> u32 {
        self.packed >> COUNT_SHIFT
    }

    /// The sub-queue that contains it.
    pub(crate) const fn sub_queue(&self) -> SubQueue {
        match (self.packed >> 2) & 3 {
            0 => SubQueue::Main,
            1 => SubQueue::DeadLetter,
            _ => SubQueue::TransferDeadLetter,
        }
    }

    /// Active, deferred or scheduled.
    pub(crate) const fn state(&self) -> MessageState {
        match self.packed & 3 {
            0 => MessageState::Active,
            1 => MessageState::Deferred,
            _ => MessageState::Scheduled,
        }
    }

    /// The optional fields, if it has any.
    pub(crate) const fn extra(&self) -> Option<&Arc<Extra>> {
        self.extra.as_ref()
    }

    /// When a scheduled message becomes available.
    pub(crate) fn scheduled_enqueue_time(&self) -> Option<Timestamp> {
        self.extra.as_ref()?.scheduled_enqueue_time
    }

    /// Time until which it is held back.
    pub(super) fn held_until(&self) -> Option<Timestamp> {
        self.extra.as_ref()?.held_until
    }

    /// Holds it back until a time, or with `None` no longer.
    pub(super) fn hold_back(&mut self, until: Option<Timestamp>) {
        if self.held_until() != until {
            self.edit_extra(|extra| extra.held_until = until);
        }
    }

    /// Whether it is not delivered to receivers: it is deferred, scheduled or held back.
    pub(super) fn is_aside(&self) -> bool {
        self.state() != MessageState::Active || self.held_until().is_some()
    }

    /// The session it was sent to.
    pub(crate) fn session_id(&self) -> Option<&SessionId> {
        self.extra.as_ref()?.session_id.as_ref()
    }

    /// Whether it was sent to this session, regardless of the spelling.
    pub(crate) fn is_of_session(&self, session: &SessionId) -> bool {
        self.session_id().is_some_and(|id| id.is_same_session(session))
    }

    /// Properties changed by receivers.
    pub(crate) fn modified(&self) -> Option<&Arc<Properties>> {
        self.extra.as_ref()?.modified.as_ref()
    }

    /// The body of the message with this number.
    pub(crate) fn body(&self, number: SequenceNumber) -> BodyRef {
        self.extra.as_ref().and_then(|extra| extra.body).unwrap_or(BodyRef(number.0))
    }

    /// The view of the message with this number for readers.
    pub(crate) fn view(&self, queue: QueueId, number: SequenceNumber) -> MessageView {
        let extra = self.extra.as_deref();
        MessageView {
            queue,
            sequence_number: number,
            partition: self.partition(),
            enqueued_at: self.enqueued_at,
            expires_at: self.expires_at(),
            time_to_live_ms: self.time_to_live_ms(),
            delivery_count: self.delivery_count(),
            state: self.state(),
            sub_queue: self.sub_queue(),
            dead_letter: extra.and_then(|extra| extra.dead_letter.clone()),
            changes: extra.and_then(|extra| extra.changes.clone()),
            modified: extra.and_then(|extra| extra.modified.clone()),
            forwarded: extra.and_then(|extra| extra.forwarded.clone()),
            body: self.body(number),
            content_bytes: self.content_bytes(),
        }
    }

    /// Size in bytes of its variable parts in the store.
    pub(super) fn variable_bytes(&self) -> usize {
        self.extra.as_deref().map_or(0, variable_bytes)
    }

    /// Sets its sub-queue and state.
    pub(crate) fn set_place(&mut self, sub_queue: SubQueue, state: MessageState) {
        let sub_queue = match sub_queue {
            SubQueue::Main => 0,
            SubQueue::DeadLetter => 1,
            SubQueue::TransferDeadLetter => 2,
        };
        let state = match state {
            MessageState::Active => 0,
            MessageState::Deferred => 1,
            MessageState::Scheduled => 2,
        };
        self.packed = self.packed & !((1 << PLACE_BITS) - 1) | sub_queue << 2 | state;
    }

    /// Sets the number of failed deliveries, at most 2^24 - 1.
    pub(crate) fn set_delivery_count(&mut self, count: u32) {
        let others = self.packed & ((1 << COUNT_SHIFT) - 1);
        self.packed = count.min(DELIVERY_COUNT_MAX) << COUNT_SHIFT | others;
    }

    /// Its partition in a partitioned entity; the first one otherwise.
    pub(crate) fn partition(&self) -> KeyPartition {
        // Four bits encode one of 16.
        let index = (self.packed >> PLACE_BITS & ((1 << PARTITION_BITS) - 1)) as u8;
        KeyPartition::new(index).unwrap_or_default()
    }

    /// Assigns it to a partition.
    pub(crate) fn set_partition(&mut self, partition: KeyPartition) {
        let others = self.packed & !(((1 << PARTITION_BITS) - 1) << PLACE_BITS);
        self.packed = others | u32::from(partition.index()) << PLACE_BITS;
    }

    /// Counts one more failed delivery.
    pub(crate) fn count_failed_delivery(&mut self) {
        self.set_delivery_count(self.delivery_count().saturating_add(1));
    }

    /// Starts its life again, as at activation.
    pub(crate) fn restart(&mut self, enqueued_at: Timestamp, time_to_live_ms: Option<u64>) {
        self.enqueued_at = enqueued_at;
        self.time_to_live_ms = time_to_live_ms.unwrap_or(NO_LIMIT_MS);
    }

    /// Replaces the optional fields.
    pub(crate) fn set_extra(&mut self, extra: Option<Arc<Extra>>) {
        self.extra = extra;
    }

    /// Changes the optional fields of this message only.
    pub(crate) fn edit_extra(&mut self, edit: impl FnOnce(&mut Extra)) {
        let mut extra = self.extra.as_deref().cloned().unwrap_or_default();
        edit(&mut extra);
        self.extra = (extra != Extra::default()).then(|| Arc::new(extra));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_32_bytes() {
        assert_eq!(size_of::<Record>(), 32);
    }

    #[test]
    fn count_place_and_partition_do_not_disturb_each_other() {
        let states = [MessageState::Active, MessageState::Deferred, MessageState::Scheduled];
        for sub_queue in SubQueue::ALL {
            for state in states {
                let mut record = Record::new(Timestamp(1), None, 0);
                let partition = KeyPartition::new(13).unwrap();
                record.set_partition(partition);
                record.set_place(sub_queue, state);
                record.set_delivery_count(u32::MAX);
                record.count_failed_delivery();
                assert_eq!((record.sub_queue(), record.state()), (sub_queue, state));
                assert_eq!(record.partition(), partition);
                assert_eq!(record.delivery_count(), DELIVERY_COUNT_MAX);
                record.set_delivery_count(0);
                record.count_failed_delivery();
                assert_eq!((record.sub_queue(), record.state()), (sub_queue, state));
                assert_eq!(record.delivery_count(), 1);
                record.set_partition(KeyPartition::default());
                assert_eq!((record.sub_queue(), record.state()), (sub_queue, state));
                assert_eq!((record.delivery_count(), record.partition().index()), (1, 0));
            }
        }
    }

    #[test]
    fn a_time_to_live_beyond_the_end_of_time_is_no_limit() {
        let record = Record::new(Timestamp(5), Some(u64::MAX), 0);
        assert_eq!(record.time_to_live_ms(), None);
        assert_eq!(record.expires_at(), Timestamp::NEVER);
        assert_eq!(Record::new(Timestamp(5), Some(u64::MAX - 1), 0).expires_at(), Timestamp::NEVER);
    }
}
