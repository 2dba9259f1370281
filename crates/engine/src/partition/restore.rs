//! Store → state: the inverse of [`super::persist()`].

use std::sync::Arc;

use peeklock_storage::Entry;

use super::RestoreError;
use super::encoding::{read_counters, read_record};
use super::persist::META_COUNTERS;
use super::record::{Extra, Record};
use super::state::State;
use crate::SequenceNumber;

/// Numbers of `Meta` values below this one belong to the namespace.
const META_FIRST: u64 = 16;

/// How many recent [`Extra`]s are remembered to be shared.
const SHARED_EXTRAS_MAX: usize = 8;

impl State {
    /// Rebuilds the durable part from what is stored.
    pub(super) fn restore(
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<Self, RestoreError> {
        let mut state = Self::new();
        for Entry { number, value } in meta {
            match number {
                ..META_FIRST => {}
                META_COUNTERS => {
                    state.next_number =
                        read_counters(&value).map_err(|reason| bad("Meta", number, reason))?;
                }
                _ => return Err(bad("Meta", number, "the number is unknown".to_owned())),
            }
        }
        let mut shared = SharedExtras::default();
        for Entry { number, value } in head {
            let mut record = read_record(&value).map_err(|reason| bad("Head", number, reason))?;
            if SequenceNumber(number) >= state.next_number {
                let reason = format!("numbers from {} on were never given out", state.next_number.0);
                return Err(bad("Head", number, reason));
            }
            shared.share(&mut record);
            state.insert(SequenceNumber(number), record);
        }
        Ok(state)
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
        if extra.body.is_some() || extra.scheduled_enqueue_time.is_some() {
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
