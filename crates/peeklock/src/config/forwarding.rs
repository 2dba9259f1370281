//! `forward_to` and `forward_dead_lettered_messages_to`: where messages go on to.

use peeklock_access::forwarding_target;
use peeklock_engine::same_name;

use super::entity;

/// The name of a target, or its address, for the queue `own_name` or a subscription; an empty text is none. That the target
/// exists is the namespace's to check: it may be declared anywhere in the file, or be stored.
///
/// # Errors
/// A message that ends a sentence about the value.
pub(super) fn parse_target(text: &str, own_name: Option<&str>) -> Result<Option<Box<str>>, String> {
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
