//! Store → state: the inverse of [`super::persist()`].

use std::sync::Arc;

use peeklock_storage::Entry;

use super::RestoreError;
use super::encoding::{read_counters, read_record, read_used};
use super::persist::{META_COUNTERS, META_USED};
use super::policy::Policy;
use super::record::{Extra, Record};
use super::state::State;
use crate::{QueueId, SequenceNumber, Timestamp};

/// Numbers of `Meta` values below this one belong to the namespace.
const META_FIRST: u64 = 16;

/// How many recent [`Extra`]s are remembered to be shared.
const SHARED_EXTRAS_MAX: usize = 8;

impl State {
    /// Rebuilds the durable part of the entity from what is stored in its partition.
    pub(super) fn restore(
        id: QueueId,
        policy: Policy,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        let mut state = Self::new(id, policy);
        state.restore_queue(id, meta, head)?;
        Ok(state)
    }

    /// Rebuilds a queue or subscription from what is stored in its partition.
    fn restore_queue(
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
                _ => return Err(bad("Meta", number, "the number is unknown".to_owned())),
            }
        }
        let mut shared = SharedExtras::default();
        for Entry { number, value } in head {
            let mut record = read_record(&value).map_err(|reason| bad("Head", number, reason))?;
            if SequenceNumber(number) >= next_number {
                let reason = format!("numbers from {} on were never given out", next_number.0);
                return Err(bad("Head", number, reason));
            }
            shared.share(&mut record);
            self.size_bytes = self.size_bytes.saturating_add(u64::from(record.content_bytes()));
            self.insert(id, SequenceNumber(number), record);
        }
        if let Some(queue) = self.queue_mut(id) {
            queue.next_number = next_number;
            queue.used_at = used_at;
            queue.used_at_stored = used_at;
        }
        self.looked_after(id);
        Ok(())
    }
}

fn bad(space: &'static str, number: u64, reason: String) -> RestoreError {
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
        if extra.body.is_some() || extra.scheduled_enqueue_time.is_some() || extra.header_bytes > 0 {
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
