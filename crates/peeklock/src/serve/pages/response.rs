//! Responses for browsers: refusals, and the headers that the Fetch standard requires before a page of another origin
//! may send a request and read its answer (CORS).

use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CONNECTION, HeaderMap, HeaderName, VARY,
};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;

use super::{Refused, Source};

/// The methods of both HTTP interfaces.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE");
/// How long a browser may cache the answer, in seconds.
const MAX_AGE_S: HeaderValue = HeaderValue::from_static("600");
/// The properties of a message received over HTTP are headers of any name.
const EVERY_HEADER: HeaderValue = HeaderValue::from_static("*");
const PRIVATE_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");
/// Maximum length of a header value repeated in an answer, in characters.
const SHOWN_MAX: usize = 100;

/// The answer to a refused request; it names the setting that would allow it.
pub(in crate::serve) fn refuse(refused: &Refused) -> Response<Body> {
    let shown = |text: &str| text.chars().take(SHOWN_MAX).collect::<String>();
    let (status, text) = match refused {
        Refused::Host(host) => (
            StatusCode::MISDIRECTED_REQUEST,
            format!(
                "this broker is not known as \"{}\"; if it is meant to be, list that name in allowed_hosts under [network] \
                 of its configuration",
                shown(host)
            ),
        ),
        Refused::Origin(origin) => (
            StatusCode::FORBIDDEN,
            format!(
                "web pages of \"{}\" may not use this broker; if they are meant to, list that origin in allowed_origins under \
                 [network] of its configuration",
                shown(origin)
            ),
        ),
    };
    (status, [(CONNECTION, "close")], text).into_response()
}

/// The answer to a preflight request of a page of a listed origin; `None` for other requests.
pub(in crate::serve) fn preflight(
    method: &Method,
    headers: &HeaderMap,
    source: &Source,
) -> Option<Response<Body>> {
    if method != Method::OPTIONS
        || *source == Source::Own
        || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answer.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE_S);
    if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    if headers.contains_key(PRIVATE_ASKED) {
        answer.insert(PRIVATE_ALLOWED, HeaderValue::from_static("true"));
    }
    share(&mut response, source);
    Some(response)
}

/// Lets a page of a listed origin read an answer.
pub(in crate::serve) fn share(response: &mut Response<Body>, source: &Source) {
    let Source::Listed(origin) = source else { return };
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EVERY_HEADER);
    headers.append(VARY, HeaderValue::from_static("origin"));
}
