//! `/development/clock`: returns the broker's time, and moves it forward for tests.

use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::ORIGIN;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::Timestamp as Instant;
use peeklock_console::ClockMover;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::{Clock, Namespace, SystemClock, TravelClock};
use serde::Deserialize;
use serde_json::json;

use crate::config::{duration_text, parse_duration_ms};

const ADVICE: &str = r#"write {"advance":"PT1H"} or {"advance":"1 hour"}"#;
/// Range of one move of the clock.
const ADVANCE_MS: RangeInclusive<u64> = 1..=TravelClock::AHEAD_MS_MAX;
const REQUEST_BYTES_MAX: usize = 4 << 10;

/// The clock that can be moved, and the namespace to notify; cheap to clone.
#[derive(Clone)]
pub(super) struct TimeTravel {
    clock: TravelClock,
    /// Set while connections are accepted.
    namespace: Arc<RwLock<Option<Namespace>>>,
}

impl TimeTravel {
    /// A clock ahead of the broker's by the moves of tests.
    pub(super) fn over(time: SystemClock) -> Self {
        Self { clock: TravelClock::over(time), namespace: Arc::default() }
    }

    /// The clock, for the namespace.
    pub(super) fn clock(&self) -> TravelClock {
        self.clock.clone()
    }

    /// Sets the namespace whose timers fire when the clock is moved; with `None`, moves are refused.
    pub(super) fn set_namespace(&self, namespace: Option<Namespace>) {
        *self.namespace.write().unwrap_or_else(PoisonError::into_inner) = namespace;
    }

    fn namespace(&self) -> Option<Namespace> {
        self.namespace.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The mover for the management API.
    pub(super) fn mover(&self) -> ClockMover {
        let travel = self.clone();
        ClockMover::new(move |advance_ms| {
            let travel = travel.clone();
            async move { travel.advance_by(advance_ms).await }
        })
    }

    /// Moves the clock; a caller that disconnects does not interrupt it.
    async fn advance_by(&self, advance_ms: u64) -> Result<Timestamp, String> {
        let namespace = self.namespace().ok_or("The broker is starting or stopping; try again later.")?;
        if !ADVANCE_MS.contains(&advance_ms) {
            return Err(format!("'advance_ms' must be from 1 to {}.", ADVANCE_MS.end()));
        }
        self.clock.check(advance_ms).map_err(|too_far| {
            let (ahead, most) = (duration_text(too_far.ahead_ms), duration_text(TravelClock::AHEAD_MS_MAX));
            format!(
                "The clock is {ahead} ahead of the machine's already and can't be more than {most} ahead."
            )
        })?;
        let clock = self.clock.clone();
        let travelling = tokio::spawn(async move { namespace.travel(&clock, advance_ms).await });
        travelling.await.map_err(|_| "The clock stopped before it reached the requested time.")?;
        let now = self.clock.now();
        tracing::info!("the clock was moved forward to {}", iso_8601(now));
        Ok(now)
    }

    /// The route of this API.
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/development/clock", get(tell).post(advance))
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .layer(from_fn(refuse_pages))
            .with_state(self)
    }
}

/// The body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance: String,
}

/// The clock requires no token, so requests from web pages of other sites must not move it. Browsers mark each request
/// of this kind.
async fn refuse_pages(request: Request, next: Next) -> Response {
    if request.headers().contains_key(ORIGIN) {
        return (StatusCode::FORBIDDEN, "web pages can't move the clock").into_response();
    }
    next.run(request).await
}

async fn tell(State(travel): State<TimeTravel>) -> Response {
    show(travel.clock.now())
}

async fn advance(State(travel): State<TimeTravel>, body: Result<Bytes, BytesRejection>) -> Response {
    let Some(namespace) = travel.namespace() else {
        let text = "the broker is starting or stopping; ask again when GET /health answers 200";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let duration_ms = match wanted_ms(&travel.clock, body) {
        Ok(duration_ms) => duration_ms,
        Err(message) => return (StatusCode::BAD_REQUEST, message).into_response(),
    };
    let clock = travel.clock.clone();
    // A client that disconnects does not interrupt it.
    let travelling = tokio::spawn(async move { namespace.travel(&clock, duration_ms).await });
    if travelling.await.is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the clock stopped before it reached the requested time")
            .into_response();
    }
    let now = travel.clock.now();
    tracing::info!("the clock was moved forward to {}", iso_8601(now));
    show(now)
}

/// How far to move the clock, in milliseconds, or an error with the expected format.
fn wanted_ms(clock: &TravelClock, body: Result<Bytes, BytesRejection>) -> Result<u64, String> {
    let body = body.map_err(|_| format!("the request can't be read or is too long; {ADVICE}"))?;
    let Advance { advance } =
        serde_json::from_slice(&body).map_err(|error| format!("not understood: {error}; {ADVICE}"))?;
    let duration_ms =
        parse_duration_ms(&advance, &ADVANCE_MS).map_err(|error| format!("advance: {error}; {ADVICE}"))?;
    clock.check(duration_ms).map(|()| duration_ms).map_err(|too_far| {
        format!(
            "advance: the clock is {} ahead of the machine's already and can't be more than {} ahead; restart the \
             broker to return to the present",
            duration_text(too_far.ahead_ms),
            duration_text(TravelClock::AHEAD_MS_MAX),
        )
    })
}

fn show(now: Timestamp) -> Response {
    Json(json!({ "now": iso_8601(now) })).into_response()
}

/// `2026-11-21T18:00:00.000Z`
fn iso_8601(at: Timestamp) -> String {
    let instant = i64::try_from(at.0).ok().and_then(|ms| Instant::from_millisecond(ms).ok());
    format!("{:.3}", instant.unwrap_or(Instant::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(clock: &TravelClock, body: &'static str) -> Result<u64, String> {
        wanted_ms(clock, Ok(Bytes::from_static(body.as_bytes())))
    }

    #[test]
    fn instants_are_written_with_milliseconds_in_utc() {
        assert_eq!(iso_8601(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_8601(Timestamp(1_795_284_000_120)), "2026-11-21T18:00:00.120Z");
        assert!(iso_8601(Timestamp::NEVER).starts_with("9999-12-30T"));
    }

    #[test]
    fn the_clock_moves_by_durations_of_either_form() {
        let clock = TravelClock::new();
        for (body, hours) in [(r#"{"advance":"PT1H"}"#, 1), (r#" { "advance" : "2 days" } "#, 48)] {
            assert_eq!(ask(&clock, body), Ok(hours * 3_600_000), "{body}");
        }
    }

    #[test]
    fn invalid_requests_are_refused_with_advice() {
        let clock = TravelClock::new();
        for (body, expected) in [
            ("", "not understood: EOF"),
            ("advance=PT1H", "not understood: expected value"),
            ("{}", "missing field `advance`"),
            (r#"{"advance":3600}"#, "invalid type: integer `3600`, expected a string"),
            (r#"{"advance":"PT1H","to":"x"}"#, "unknown field `to`"),
            (r#"{"advance":"soon"}"#, "\"soon\" is not a duration"),
            (r#"{"advance":"-PT1H"}"#, "\"-PT1H\" is negative"),
            (r#"{"advance":"PT0S"}"#, "\"PT0S\" is outside the range from PT0.001S to PT876000H"),
            (r#"{"advance":"200 years"}"#, "has years or months"),
            (r#"{"advance":"99999 days"}"#, "\"99999 days\" is outside the range"),
            (r#"{"advance":"unlimited"}"#, "\"unlimited\" is outside the range"),
        ] {
            let error = ask(&clock, body).expect_err(body);
            assert!(error.contains(expected) && error.ends_with(ADVICE), "{body}: {error}");
        }
    }

    #[test]
    fn a_hundred_years_are_the_limit_of_all_jumps() {
        let clock = TravelClock::new();
        clock.advance(ask(&clock, r#"{"advance":"36499 days"}"#).unwrap()).unwrap();
        let error = ask(&clock, r#"{"advance":"2 days"}"#).unwrap_err();
        assert!(error.contains("is PT875976H ahead") && error.contains("than PT876000H ahead"), "{error}");
    }
}
