//! Restores topics: parts of [`super::super::restore`].

use std::collections::HashMap;
use std::sync::Arc;

use peeklock_storage::Entry;
use smallvec::SmallVec;

use super::super::RestoreError;
use super::super::record::{Extra, Record};
use super::super::restore::bad;
use super::super::state::State;
use crate::stored::read_subscription;
use crate::{MessageState, QueueId, SequenceNumber, SubQueue};

/// Optional fields by body: copies of a message share them as before the restart. Copies changed by actions differ, so a few
/// are kept for each body, the most recent first.
#[derive(Debug, Default)]
pub(super) struct SharedExtras(HashMap<u64, SmallVec<[Arc<Extra>; 1]>>);

/// Number of optional fields kept for each body.
const SHARED_OF_A_BODY_MAX: usize = 8;

impl SharedExtras {
    fn share(&mut self, record: &mut Record) {
        let Some((extra, body)) = record.extra().and_then(|extra| Some((extra, extra.body?))) else { return };
        let recent = self.0.entry(body.0).or_default();
        let known = recent.iter().position(|known| known == extra).map(|position| recent.remove(position));
        let shared = known.unwrap_or_else(|| Arc::clone(extra));
        recent.truncate(SHARED_OF_A_BODY_MAX - 1);
        recent.insert(0, Arc::clone(&shared));
        record.set_extra(Some(shared));
    }
}

impl State {
    /// Restores a `Meta` value of a topic: one of its subscriptions, still empty.
    pub(in crate::partition) fn restore_subscription_record(
        &mut self,
        id: QueueId,
        number: u64,
        value: &[u8],
    ) -> Result<(), RestoreError> {
        let subscription = read_subscription(id, value).map_err(|reason| bad("Meta", number, reason))?;
        self.set_subscription(&subscription);
        Ok(())
    }

    /// Restores a subscription listed in the topic's own values.
    pub(in crate::partition) fn restore_subscription(
        &mut self,
        id: QueueId,
        meta: impl IntoIterator<Item = Entry>,
        head: impl IntoIterator<Item = Entry>,
    ) -> Result<(), RestoreError> {
        if !self.subscriptions.contains_key(&id) {
            return Err(bad("Meta", id.0, "there is no subscription of this number".to_owned()));
        }
        if let Some(topic) = &mut self.topic {
            topic.restoring.get_or_insert_default();
        }
        self.restore_queue(id, meta, head)
    }

    /// Completes restoring.
    pub(in crate::partition) fn restored(&mut self) {
        if let Some(topic) = &mut self.topic {
            topic.restoring = None;
        }
        self.relist_all();
    }

    /// The reason why a topic's message can't be in this queue, if so.
    pub(in crate::partition) fn misplaced(&self, id: QueueId, record: &Record) -> Option<String> {
        self.topic.as_ref()?;
        let is_scheduled = record.state() == MessageState::Scheduled;
        if id == self.entity.id {
            let is_allowed = match record.sub_queue() {
                SubQueue::Main => is_scheduled,
                SubQueue::DeadLetter => false,
                SubQueue::TransferDeadLetter => !is_scheduled,
            };
            let reason = "only scheduled messages and transfer dead letters rest on a topic itself";
            return (!is_allowed).then(|| reason.to_owned());
        }
        if is_scheduled {
            return Some("scheduled messages rest on the topic itself".to_owned());
        }
        match record.extra().and_then(|extra| extra.body) {
            None => Some("a message of a subscription does not say where its content is".to_owned()),
            Some(body) if SequenceNumber(body.0) >= self.entity.next_number => {
                Some(format!("its content {} was never given out", body.0))
            }
            Some(_) => None,
        }
    }

    /// Makes a copy share its optional fields with other copies of the message.
    pub(in crate::partition) fn share_extra(&mut self, record: &mut Record) {
        if let Some(restoring) = self.topic.as_mut().and_then(|topic| topic.restoring.as_mut()) {
            restoring.share(record);
        }
    }
}
