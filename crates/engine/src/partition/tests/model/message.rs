//! One message of the model.

use std::sync::Arc;

use crate::{
    Lock, MessageState, MessageView, NewMessage, QueueId, RuleProperties, SequenceNumber, SubQueue, Timestamp,
};

#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) view: MessageView,
    pub(super) bytes: u64,
    pub(super) header_bytes: u32,
    pub(super) session_id: Option<Arc<str>>,
    pub(super) rule_properties: Option<Arc<RuleProperties>>,
    pub(super) scheduled_for: Option<u64>,
    /// Not delivered before this time.
    pub(super) held_until: Option<u64>,
    pub(super) lock: Option<Lock>,
    /// Whether the expiry of its lock counts as a failed delivery.
    pub(super) counts: bool,
}

impl Message {
    /// An active message that is in no queue yet.
    pub(super) fn new(new: &NewMessage, body: SequenceNumber) -> Self {
        let view = MessageView {
            time_to_live_ms: new.time_to_live_ms,
            content_bytes: u32::try_from(new.content.len()).unwrap(),
            ..MessageView::new(QueueId::default(), body)
        };
        Self {
            view,
            bytes: new.content.len() as u64,
            header_bytes: new.header_bytes,
            session_id: new.session_id.clone().map(Arc::from),
            rule_properties: new.rule_properties.clone(),
            scheduled_for: None,
            held_until: None,
            lock: None,
            counts: true,
        }
    }

    /// Starts its time to live at `now`, or at its scheduled time.
    pub(super) fn live(&mut self, now: u64, time_to_live_ms: Option<u64>) {
        let begins = Timestamp(self.scheduled_for.unwrap_or(now));
        self.view.enqueued_at = Timestamp(now);
        self.view.time_to_live_ms = time_to_live_ms;
        self.view.expires_at = time_to_live_ms.map_or(Timestamp::NEVER, |ms| begins.plus_ms(ms));
    }

    pub(super) fn is_over(&self, now: u64) -> bool {
        self.view.expires_at.0 <= now
    }

    pub(super) fn is_active_in(&self, sub_queue: SubQueue) -> bool {
        self.view.state == MessageState::Active && self.view.sub_queue == sub_queue
    }

    pub(super) fn is_available_in(&self, sub_queue: SubQueue) -> bool {
        self.is_active_in(sub_queue) && self.lock.is_none() && self.held_until.is_none()
    }

    pub(super) fn is_of(&self, session: &str) -> bool {
        self.session_id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(session))
    }

    /// The session it belongs to, in lower case.
    pub(super) fn session(&self) -> Option<Arc<str>> {
        self.session_id.as_deref().map(|id| id.to_ascii_lowercase().into())
    }
}
