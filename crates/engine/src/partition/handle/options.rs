//! `ChangeOptions`: the entity is as the catalogue has it from now on.

use std::sync::Arc;

use super::super::step::Step;
use crate::event::Event;
use crate::{EntityOptions, Reply, RequestId};

impl Step<'_> {
    /// Messages that are stored already keep their times (S-11). What is due at this moment was due under the options before.
    pub(in crate::partition) fn change_options(
        &mut self,
        request: Option<RequestId>,
        options: Arc<EntityOptions>,
    ) {
        self.note_use_until_now();
        self.emit(Event::OptionsChanged { options });
        // A window may be shorter now.
        self.forget_what_is_over();
        self.obey_status(self.state().entity.id);
        self.reply(request, Reply::Done(Ok(())));
    }
}
