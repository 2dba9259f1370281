//! HTTP: `GET /health`, in development `/development/clock`, and everything else for the administration, once there is
//! one.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tokio::net::TcpListener;
use tower::ServiceExt;

use super::bounded::BoundedListener;
use super::development::TimeTravel;
use super::health::Health;

/// The texts of the Service Bus emulator's health endpoint.
const HEALTHY: &str = r#"{"status":"healthy","message":"Service is healthy."}"#;
const UNHEALTHY: &str =
    r#"{"status":"unhealthy","message":"Service not available. Please try after some time."}"#;

/// What answers when entities are there to be administered; set once.
pub(super) type Administration = Arc<OnceLock<Router>>;

/// Serves until the task is dropped. The clock can be moved only if there is a `travel`.
pub(super) async fn serve(
    listener: TcpListener,
    health: Health,
    travel: Option<TimeTravel>,
    administration: Administration,
) {
    let state = (health, Arc::clone(&administration));
    let router = Router::new().route("/health", any(report)).with_state(state);
    let router = router.merge(travel.map_or_else(Router::new, TimeTravel::router));
    let router = router.fallback(move |request| administer(administration, request));
    if let Err(error) = axum::serve(BoundedListener::new(listener), router).await {
        tracing::error!("HTTP stopped: {error}");
    }
}

/// Tells how the broker is; whoever shows who they are asks about the queue or topic of that name.
async fn report(
    State((health, administration)): State<(Health, Administration)>,
    request: Request,
) -> Result<Response, Infallible> {
    if request.method() != Method::GET || request.headers().contains_key(AUTHORIZATION) {
        return administer(administration, request).await;
    }
    let (status, body) = if health.is_ready() {
        (StatusCode::OK, HEALTHY)
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, UNHEALTHY)
    };
    Ok((status, [(CONTENT_TYPE, "application/json")], body).into_response())
}

/// Hands a request on to the administration; before there is one, the broker is starting.
async fn administer(administration: Administration, request: Request) -> Result<Response, Infallible> {
    match administration.get() {
        Some(router) => router.clone().oneshot(request).await,
        None => Ok(StatusCode::SERVICE_UNAVAILABLE.into_response()),
    }
}
