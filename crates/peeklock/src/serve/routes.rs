//! The routes of HTTP: `GET /health`, `/health/ready`, `/health/live` and `/metrics`, in development
//! `/development/clock`, and everything else by the administration, once it exists.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use peeklock_access::Access;
use peeklock_admin::token_header;
use peeklock_engine::runtime::Namespace;
use peeklock_metrics::Source;
use tokio::task::spawn_blocking;
use tower::ServiceExt;

use super::development::TimeTravel;
use super::health::{self, Health};
use super::metrics::{Monitoring, Readers, TEXT_FORMAT, text_format, wants_text_format};
use super::store::OpenStore;

/// The path of the emulator's health endpoint.
const HEALTH: &str = "/health";

/// The path of the metrics.
pub(super) const METRICS: &str = "/metrics";

const JSON: &str = "application/json";
/// The texts of the Service Bus emulator's health endpoint.
const HEALTHY: &str = r#"{"status":"healthy","message":"Service is healthy."}"#;
const UNHEALTHY: &str =
    r#"{"status":"unhealthy","message":"Service not available. Please try after some time."}"#;

/// State for answering [`METRICS`].
#[derive(Clone)]
pub(super) struct MetricsPage {
    pub(super) monitoring: Monitoring,
    readers: Readers,
}

impl MetricsPage {
    /// The page before the store is open.
    pub(super) const fn new(monitoring: Monitoring, readers: Readers) -> Self {
        Self { monitoring, readers }
    }

    /// Adds the metrics of the current term.
    pub(super) fn show(&self, store: &OpenStore, access: &Access, namespace: &Namespace) {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        if let Some(figures) = store.figures() {
            sources.push(Box::new(figures));
        }
        sources.push(Box::new(access.metrics()));
        sources.push(Box::new(namespace.figures()));
        self.monitoring.term.set(sources);
        self.readers.set_access(Some(access.clone()));
    }

    /// Removes the metrics added by [`Self::show`].
    pub(super) fn clear(&self) {
        self.monitoring.term.set(Vec::new());
        self.readers.set_access(None);
    }
}

/// Services beside health and administration.
pub(super) struct Offered {
    pub(super) metrics: MetricsPage,
    pub(super) has_console: bool,
}

/// The administration while entities are served; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Administration(Arc<RwLock<Option<Router>>>);

impl Administration {
    /// Sets the current administration; `None` for none.
    pub(super) fn set(&self, router: Option<Router>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = router;
    }

    fn get(&self) -> Option<Router> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The router of all paths. The clock can be moved only if there is a `travel`.
pub(super) fn router(
    health: Health,
    travel: Option<TimeTravel>,
    administration: &Administration,
    offered: Offered,
) -> Router {
    let router = Router::new()
        .route(HEALTH, get(report))
        .route("/health/ready", get(report_ready))
        .route("/health/live", get(report_live))
        .route_layer(from_fn_with_state(administration.clone(), unless_token))
        .with_state(health)
        .merge(
            Router::new()
                .route(METRICS, any(report_metrics))
                .with_state((offered.metrics, administration.clone())),
        )
        .merge(console(offered.has_console, administration));
    let router = router.merge(travel.map_or_else(Router::new, TimeTravel::router));
    let administration = administration.clone();
    router.fallback(move |request| administer(administration.clone(), request))
}

/// The files of the console, which contain no data of this broker. If disabled, its path is unknown.
fn console(is_enabled: bool, administration: &Administration) -> Router {
    let router = if is_enabled {
        peeklock_console::assets()
    } else {
        let absent = || get(|| async { StatusCode::NOT_FOUND });
        Router::new()
            .route("/console", absent())
            .route("/console/", absent())
            .route("/console/{*path}", absent())
    };
    router.route_layer(from_fn_with_state(administration.clone(), unless_entity))
}

/// A request with a token, with a version of the management API, or with a method that changes something is for the
/// entity of that name.
async fn unless_entity(
    State(administration): State<Administration>,
    request: Request,
    next: Next,
) -> Result<Response, Infallible> {
    let has_version =
        request.uri().query().is_some_and(|query| query.to_ascii_lowercase().contains("api-version="));
    if has_version {
        return administer(administration, request).await;
    }
    unless_token(State(administration), request, next).await
}

/// A request with a token, or that changes something, is for the queue or topic of that name.
async fn unless_token(
    State(administration): State<Administration>,
    request: Request,
    next: Next,
) -> Result<Response, Infallible> {
    let asks = matches!(*request.method(), Method::GET | Method::HEAD);
    if asks && token_header(request.headers()).is_none() {
        return Ok(next.run(request).await);
    }
    administer(administration, request).await
}

/// Reports readiness with the emulator's texts.
async fn report(State(health): State<Health>) -> impl IntoResponse {
    let (status, body) = match health.state() {
        health::State::Ready => (StatusCode::OK, HEALTHY),
        _ => (StatusCode::SERVICE_UNAVAILABLE, UNHEALTHY),
    };
    (status, [(CONTENT_TYPE, JSON)], body)
}

/// Reports readiness with reasons. Damage to a message or an entity is listed but affects nothing else, so the broker
/// stays ready.
async fn report_ready(State(health): State<Health>) -> impl IntoResponse {
    let status = match health.state() {
        health::State::Ready => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [(CONTENT_TYPE, JSON)], health.report().to_string())
}

/// Returns the metrics. Clients of the administration send a version, and mean the entity of that name.
async fn report_metrics(
    State((metrics, administration)): State<(MetricsPage, Administration)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Result<Response, Infallible> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read || request.uri().query().is_some_and(|query| query.contains("api-version=")) {
        return administer(administration, request).await;
    }
    if !metrics.readers.admit(peer.ip(), request.headers()) {
        let text = "metrics are served to clients on this machine, or with the token of [metrics]; see docs/metrics.md\n";
        return Ok((StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response());
    }
    let registry = metrics.monitoring.registry.clone();
    let is_plain = wants_text_format(request.headers());
    let kind = if is_plain { TEXT_FORMAT } else { peeklock_metrics::CONTENT_TYPE };
    let write = move || registry.text().ok().map(|page| if is_plain { text_format(&page) } else { page });
    // Formatting thousands of entities takes a while.
    let written = spawn_blocking(write).await.ok().flatten();
    Ok(match written {
        Some(text) => ([(CONTENT_TYPE, kind)], text).into_response(),
        None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    })
}

/// A process that answers is alive.
async fn report_live() -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], "{\"status\":\"alive\"}")
}

/// Passes a request to the administration; without one, the broker is starting, standing by or stopping.
async fn administer(administration: Administration, request: Request) -> Result<Response, Infallible> {
    match administration.get() {
        Some(router) => router.oneshot(request).await,
        None => Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()),
    }
}
