//! `com.microsoft:add-rule`: a further rule for a subscription.

use peeklock_engine::{Command, Rule, Timestamp};

use super::{Arguments, Prepared, arguments, done, rule_description};
use crate::servicebus::entities::Entity;
use crate::servicebus::errors::Fault;

/// Length of a rule's name, in characters (semantics §2.1).
const NAME_CHARACTERS_MAX: usize = 50;

/// Characters that no rule's name may have (semantics §2.1).
const NAME_CHARACTERS_FORBIDDEN: [char; 5] = ['/', '\\', '@', '?', '#'];

pub(super) fn prepare(arguments: &Arguments, entity: &Entity) -> Result<Prepared, Fault> {
    let name = arguments.text("rule-name")?.ok_or_else(|| arguments::wrong("rule-name", "a string"))?;
    check_name(name)?;
    let filter = rule_description::read(arguments.map("rule-description")?)?;
    let rule = Rule { name: name.into(), filter, created_at: Timestamp::default() };
    Ok(Prepared::new(Command::AddRule { queue: entity.queue, rule }, done))
}

fn check_name(name: &str) -> Result<(), Fault> {
    if name.is_empty() || name.chars().count() > NAME_CHARACTERS_MAX {
        return Err(Fault::Argument(format!("A rule's name has 1 to {NAME_CHARACTERS_MAX} characters.")));
    }
    if name.contains(NAME_CHARACTERS_FORBIDDEN) {
        return Err(Fault::Argument("A rule's name has none of the characters / \\ @ ? #.".to_owned()));
    }
    Ok(())
}
