//! `com.microsoft:add-rule`: adds a rule to a subscription.

use peeklock_engine::{Command, Rule, Timestamp, check_rule_name};

use super::{Arguments, Prepared, arguments, done, rule_description};
use crate::servicebus::entities::Entity;
use crate::servicebus::errors::Fault;

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let name = arguments.text("rule-name")?.ok_or_else(|| arguments::wrong("rule-name", "a string"))?;
    check_rule_name(name)
        .map_err(|reason| Fault::Argument(format!("The rule's name can't be used: {reason}.")))?;
    let (filter, action) = rule_description::read(arguments.map("rule-description")?)?;
    let rule = Rule { name: name.into(), filter, action, created_at: Timestamp::default() };
    Ok(Prepared::new(Command::AddRule { queue: entity.queue, rule }, done))
}
