//! `forward_to` and `forward_dead_lettered_messages_to`: the targets of forwarding.

use peeklock_access::forwarding_target;
use peeklock_engine::{ForwardingTarget, same_name};

use super::entity;

/// Parses the name or address of a target, for the queue `own_name` or a subscription; an empty text means none. The
/// namespace checks that the target exists: it may be declared anywhere in the file, or be stored.
///
/// # Errors
/// A message for the end of a sentence about the value.
pub(super) fn parse_target(text: &str, own_name: Option<&str>) -> Result<Option<ForwardingTarget>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let name = if text.contains("://") {
        forwarding_target(text).ok_or_else(|| {
            format!("\"{text}\" names no entity; write \"sb://host/name\", or the name alone")
        })?
    } else {
        text.to_owned()
    };
    entity::check_name(&name)?;
    if own_name.is_some_and(|own_name| same_name(own_name, &name)) {
        return Err(format!("\"{name}\" is the queue itself; write another queue or a topic"));
    }
    Ok(Some(name.into()))
}
