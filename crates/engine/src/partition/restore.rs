//! Store → state: the inverse of [`super::persist()`].

use std::sync::Arc;

use peeklock_storage::Entry;

use super::RestoreError;
use super::credible::Credible;
use super::duplicates::REMEMBERED_FIRST;
use super::encoding::{read_counters, read_record, read_trace, read_used};
use super::persist::{META_COUNTERS, META_USED};
use super::record::{Extra, Record};
use super::sessions::STATE_FIRST;
use super::state::State;
use crate::{EntityOptions, QueueId, SequenceNumber, Timestamp};

/// Numbers of `Meta` values below this one belong to the namespace.
const META_FIRST: u64 = 16;

/// How many recent [`Extra`]s are remembered to be shared.
const SHARED_EXTRAS_MAX: usize = 8;

impl State {
    /// Rebuilds the durable part of the entity from what is stored in its partition.
    pub(super) fn restore(
        id: QueueId,
        options: &EntityOptions,
        credible: Credible,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        let mut state = Self::new(id, options);
        state.credible = credible;
        state.restore_queue(id, meta, head)?;
        Ok(state)
    }

    /// Rebuilds a queue or subscription from what is stored in its partition.
    pub(super) fn restore_queue(
        &mut self,
        id: QueueId,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<(), RestoreError> {
        let mut next_number = SequenceNumber(1);
        let mut used_at = Timestamp::default();
        for Entry { number, value } in meta {
            match number {
                ..META_FIRST => {}
                META_COUNTERS => {
                    next_number = read_counters(&value).map_err(|reason| bad("Meta", number, reason))?;
                }
                META_USED => used_at = read_used(&value).map_err(|reason| bad("Meta", number, reason))?,
                _ if id == self.entity.id => self.restore_subscription_record(number, &value)?,
                _ => return Err(bad("Meta", number, "the number is unknown".to_owned())),
            }
        }
        let mut shared = SharedExtras::default();
        let mut before = Timestamp::default();
        for Entry { number, value } in head {
            if number >= STATE_FIRST {
                self.restore_session_state(id, number, &value)
                    .map_err(|reason| bad("Head", number, reason))?;
                continue;
            }
            if number >= REMEMBERED_FIRST + next_number.0 {
                let reason = format!("messages from {} on were never given a number", next_number.0);
                return Err(bad("Head", number, reason));
            }
            if number >= REMEMBERED_FIRST {
                self.restore_remembered(id, number, &value).map_err(|reason| bad("Head", number, reason))?;
                continue;
            }
            if let Some((body, content_bytes)) =
                read_trace(&value).map_err(|reason| bad("Head", number, reason))?
            {
                self.refer(body, 1, content_bytes);
                self.traces.insert((id, SequenceNumber(number)), (body, content_bytes));
                continue;
            }
            let mut record = read_record(&value).map_err(|reason| bad("Head", number, reason))?;
            if SequenceNumber(number) >= next_number {
                let reason = format!("numbers from {} on were never given out", next_number.0);
                return Err(bad("Head", number, reason));
            }
            record.set_enqueued_at(self.restored_enqueued_at(record.enqueued_at(), &mut before));
            if let Some(reason) = self.misplaced(id, &record) {
                return Err(bad("Head", number, reason));
            }
            shared.share(&mut record);
            self.share_extra(&mut record);
            if let Some(queue) = self.queue(id) {
                queue.admit_restored(&mut record).map_err(|reason| bad("Head", number, reason.to_owned()))?;
            }
            let number = SequenceNumber(number);
            self.refer(record.body(number), 1, record.content_bytes());
            self.insert(id, number, record);
        }
        let used_at = self.restored_instant(used_at);
        if let Some(queue) = self.queue_mut(id) {
            queue.next_number = next_number;
            queue.used_at = used_at;
            queue.used_at_stored = used_at;
        }
        self.looked_after(id);
        Ok(())
    }
}

pub(super) fn bad(space: &'static str, number: u64, reason: String) -> RestoreError {
    RestoreError { number, reason: format!("{space}: {reason}") }
}

/// Recent rare facts, so that a million messages dead-lettered for one reason share them as they did when alive.
#[derive(Default)]
struct SharedExtras {
    recent: Vec<Arc<Extra>>,
    replace_next: usize,
}

impl SharedExtras {
    fn share(&mut self, record: &mut Record) {
        let Some(extra) = record.extra() else { return };
        // Bodies elsewhere and schedules are particular to one message.
        if extra.body.is_some()
            || extra.scheduled_enqueue_time.is_some()
            || extra.header_bytes > 0
            || extra.forwarded.is_some()
            || extra.changes.is_some()
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
