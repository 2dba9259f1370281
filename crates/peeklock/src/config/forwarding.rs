//! `forward_to` and `forward_dead_lettered_messages_to`: where messages go on to.

use super::asked::same_name;
use super::entity;

/// How the official clients write and get the name of a target.
const SCHEME: &str = "sb://";

/// The name of a target, or its address, for the queue `own_name` or a subscription; an empty text is none. That the target
/// exists is the namespace's to check: it may be declared anywhere in the file, or be stored.
///
/// # Errors
/// A message that ends a sentence about the value.
pub(super) fn parse_target(text: &str, own_name: Option<&str>) -> Result<Option<Box<str>>, String> {
    let name = match text.get(..SCHEME.len()) {
        Some(scheme) if scheme.eq_ignore_ascii_case(SCHEME) => path(text)?,
        _ => text,
    };
    if name.is_empty() {
        return Ok(None);
    }
    entity::check_name(name)?;
    if own_name.is_some_and(|own_name| same_name(own_name, name)) {
        return Err(format!("\"{name}\" is the queue itself; write another queue or a topic"));
    }
    Ok(Some(name.into()))
}

/// What follows the host of an absolute address.
fn path(address: &str) -> Result<&str, String> {
    let path = address.get(SCHEME.len()..).and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
    path.filter(|path| !path.is_empty())
        .ok_or_else(|| format!("\"{address}\" names no entity; write \"sb://host/name\", or the name alone"))
}
