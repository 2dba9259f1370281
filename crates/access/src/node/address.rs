//! From an address to its path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::AddressError;

/// Longest address looked at, in bytes: two names of 260 characters, every byte of them encoded, and what is between.
pub(crate) const ADDRESS_BYTES_MAX: usize = 8192;

/// The path of an address, decoded, without slashes at its ends. It is decoded once and as a whole: no name contains an
/// escape, so what is still encoded then names nothing.
///
/// # Errors
/// [`AddressError`] of text that has no path.
pub(super) fn decoded_path(address: &str) -> Result<Cow<'_, str>, AddressError> {
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let path = without_authority(address)?;
    let path = path.split(['?', '#']).next().unwrap_or(path).trim_matches('/');
    percent_decode_str(path).decode_utf8().map_err(|_| AddressError::NotUtf8)
}

/// The path of a URL with what follows it, or the text if it is none.
fn without_authority(address: &str) -> Result<&str, AddressError> {
    let Some((scheme, rest)) = address.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return Ok(address);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    // Before the last "@" may be a user name, which authenticates nobody here.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    let is_url = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !host.is_empty()
        && host.bytes().all(is_host)
        && !authority.contains(['\\', '%']);
    if is_url { Ok(path) } else { Err(AddressError::NoHost) }
}
