//! What is answered over HTTP: `GET /health`, `/health/ready`, `/health/live` and `/metrics`, in development `/development/clock`, and
//! everything else by the administration, once there is one.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower::ServiceExt;

use super::development::TimeTravel;
use super::health::{self, Health};
use super::metrics;

/// Tells how the broker is.
const HEALTH: &str = "/health";

const JSON: &str = "application/json";
/// The texts of the Service Bus emulator's health endpoint.
const HEALTHY: &str = r#"{"status":"healthy","message":"Service is healthy."}"#;
const UNHEALTHY: &str =
    r#"{"status":"unhealthy","message":"Service not available. Please try after some time."}"#;

/// What answers when entities are there to be administered; set once.
pub(super) type Administration = Arc<OnceLock<Router>>;

/// All paths. The clock can be moved only if there is a `travel`.
pub(super) fn router(health: Health, travel: Option<TimeTravel>, administration: Administration) -> Router {
    let router = Router::new()
        .route(HEALTH, get(report))
        .route("/health/ready", get(report_ready))
        .route("/health/live", get(report_live))
        .route("/metrics", get(report_metrics))
        .route_layer(from_fn_with_state(Arc::clone(&administration), unless_token))
        .with_state(health);
    let router = router.merge(travel.map_or_else(Router::new, TimeTravel::router));
    router.fallback(move |request| administer(Arc::clone(&administration), request))
}

/// Whoever shows who they are, or wants to change something, means the queue or topic of that name.
async fn unless_token(
    State(administration): State<Administration>,
    request: Request,
    next: Next,
) -> Result<Response, Infallible> {
    let asks = matches!(*request.method(), Method::GET | Method::HEAD);
    if asks && !request.headers().contains_key(AUTHORIZATION) {
        return Ok(next.run(request).await);
    }
    administer(administration, request).await
}

/// Ready or not, in the emulator's words.
async fn report(State(health): State<Health>) -> impl IntoResponse {
    let (status, body) = match health.state() {
        health::State::Ready => (StatusCode::OK, HEALTHY),
        _ => (StatusCode::SERVICE_UNAVAILABLE, UNHEALTHY),
    };
    (status, [(CONTENT_TYPE, JSON)], body)
}

/// The same, and if not, why. Damage to a message or an entity is listed and keeps nothing else from being served, so the
/// broker stays in service.
async fn report_ready(State(health): State<Health>) -> impl IntoResponse {
    let status = match health.state() {
        health::State::Ready => StatusCode::OK,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, [(CONTENT_TYPE, JSON)], health.report().to_string())
}

/// Numbers for monitoring.
async fn report_metrics(State(health): State<Health>) -> impl IntoResponse {
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&health))
}

/// A process that answers is alive.
async fn report_live() -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], "{\"status\":\"alive\"}")
}

/// Hands a request on to the administration; before there is one, the broker is starting.
async fn administer(administration: Administration, request: Request) -> Result<Response, Infallible> {
    match administration.get() {
        Some(router) => router.clone().oneshot(request).await,
        None => Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()),
    }
}
