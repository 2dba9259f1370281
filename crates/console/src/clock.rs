//! `GET clock` and `POST clock`: the broker's time, and moving it forward where that is enabled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use peeklock_admin::Error;
use peeklock_engine::Timestamp;
use peeklock_errors::ErrorKind;
use serde::Deserialize;
use serde_json::json;

use crate::answer::{Outcome, found};
use crate::call::{BODY_BYTES_MAX, Call};
use crate::{Console, time};

/// Resolves when all due events have been handled: to the new time, or an error text.
type Advancing = Pin<Box<dyn Future<Output = Result<Timestamp, String>> + Send>>;

/// Moves the broker's clock forward.
#[derive(Clone)]
pub struct ClockMover(Arc<dyn Fn(u64) -> Advancing + Send + Sync>);

impl ClockMover {
    /// Calls `advance` with the length of the jump, in milliseconds.
    pub fn new<F>(advance: impl Fn(u64) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Timestamp, String>> + Send + 'static,
    {
        Self(Arc::new(move |advance_ms| Box::pin(advance(advance_ms))))
    }
}

impl fmt::Debug for ClockMover {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClockMover").finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance_ms: u64,
}

/// The broker's time.
pub(crate) fn get(console: &Console, call: &Call) -> Outcome {
    call.manage(console)?;
    mover(console)?;
    found(json!({ "now": time::text(console.admin.namespace.clock().now()) }))
}

/// Moves the broker's time forward; answers when all due events have been handled.
pub(crate) async fn advance(console: &Console, call: &Call, body: Body) -> Outcome {
    call.manage(console)?;
    let ClockMover(advance) = mover(console)?;
    let (asked, _room) = call.json::<Advance>(console, body, BODY_BYTES_MAX).await?;
    let now = advance(asked.advance_ms).await.map_err(Error::bad_request)?;
    found(json!({ "now": time::text(now) }))
}

fn mover(console: &Console) -> Result<&ClockMover, Error> {
    console.clock.as_ref().ok_or_else(|| {
        let text = "The clock of this broker can't be moved: it was started without time travel.";
        Error::of(ErrorKind::EntityNotFound, text)
    })
}
