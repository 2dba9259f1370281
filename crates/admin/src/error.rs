//! Error responses: a status, and a body that the SDKs parse.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::ext::ReasonPhrase;
use peeklock_access::Denied;
use peeklock_errors::{ErrorKind, Http, NO_SUB_CODE};
use peeklock_wire::loggable;
use percent_encoding::{CONTROLS, utf8_percent_encode};
use uuid::Uuid;

/// The response for an error without an HTTP status of its own.
const INTERNAL: Http = Http { status: 500, sub_code: 50000 };

/// Refuses a request. N finds the sub-code by the text `SubCode=digits.`, with the full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {}{text}", prefix(*.sub_code))]
pub struct Error {
    /// The row of the error table.
    pub kind: ErrorKind,
    /// The status of the response.
    pub status: StatusCode,
    /// N's constants: the status and two more digits; [`NO_SUB_CODE`] where the service writes none.
    pub sub_code: u16,
    /// A human-readable text.
    pub text: Cow<'static, str>,
    /// Why credentials were refused; also among the extensions of a response.
    pub denied: Option<Denied>,
    /// Whether the text is also in the status line, where some clients look for it.
    pub in_status_line: bool,
}

impl Error {
    /// An error of the table with this text.
    pub fn of(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        let Http { status, sub_code } = kind.row().http.unwrap_or(INTERNAL);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { kind, status, sub_code, text: text.into(), denied: None, in_status_line: false }
    }

    /// The request is invalid.
    pub fn bad_request(text: impl Into<Cow<'static, str>>) -> Self {
        Self::of(ErrorKind::InvalidArgument, text)
    }

    /// The target of forwarding does not exist: the service's own wording (azure-service-bus 203).
    pub(crate) fn forwarding_target_not_found(property: &str, target: &str) -> Self {
        let text = format!(
            "The auto forwarding destination entity does not exist: '{property}' names '{target}', which is neither a queue nor \
             a topic."
        );
        Self::of(ErrorKind::ForwardingTargetNotFound, text)
    }

    /// The broker is busy; the SDKs retry.
    pub(crate) fn busy(text: impl Into<Cow<'static, str>>) -> Self {
        Self::of(ErrorKind::Unavailable, text)
    }

    /// An internal error of the broker.
    #[must_use]
    pub fn internal() -> Self {
        Self::of(ErrorKind::Internal, "The broker failed to carry out the operation.")
    }

    /// The body; `tracking` identifies the request in the log.
    fn body(&self, tracking: Uuid) -> String {
        let Self { status, sub_code, text, .. } = self;
        let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S");
        format!(
            "<Error><Code>{}</Code><Detail>{}{} TrackingId:{tracking}_G0, SystemTracker:peeklock, \
             Timestamp:{at}</Detail></Error>",
            status.as_u16(),
            prefix(*sub_code),
            escaped(text),
        )
    }

    /// The reason in the status line, in the form of the service; `None` for the standard one. Percent-encoded where it is
    /// not printable ASCII, so that no name can end the line.
    fn reason(&self, tracking: Uuid) -> Option<ReasonPhrase> {
        let Self { status, sub_code, text, .. } = self;
        let standard = status.canonical_reason().filter(|_| self.in_status_line)?;
        let reason = format!("SubCode={sub_code}: {standard} : {text} Tracking Id: {tracking}_G0");
        ReasonPhrase::try_from(utf8_percent_encode(&reason, CONTROLS).to_string().into_bytes()).ok()
    }
}

impl From<Denied> for Error {
    fn from(denied: Denied) -> Self {
        Self { denied: Some(denied.clone()), ..Self::of((&denied).into(), denied.to_string()) }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let tracking = Uuid::new_v4();
        tracing::debug!(status = self.status.as_u16(), sub_code = self.sub_code, %tracking, "{}", loggable(&self.text));
        let body = self.body(tracking);
        let reason = self.reason(tracking);
        let typed = [(CONTENT_TYPE, "application/xml; charset=utf-8")];
        let mut response = (self.status, typed, body).into_response();
        if let Some(reason) = reason {
            response.extensions_mut().insert(reason);
        }
        if let Some(denied) = self.denied {
            response.extensions_mut().insert(denied);
        }
        response
    }
}

fn prefix(sub_code: u16) -> String {
    if sub_code == NO_SUB_CODE { String::new() } else { format!("SubCode={sub_code}. ") }
}

/// Text escaped for XML; characters that XML can't contain become `?`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\t' | '\n' | ' '..='\u{fffd}' | '\u{10000}'.. => escaped.push(character),
            _ => escaped.push('?'),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_form_that_the_sdks_read() {
        let body = Error::of(ErrorKind::EntityNotFound, "No '<q>' & no \u{1}.").body(Uuid::nil());
        let start = "<Error><Code>404</Code><Detail>SubCode=40400. No '&lt;q&gt;' &amp; no ?. \
                     TrackingId:00000000-0000-0000-0000-000000000000_G0, SystemTracker:peeklock, Timestamp:";
        assert!(body.starts_with(start), "{body}");
        assert!(body.ends_with("</Detail></Error>"), "{body}");
    }

    #[test]
    fn no_name_ends_the_status_line() {
        let error = Error { text: "No 'a\r\nb: ü'.".into(), ..Denied::Right { right: "Manage" }.into() };
        assert_eq!(error.reason(Uuid::nil()), None);
        let reason = Error { in_status_line: true, ..error }.reason(Uuid::nil()).unwrap();
        let wanted = "SubCode=40100: Unauthorized : No 'a%0D%0Ab: %C3%BC'. Tracking Id: \
                      00000000-0000-0000-0000-000000000000_G0";
        assert_eq!(reason.as_bytes(), wanted.as_bytes());
    }

    #[test]
    fn denied_requests_are_unauthorized() {
        let error = Error::from(Denied::Expired(peeklock_engine::Timestamp(1_700_000_000_000)));
        assert_eq!((error.status, error.sub_code), (StatusCode::UNAUTHORIZED, 40106));
        assert_eq!(
            error.text,
            "ExpiredToken: The token is expired. Expiration time: '2023-11-14 22:13:20Z'."
        );
        let response = error.into_response();
        assert!(response.extensions().get::<Denied>().is_some_and(|denied| !denied.may_be_guess()));
    }
}
