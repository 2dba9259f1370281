//! What `@name` stands for.

use super::error::SqlError;
use crate::PropertyValue;

/// The name of a parameter without the `@` that most SDKs send with it (documented: `Parameters.Add("@stringParam", …)`).
fn bare(name: &str) -> &str {
    name.strip_prefix('@').unwrap_or(name)
}

/// What a parameter stands for; `name` is without its `@`. Names match regardless of case (inferred: as those of
/// properties).
pub(super) fn value<'given>(
    parameters: &'given [(Box<str>, PropertyValue)],
    name: &str,
) -> Option<&'given PropertyValue> {
    let found = parameters.iter().find(|(known, _)| bare(known).eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// Refuses two parameters of the same name.
pub(super) fn check(parameters: &[(Box<str>, PropertyValue)]) -> Result<(), SqlError> {
    let mut names: Vec<String> = parameters.iter().map(|(name, _)| bare(name).to_ascii_lowercase()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find_map(|pair| pair.first().filter(|first| pair.last() == Some(first)));
    match twice {
        Some(name) => {
            Err(SqlError { position: 0, message: format!("the parameter '@{name}' is given more than once") })
        }
        None => Ok(()),
    }
}
