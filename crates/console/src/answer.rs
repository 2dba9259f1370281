//! Answers: JSON, bytes, or an error as `{"error":{"code":"entity-not-found","message":"…"}}`.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use peeklock_admin::Error;
use peeklock_wire::loggable;
use serde_json::{Value as Json, json};

/// A successful answer of a handler.
pub(crate) enum Answer {
    /// A document.
    Json(StatusCode, Json),
    /// Raw bytes.
    Bytes(Bytes),
    /// Success without a body.
    Empty,
}

/// The result of a handler.
pub(crate) type Outcome = Result<Answer, Error>;

/// A document with status 200.
#[expect(clippy::unnecessary_wraps, reason = "the last expression of a handler")]
pub(crate) fn found(document: Json) -> Outcome {
    Ok(Answer::Json(StatusCode::OK, document))
}

/// The status of an outcome.
pub(crate) fn status(outcome: &Outcome) -> StatusCode {
    match outcome {
        Ok(Answer::Json(status, _)) => *status,
        Ok(Answer::Bytes(_)) => StatusCode::OK,
        Ok(Answer::Empty) => StatusCode::NO_CONTENT,
        Err(error) => error.status,
    }
}

/// The response for an outcome: never cached, and with headers that prevent browsers from guessing its type.
pub(crate) fn response(outcome: Outcome) -> Response {
    let status = status(&outcome);
    let denied = outcome.as_ref().err().and_then(|error| error.denied.clone());
    let (kind, body) = match outcome {
        Ok(Answer::Json(_, document)) => (Some(JSON), Body::from(document.to_string())),
        Ok(Answer::Bytes(bytes)) => (Some("application/octet-stream"), Body::from(bytes)),
        Ok(Answer::Empty) => (None, Body::empty()),
        Err(error) => {
            tracing::debug!(status = status.as_u16(), "{}", loggable(&error.text));
            (Some(JSON), Body::from(document(&error).to_string()))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Some(denied) = denied {
        response.extensions_mut().insert(denied);
    }
    let headers = response.headers_mut();
    if let Some(kind) = kind {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    protect(headers);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const JSON: &str = "application/json";

/// Headers that keep a browser from guessing the type of a response and from sending its URL to other sites.
pub(crate) fn protect(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
}

fn document(error: &Error) -> Json {
    json!({ "error": { "code": code(error.kind.name()), "message": &*error.text } })
}

/// `EntityNotFound` as `entity-not-found`.
fn code(name: &str) -> String {
    let mut code = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() && !code.is_empty() {
            code.push('-');
        }
        code.push(character.to_ascii_lowercase());
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_names_of_the_table_of_errors() {
        assert_eq!(code("EntityNotFound"), "entity-not-found");
        assert_eq!(code("Internal"), "internal");
    }
}
