//! `com.microsoft:cancel-scheduled-message`: deletes messages that are still scheduled.

use peeklock_engine::Command;

use super::{Arguments, Prepared, done};
use crate::servicebus::errors::Fault;

pub(super) fn prepare(arguments: &Arguments) -> Result<Prepared, Fault> {
    let numbers = arguments.sequence_numbers("sequence-numbers")?;
    Ok(Prepared::new(Command::CancelScheduled { numbers }, done))
}
