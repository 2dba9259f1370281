//! The `Location` of a locked message.

use axum::http::HeaderValue;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::uri::Scheme;
use peeklock_engine::LockToken;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use super::place::Place;

/// Characters of entity names that stay unescaped in a path.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'$');

/// The URL for completing, unlocking or renewing: absolute, so that clients can use it unchanged, with the host by
/// which they reached the broker. Relative only if they sent no usable host.
pub(super) fn of(head: &Parts, place: &Place, number: u64, lock: LockToken) -> Option<HeaderValue> {
    let path = place.entity.to_string();
    let path = utf8_percent_encode(&path, PLAIN);
    let origin = origin(head).unwrap_or_default();
    HeaderValue::try_from(format!("{origin}/{path}/messages/{number}/{}", Uuid::from_u128(lock.0))).ok()
}

fn origin(head: &Parts) -> Option<String> {
    let host = head.headers.get(HOST)?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte);
    // A request line has no scheme; the server sets it as an extension when it serves TLS.
    let scheme = head.extensions.get::<Scheme>().map_or("http", Scheme::as_str);
    (!host.is_empty() && host.bytes().all(is_plain)).then(|| format!("{scheme}://{host}"))
}
