//! Store → state: the inverse of [`super::persist()`].

use std::sync::Arc;

use bytes::Bytes;
use peeklock_storage::Entry;

use super::RestoreError;
use super::credible::Credible;
use super::record::{Extra, Record};
use super::state::State;
use crate::layout::{HeadSubject, META_FIRST, MetaSubject};
use crate::stored::{read_counters, read_head, read_last_use, read_tombstone};
use crate::{EntityOptions, QueueId, SequenceNumber, Timestamp};

/// Number of recent [`Extra`]s kept for sharing.
const SHARED_EXTRAS_MAX: usize = 8;

impl State {
    /// Rebuilds the durable part of the entity from the values stored in its partition.
    pub(super) fn restore(
        id: QueueId,
        options: Arc<EntityOptions>,
        credible: Credible,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        let mut state = Self::new(id, options);
        state.credible = credible;
        state.restore_queue(id, meta, head)?;
        Ok(state)
    }

    /// Rebuilds a queue or subscription from the values stored in its partition.
    pub(super) fn restore_queue(
        &mut self,
        id: QueueId,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<(), RestoreError> {
        let mut next_number = SequenceNumber(1);
        let mut used_at = Timestamp::default();
        for Entry { number, value } in meta {
            match MetaSubject::of(number) {
                _ if number < META_FIRST => {}
                MetaSubject::Counters => {
                    next_number = read_counters(&value).map_err(|reason| bad("Meta", number, reason))?;
                }
                MetaSubject::LastUse => {
                    used_at = read_last_use(&value).map_err(|reason| bad("Meta", number, reason))?;
                }
                MetaSubject::Subscription(subscription) if id == self.entity.id && self.topic.is_some() => {
                    self.restore_subscription_record(subscription, number, &value)?;
                }
                _ => return Err(bad("Meta", number, "the number is unknown".to_owned())),
            }
        }
        let mut shared = SharedExtras::default();
        let mut before = Timestamp::default();
        for Entry { number, value } in head {
            if let Err(reason) = self.restore_head(id, number, &value, &mut shared, &mut before) {
                self.quarantine_stored(id, number);
                self.unread.push(UnreadRecord { queue: id, number, reason });
            }
        }
        let used_at = self.restored_instant(used_at);
        if let Some(queue) = self.queue_mut(id) {
            queue.next_number = queue.next_number.max(next_number);
            queue.used_at = used_at;
            queue.used_at_stored = used_at;
        }
        self.mark_processed(id);
        Ok(())
    }

    /// Restores a `Head` value. A message number beyond the counters is accepted and counts as used: that happens if the
    /// counters were lost, and an existing message takes precedence.
    fn restore_head(
        &mut self,
        id: QueueId,
        number: u64,
        value: &Bytes,
        shared: &mut SharedExtras,
        before: &mut Timestamp,
    ) -> Result<(), String> {
        let message = match HeadSubject::of(number) {
            HeadSubject::SessionState(_) => return self.restore_session_state(id, number, value),
            HeadSubject::RememberedId(number) => return self.restore_remembered(id, number, value),
            HeadSubject::Message(number) => number,
        };
        if let Some((body, content_bytes)) = read_tombstone(value)? {
            self.refer(body, 1, content_bytes);
            self.tombstones.insert((id, message), (body, content_bytes));
            return Ok(());
        }
        let mut record = read_head(value)?;
        record.set_enqueued_at(self.restored_enqueued_at(record.enqueued_at(), before));
        if let Some(reason) = self.misplaced(id, &record) {
            return Err(reason);
        }
        shared.share(&mut record);
        self.share_extra(&mut record);
        if let Some(queue) = self.queue(id) {
            queue.admit_restored(&mut record)?;
        }
        self.refer(record.body(message), 1, record.content_bytes());
        self.insert(id, message, record);
        Ok(())
    }

    /// Records that the value at a `Head` number can't be read: a message is quarantined.
    pub(super) fn quarantine_stored(&mut self, id: QueueId, number: u64) {
        let Some(queue) = self.queue_mut(id) else { return };
        match HeadSubject::of(number) {
            HeadSubject::Message(number) => {
                queue.next_number = queue.next_number.max(SequenceNumber(number.0.saturating_add(1)));
                queue.quarantined.insert(number, None);
            }
            HeadSubject::SessionState(index) => {
                // The next new state must not get the number of the damaged one.
                if let Some(sessions) = &mut queue.sessions {
                    sessions.index_taken(index);
                }
            }
            HeadSubject::RememberedId(_) => return,
        }
        self.mark_processed(id);
    }
}

/// A record of one message, session state or remembered id that can't be decoded. Other records are unaffected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadRecord {
    /// The queue or subscription.
    pub queue: QueueId,
    /// The number of its key.
    pub number: u64,
    /// A description of the fault.
    pub reason: String,
}

pub(super) fn bad(space: &'static str, number: u64, reason: String) -> RestoreError {
    RestoreError { number, reason: format!("{space}: {reason}") }
}

/// Recent optional fields, so that a million messages dead-lettered for one reason share them as before the restart.
#[derive(Default)]
struct SharedExtras {
    recent: Vec<Arc<Extra>>,
    replace_next: usize,
}

impl SharedExtras {
    fn share(&mut self, record: &mut Record) {
        let Some(extra) = record.extra() else { return };
        // A message with one of these hardly ever has the same optional fields as another.
        if extra.body.is_some()
            || extra.scheduled_enqueue_time.is_some()
            || extra.header_bytes > 0
            || extra.forwarded.is_some()
            || extra.changes.is_some()
            || extra.held_until.is_some()
        {
            return;
        }
        if let Some(known) = self.recent.iter().find(|known| *known == extra) {
            record.set_extra(Some(Arc::clone(known)));
        } else if let Some(oldest) = self.recent.get_mut(self.replace_next) {
            *oldest = Arc::clone(extra);
            self.replace_next = (self.replace_next + 1) % SHARED_EXTRAS_MAX;
        } else {
            self.recent.push(Arc::clone(extra));
            self.replace_next = self.recent.len() % SHARED_EXTRAS_MAX;
        }
    }
}
