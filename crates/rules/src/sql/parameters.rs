//! Values of parameters (`@name`).

use super::error::SqlError;
use crate::PropertyValue;

/// The name of a parameter without the `@` that most SDKs include (documented: `Parameters.Add("@stringParam", …)`).
fn bare(name: &str) -> &str {
    name.strip_prefix('@').unwrap_or(name)
}

/// The value of a parameter; `name` is without its `@`. Names are case-insensitive (inferred: like those of
/// properties).
pub(super) fn value<'given>(
    parameters: &'given [(Box<str>, PropertyValue)],
    name: &str,
) -> Option<&'given PropertyValue> {
    let found = parameters.iter().find(|(known, _)| bare(known).eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// Rejects two parameters of the same name.
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
