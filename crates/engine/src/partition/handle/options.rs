//! `ChangeOptions`: applies options that the catalogue has stored.

use std::sync::Arc;

use super::super::step::Step;
use crate::event::Event;
use crate::{EntityOptions, Reply, RequestId};

impl Step<'_> {
    /// Stored messages keep their times (S-11). Timers that are due now were fired under the old options.
    pub(in crate::partition) fn change_options(
        &mut self,
        request: Option<RequestId>,
        options: Arc<EntityOptions>,
    ) {
        self.note_use_until_now();
        self.emit(Event::OptionsChanged { options });
        // The duplicate detection window may be shorter now.
        self.forget_expired_ids();
        self.obey_status(self.state().entity.id);
        self.reply(request, Reply::Done(Ok(())));
    }
}
