//! HTTP: `GET /health` and, in development, `/development/clock`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use super::bounded::BoundedListener;
use super::development::TimeTravel;
use super::health::Health;

/// The texts of the Service Bus emulator's health endpoint.
const HEALTHY: &str = r#"{"status":"healthy","message":"Service is healthy."}"#;
const UNHEALTHY: &str =
    r#"{"status":"unhealthy","message":"Service not available. Please try after some time."}"#;

/// Serves until the task is dropped. The clock can be moved only if there is a `travel`.
pub(super) async fn serve(listener: TcpListener, health: Health, travel: Option<TimeTravel>) {
    let router = Router::new().route("/health", get(report)).with_state(health);
    let router = router.merge(travel.map_or_else(Router::new, TimeTravel::router));
    if let Err(error) = axum::serve(BoundedListener::new(listener), router).await {
        tracing::error!("HTTP stopped: {error}");
    }
}

async fn report(State(health): State<Health>) -> impl IntoResponse {
    let (status, body) = if health.is_ready() {
        (StatusCode::OK, HEALTHY)
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, UNHEALTHY)
    };
    (status, [(CONTENT_TYPE, "application/json")], body)
}
