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
use peeklock_engine::runtime::{Clock, Namespace, SystemClock, TooFarAhead, TravelClock};
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
            async move {
                if !ADVANCE_MS.contains(&advance_ms) {
                    return Err(format!("'advance_ms' must be from 1 to {}.", ADVANCE_MS.end()));
                }
                travel.advance_by(advance_ms).await.map_err(|why| why.sentence())
            }
        })
    }

    /// Moves the clock; a caller that disconnects does not interrupt it.
    async fn advance_by(&self, advance_ms: u64) -> Result<Timestamp, NotMoved> {
        let namespace = self.namespace().ok_or(NotMoved::Unavailable)?;
        let clock = self.clock.clone();
        let travelling = tokio::spawn(async move { namespace.travel(&clock, advance_ms).await });
        travelling.await.map_err(|_| NotMoved::Interrupted)?.map_err(NotMoved::TooFar)?;
        let now = self.clock.now();
        tracing::info!("the clock was moved forward to {}", iso_8601(now));
        Ok(now)
    }

    /// The route of this API.
    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/development/clock", get(time).post(advance))
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .layer(from_fn(refuse_pages))
            .with_state(self)
    }
}

/// Why the clock was not moved, or not far enough.
#[derive(Debug)]
enum NotMoved {
    /// No namespace is open.
    Unavailable,
    TooFar(TooFarAhead),
    /// The task that moves it ended.
    Interrupted,
}

impl NotMoved {
    /// The reason for the management API.
    fn sentence(&self) -> String {
        match self {
            Self::Unavailable => "The broker is starting or stopping; try again later.".to_owned(),
            Self::TooFar(too_far) => {
                let (ahead, most) = durations(*too_far);
                format!(
                    "The clock is {ahead} ahead of the machine's already and can't be more than {most} ahead."
                )
            }
            Self::Interrupted => "The clock stopped before it reached the requested time.".to_owned(),
        }
    }
}

impl IntoResponse for NotMoved {
    fn into_response(self) -> Response {
        match self {
            Self::Unavailable => {
                let text = "the broker is starting or stopping; ask again when GET /health answers 200";
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            }
            Self::TooFar(too_far) => {
                let (ahead, most) = durations(too_far);
                let text = format!(
                    "advance: the clock is {ahead} ahead of the machine's already and can't be more than {most} \
                     ahead; restart the broker to return to the present"
                );
                (StatusCode::BAD_REQUEST, text).into_response()
            }
            Self::Interrupted => {
                let text = "the clock stopped before it reached the requested time";
                (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
            }
        }
    }
}

/// How far the clock is ahead of the machine's, and the limit.
fn durations(too_far: TooFarAhead) -> (String, String) {
    (duration_text(too_far.ahead_ms), duration_text(TravelClock::AHEAD_MS_MAX))
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

async fn time(State(travel): State<TimeTravel>) -> Response {
    show(travel.clock.now())
}

async fn advance(State(travel): State<TimeTravel>, body: Result<Bytes, BytesRejection>) -> Response {
    let duration_ms = match wanted_ms(body) {
        Ok(duration_ms) => duration_ms,
        Err(message) => return (StatusCode::BAD_REQUEST, message).into_response(),
    };
    travel.advance_by(duration_ms).await.map_or_else(IntoResponse::into_response, show)
}

/// How far to move the clock, in milliseconds, or an error with the expected format.
fn wanted_ms(body: Result<Bytes, BytesRejection>) -> Result<u64, String> {
    let body = body.map_err(|_| format!("the request can't be read or is too long; {ADVICE}"))?;
    let Advance { advance } =
        serde_json::from_slice(&body).map_err(|error| format!("not understood: {error}; {ADVICE}"))?;
    parse_duration_ms(&advance, &ADVANCE_MS).map_err(|error| format!("advance: {error}; {ADVICE}"))
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
    use peeklock_engine::runtime::NamespaceOptions;
    use peeklock_storage::{MemoryStore, ShardId, Store};

    use super::*;

    fn ask(body: &'static str) -> Result<u64, String> {
        wanted_ms(Ok(Bytes::from_static(body.as_bytes())))
    }

    #[test]
    fn instants_are_written_with_milliseconds_in_utc() {
        assert_eq!(iso_8601(Timestamp(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_8601(Timestamp(1_795_284_000_120)), "2026-11-21T18:00:00.120Z");
        assert!(iso_8601(Timestamp::NEVER).starts_with("9999-12-30T"));
    }

    #[test]
    fn the_clock_moves_by_durations_of_either_form() {
        for (body, hours) in [(r#"{"advance":"PT1H"}"#, 1), (r#" { "advance" : "2 days" } "#, 48)] {
            assert_eq!(ask(body), Ok(hours * 3_600_000), "{body}");
        }
    }

    #[test]
    fn invalid_requests_are_refused_with_advice() {
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
            let error = ask(body).expect_err(body);
            assert!(error.contains(expected) && error.ends_with(ADVICE), "{body}: {error}");
        }
    }

    #[tokio::test]
    async fn a_hundred_years_are_the_limit_of_all_jumps() {
        let travel = TimeTravel { clock: TravelClock::new(), namespace: Arc::default() };
        let day_ms = 86_400_000;
        assert!(matches!(travel.advance_by(day_ms).await, Err(NotMoved::Unavailable)));
        let lease = MemoryStore::new().acquire(ShardId(0)).await.unwrap();
        let (clock, options) = (Arc::new(travel.clock()), NamespaceOptions::default());
        travel.set_namespace(Some(Namespace::start(lease, clock, options).await.unwrap()));
        travel.clock.advance(36_499 * day_ms).unwrap();
        let refused = travel.advance_by(2 * day_ms).await.unwrap_err().sentence();
        assert!(
            refused.contains("is PT875976H ahead") && refused.contains("than PT876000H ahead"),
            "{refused}"
        );
        travel.advance_by(day_ms).await.unwrap();
    }
}
