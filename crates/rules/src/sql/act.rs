//! Execution of statements for a message.

use super::arithmetic::PROPERTY_BYTES_MAX;
use super::compile::{compile, named};
use super::convert::converted;
use super::evaluate::{NewId, evaluate};
use super::like::STEPS_MAX;
use super::message::{Message, shortened};
use super::program::{Named, Program};
use super::set_system;
use super::tree;
use super::value::{Fault, Value};
use crate::names::Name;
use crate::{PropertyChanges, PropertyValue, Subject, TextProperty};

/// A statement with its expression compiled.
#[derive(Debug, Clone)]
pub(super) enum Statement {
    Set(Named, Program),
    Remove(Named),
}

pub(super) fn prepared(
    statements: &[tree::Statement],
    parameters: &[(Box<str>, PropertyValue)],
) -> Box<[Statement]> {
    let prepare = |statement: &tree::Statement| match statement {
        tree::Statement::Set(property, expression) => {
            Statement::Set(named(property), compile(expression, parameters))
        }
        tree::Statement::Remove(property) => Statement::Remove(named(property)),
    };
    statements.iter().map(prepare).collect()
}

/// Executes statements in order; each sees the effects of earlier ones.
///
/// # Errors
/// A [`Fault`] if one of them fails.
pub(super) fn act(
    statements: &[Statement],
    subject: &Subject<'_>,
    new_id: NewId<'_>,
) -> Result<PropertyChanges, Fault> {
    let (mut changes, mut steps_left) = (PropertyChanges::default(), STEPS_MAX);
    for statement in statements {
        match statement {
            Statement::Set(Named::User(name), program) => {
                let message = under(subject, &changes);
                let value = evaluate(program, &message, &mut *new_id, &mut steps_left)?;
                let value = converted(value, message.user(name));
                let known = name_in_message(name, &message).unwrap_or(name.written()).to_owned();
                check_length(&known, &value)?;
                changes.set_user(&known, Some(value));
            }
            Statement::Set(Named::System(property), program) => {
                let message = under(subject, &changes);
                let value = evaluate(program, &message, &mut *new_id, &mut steps_left)?;
                set_system::of(*property, &value)?.apply(&mut changes);
            }
            Statement::Remove(Named::User(name)) => remove_user(name, subject, &mut changes),
            Statement::Remove(Named::System(property)) => {
                set_system::of(*property, &Value::Unknown)?.apply(&mut changes);
            }
        }
    }
    keep_partition_with_session(subject, &mut changes)?;
    Ok(changes)
}

fn under<'a>(subject: &Subject<'a>, changes: &'a PropertyChanges) -> Message<'a> {
    Message { changes: Some(changes), ..Message::new(subject) }
}

/// The spelling of a name in the message, as sent or as set by an earlier statement.
fn name_in_message<'a>(name: &Name, message: &Message<'a>) -> Option<&'a str> {
    let sent = message.rule_properties.user.iter().map(|(known, _)| &**known);
    let changed = message.changes.into_iter().flat_map(|changes| &changes.user).map(|(known, _)| &**known);
    sent.chain(changed).find(|known| name.is(known))
}

/// Removes all properties of a name; there may be several that differ only in case.
fn remove_user(name: &Name, subject: &Subject<'_>, changes: &mut PropertyChanges) {
    changes.user.retain(|(known, _)| !name.is(known));
    for (known, _) in subject.rule_properties.user.iter().filter(|(known, _)| name.is(known)) {
        changes.set_user(known, None);
    }
}

fn check_length(name: &str, value: &PropertyValue) -> Result<(), Fault> {
    let length = match value {
        PropertyValue::Text(text) => text.len(),
        PropertyValue::Other(bytes) => bytes.len(),
        _ => return Ok(()),
    };
    if length > PROPERTY_BYTES_MAX {
        let name = shortened(name);
        return Err(Fault(format!(
            "The property '{name}' would be {length} bytes long; a property may have {PROPERTY_BYTES_MAX}."
        )));
    }
    Ok(())
}

/// A message with a session must have the same partition key (semantics §3; azure-sdk-for-java 10612). A partition key
/// that was equal to the session before follows it (azure-sdk-for-net 13961); any other contradiction caused by an
/// action is a fault.
fn keep_partition_with_session(subject: &Subject<'_>, changes: &mut PropertyChanges) -> Result<(), Fault> {
    let is_touched = |property| changes.text(property).is_some();
    if !is_touched(TextProperty::SessionId) && !is_touched(TextProperty::PartitionKey) {
        return Ok(());
    }
    let now = under(subject, changes);
    let (session, partition) = (now.text(TextProperty::SessionId), now.text(TextProperty::PartitionKey));
    let (Some(session), Some(partition)) = (session, partition) else { return Ok(()) };
    if session == partition {
        return Ok(());
    }
    let follows = !is_touched(TextProperty::PartitionKey)
        && subject.rule_properties.session_id.as_deref() == Some(partition);
    if !follows {
        return Err(Fault("The PartitionKey must be equal to the SessionId if both are set.".to_owned()));
    }
    let session = session.into();
    changes.set_text(TextProperty::PartitionKey, Some(session));
    Ok(())
}
