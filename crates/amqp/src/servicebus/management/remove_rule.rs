//! `com.microsoft:remove-rule`: removes a rule from a subscription.

use peeklock_engine::Command;

use super::{Arguments, Prepared, arguments, done};
use crate::servicebus::entities::Entity;
use crate::servicebus::errors::Fault;

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let name = arguments.text("rule-name")?.ok_or_else(|| arguments::wrong("rule-name", "a string"))?;
    Ok(Prepared::new(Command::RemoveRule { queue: entity.queue, name: name.into() }, done))
}
