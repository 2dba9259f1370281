//! Why a request fails, and how the SDKs are told: status, sub-code and text (azure-sdk-for-net's constants).

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use peeklock_access::Denied;
use peeklock_engine::runtime::{ChangeError, StorageError};

use uuid::Uuid;

use super::xml::Document;

/// Why a request fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The status.
    pub(crate) status: StatusCode,
    /// What it is more exactly; .NET and JS look for some of them.
    pub(crate) sub_code: Option<u32>,
    /// What is wrong and what would be right, in sentences.
    pub(crate) detail: String,
}

impl Failure {
    const fn new(status: StatusCode, sub_code: Option<u32>, detail: String) -> Self {
        Self { status, sub_code, detail }
    }

    /// A request that can't be fulfilled whatever the state of the broker.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Some(40000), format!("Bad Request. {}", detail.into()))
    }

    /// There is no such thing.
    pub(crate) fn not_found(name: &str) -> Self {
        let detail = format!("Not Found. The messaging entity '{name}' could not be found.");
        Self::new(StatusCode::NOT_FOUND, Some(40400), detail)
    }

    /// What is to be created exists.
    pub(crate) fn exists(name: &str) -> Self {
        let detail = format!(
            "Conflict. The messaging entity '{name}' already exists. To know more visit https://aka.ms/sbResourceMgrExceptions."
        );
        Self::new(StatusCode::CONFLICT, Some(40900), detail)
    }

    /// Only `If-Match: *` is understood.
    pub(crate) fn precondition() -> Self {
        let detail = "Precondition Failed. Entities have no versions here: 'If-Match: *' updates whatever is there.";
        Self::new(StatusCode::PRECONDITION_FAILED, None, detail.to_owned())
    }

    /// The method is not for this path.
    pub(crate) fn method(method: &str, path: &str) -> Self {
        let detail = format!("Method Not Allowed. {method} is not for '{path}'.");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, None, detail)
    }

    /// The body is too large.
    pub(crate) fn too_large(bytes_max: usize) -> Self {
        let detail = format!("Payload Too Large. The body of a request has at most {bytes_max} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, None, detail)
    }

    /// The body did not come in time.
    pub(crate) fn time_out() -> Self {
        let detail = "Request Timeout. The body of the request did not come in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, None, detail.to_owned())
    }

    /// A change that the engine did not make.
    pub(crate) fn from_change(error: &ChangeError) -> Self {
        match error {
            ChangeError::NotFound { name } => Self::not_found(name),
            ChangeError::Exists { name } => Self::exists(name),
            ChangeError::Invalid { reason } => Self::bad(sentence(reason)),
            ChangeError::Store(error) => Self::from_storage(error),
        }
    }

    fn from_storage(error: &StorageError) -> Self {
        match error {
            StorageError::Full { .. } => Self::new(
                StatusCode::FORBIDDEN,
                Some(40300),
                "Forbidden. The broker's storage is full; changes are made again as soon as there is room."
                    .to_owned(),
            ),
            StorageError::TooLarge { reason } => Self::bad(sentence(reason)),
            StorageError::Unavailable { .. } => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                Some(50004),
                "The broker is not available for changes now; retry the operation.".to_owned(),
            ),
            // What exactly is on the disk is the log's business, not a client's.
            StorageError::Fenced { .. } | StorageError::InDoubt { .. } | StorageError::Corrupt { .. } => {
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    Some(50000),
                    "Internal Server Error. The outcome of the change is not known; look at the broker's log."
                        .to_owned(),
                )
            }
        }
    }

    /// The response; `entity` is what the request was about.
    pub(crate) fn into_response(self, host: &str, entity: &str, now: &str) -> Response<Body> {
        let sub_code = self.sub_code.map_or_else(String::new, |code| format!("SubCode={code}. "));
        // .NET reads the sub-code up to the full stop.
        let detail = format!(
            "{sub_code}{} TrackingId:{}_G0, SystemTracker:{host}:{entity}, Timestamp:{now}",
            self.detail,
            Uuid::new_v4()
        );
        let mut document = Document::new();
        document.element("Error", &[], |document| {
            document.text("Code", self.status.as_str());
            document.text("Detail", &detail);
        });
        let mut response = Response::new(Body::from(document.finish()));
        *response.status_mut() = self.status;
        let content_type = HeaderValue::from_static("application/xml; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        Self::from_change(&error)
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, Some(denied.sub_code().into()), denied.to_string())
    }
}

/// A reason as a sentence.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    let end = if reason.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    fn store(error: StorageError) -> Failure {
        ChangeError::Store(error).into()
    }

    #[test]
    fn every_failure_has_its_status_and_sub_code() {
        let reason = String::from("r");
        let name = String::from("q");
        for (failure, status, sub_code) in [
            (Failure::bad("x"), 400, Some(40000)),
            (ChangeError::Invalid { reason: reason.clone() }.into(), 400, Some(40000)),
            (store(StorageError::TooLarge { reason: reason.clone() }), 400, Some(40000)),
            (Denied::Missing.into(), 401, Some(40102)),
            (Denied::Signature.into(), 401, Some(40103)),
            (Denied::Audience.into(), 401, Some(40104)),
            (Denied::Malformed("m").into(), 401, Some(40105)),
            (Denied::Expired.into(), 401, Some(40106)),
            (Denied::Right { right: "Manage" }.into(), 401, Some(40100)),
            (store(StorageError::Full { reason: reason.clone() }), 403, Some(40300)),
            (ChangeError::NotFound { name: name.clone() }.into(), 404, Some(40400)),
            (Failure::method("POST", "q"), 405, None),
            (Failure::time_out(), 408, None),
            (ChangeError::Exists { name }.into(), 409, Some(40900)),
            (Failure::precondition(), 412, None),
            (Failure::too_large(1), 413, None),
            (store(StorageError::InDoubt { reason: reason.clone() }), 500, Some(50000)),
            (store(StorageError::Fenced { reason: reason.clone() }), 500, Some(50000)),
            (store(StorageError::Unavailable { reason }), 503, Some(50004)),
        ] {
            assert_eq!((failure.status.as_u16(), failure.sub_code), (status, sub_code), "{failure:?}");
        }
    }

    #[tokio::test]
    async fn the_body_is_what_the_sdks_read() {
        let response = Failure::exists("a&b").into_response("localhost:1", "a&b", "2026-11-20T00:00:00Z");
        assert_eq!(response.headers()[CONTENT_TYPE], "application/xml; charset=utf-8");
        let body = to_bytes(response.into_body(), 10_000).await.unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        let start = "<Error><Code>409</Code><Detail>SubCode=40900. Conflict. The messaging entity &apos;a&amp;b&apos; already exists.";
        assert!(body.starts_with(start), "{body}");
        assert!(body.contains(" TrackingId:") && body.ends_with("Z</Detail></Error>"), "{body}");
    }
}
