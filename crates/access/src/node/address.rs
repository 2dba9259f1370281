//! Extraction of the path from an address.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::AddressError;

/// Longest address accepted, in bytes: two names of 260 characters, with every byte encoded, and the separators.
pub(crate) const ADDRESS_BYTES_MAX: usize = 8192;

/// The path of an address, decoded, without leading and trailing slashes. It is decoded once and as a whole: names
/// contain no escapes, so a path that is still encoded afterwards names nothing.
///
/// # Errors
/// [`AddressError`] for text without a path.
pub(crate) fn decoded_path(address: &str) -> Result<Cow<'_, str>, AddressError> {
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(AddressError::TooLong);
    }
    let path = without_authority(address)?;
    let path = path.split(['?', '#']).next().unwrap_or(path).trim_matches('/');
    percent_decode_str(path).decode_utf8().map_err(|_| AddressError::NotUtf8)
}

/// The path of a URL with query and fragment, or the whole text if it is not a URL.
fn without_authority(address: &str) -> Result<&str, AddressError> {
    let Some((scheme, rest)) = address.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return Ok(address);
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    // A user name before the last "@" is ignored; it is not used for authentication.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
    let is_url = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !host.is_empty()
        && host.bytes().all(is_host)
        && !authority.contains(['\\', '%']);
    if is_url { Ok(path) } else { Err(AddressError::NoHost) }
}
