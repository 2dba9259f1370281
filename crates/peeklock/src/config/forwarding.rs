//! `forward_to` and `forward_dead_lettered_messages_to`: where messages go on to.

use peeklock_engine::Forwarding;

use super::asked::same_name;
use super::entity;
use super::table::Table;

/// How the official clients write and get the name of a target.
const SCHEME: &str = "sb://";

/// Reads the targets of the queue `own_name`, or of a subscription. That they exist is the namespace's to check: they may be
/// declared anywhere in the file, or be stored.
pub(super) fn read(table: &mut Table<'_, '_>, own_name: Option<&str>) -> Forwarding {
    Forwarding {
        forward_to: target(table, "forward_to", own_name),
        forward_dead_lettered_messages_to: target(table, "forward_dead_lettered_messages_to", own_name),
    }
}

fn target(table: &mut Table<'_, '_>, key: &'static str, own_name: Option<&str>) -> Option<Box<str>> {
    table.text(key, "\"archive\"", |text| parse_target(text, own_name)).flatten()
}

/// The name of a target, or its address; an empty text is none.
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
