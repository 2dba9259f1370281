//! The files of the console: built from `web/`, embedded in the binary, served without a token, because they contain no
//! data of a broker.

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::get;
use ring::digest::{SHA256, digest};

use crate::answer::protect;

/// Only files of the same origin, no forms, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

const INDEX: &str = "index.html";

struct File {
    name: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    entity_tag: String,
}

/// Their tags are computed once, because unauthenticated clients may request them.
static FILES: LazyLock<[File; 4]> = LazyLock::new(|| {
    [
        File::new(INDEX, "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
        File::new("app.js", "text/javascript; charset=utf-8", include_bytes!("../assets/app.js")),
        File::new("app.css", "text/css; charset=utf-8", include_bytes!("../assets/app.css")),
        File::new("icon.svg", "image/svg+xml", include_bytes!("../assets/icon.svg")),
    ]
});

impl File {
    fn new(name: &'static str, media_type: &'static str, bytes: &'static [u8]) -> Self {
        Self { name, media_type, bytes, entity_tag: entity_tag(bytes) }
    }
}

/// `/console` and everything below it.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/console", get(redirect))
        .route("/console/", get(|request: Request| async move { file(INDEX, &request) }))
        .route(
            "/console/{name}",
            get(|Path(name): Path<String>, request: Request| async move { file(&name, &request) }),
        )
}

/// Links in the page are relative to its directory.
async fn redirect() -> Response {
    let mut response = empty(StatusCode::PERMANENT_REDIRECT);
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("console/"));
    response
}

fn file(name: &str, request: &Request) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return empty(StatusCode::NOT_FOUND);
    };
    let known = request.headers().get(IF_NONE_MATCH);
    let mut response = if known.is_some_and(|known| known.as_bytes() == file.entity_tag.as_bytes()) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        let mut response = empty(StatusCode::OK);
        if request.method() != Method::HEAD {
            *response.body_mut() = Body::from(file.bytes);
        }
        response
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    // Another version of the broker has other files under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(&*file.entity_tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    secure(response.headers_mut());
    response
}

fn secure(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    protect(headers);
}

/// Half of the hash of a file.
fn entity_tag(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let half = hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("\"{half}\"")
}
