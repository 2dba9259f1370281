//! Reads the body of a request, with limits.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body::Frame;
use http_body_util::BodyExt;
use peeklock_errors::ErrorKind;
use tokio::time::{Instant, timeout_at};

use super::limits::{Limits, Room, SILENCE_MAX};
use crate::error::Error;

/// How often the pace of a body is checked.
const PACE_WINDOW: Duration = Duration::from_secs(2);

/// A body of which fewer bytes arrive in a window ends if others wait for its memory; the same pace as over AMQP.
const PACE_BYTES_MIN: usize = 64 * 1024;

/// Reads a body of at most `bytes_max` that is not needed.
///
/// # Errors
/// 413 for a longer one, 408 when no data arrives for too long, 400 when it ends early.
pub(crate) async fn skip(mut body: Body, bytes_max: u64) -> Result<(), Error> {
    if body.size_hint().lower() > bytes_max {
        return Err(too_long(bytes_max));
    }
    let (mut pace, mut skipped_bytes) = (Pace::new(), 0);
    while let Some(frame) = pace.next_frame(&mut body, || false).await? {
        skipped_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        if skipped_bytes > bytes_max {
            return Err(too_long(bytes_max));
        }
    }
    Ok(())
}

fn too_long(bytes_max: u64) -> Error {
    let text = format!("The body is longer than the {bytes_max} bytes that can be accepted here.");
    Error::of(ErrorKind::BodyTooLarge, text)
}

/// Reads a body of at most `bytes_max`, with memory reserved for it. If its declared length is larger, it is not read at
/// all. A body that does not declare its length counts as a small one until it is larger.
///
/// # Errors
/// 413 for a longer one, 408 when no data arrives for too long, 400 when it ends early, 503 if memory is short, or if it
/// is slow while others wait.
pub(crate) async fn read(limits: &Limits, mut body: Body, bytes_max: u64) -> Result<(Bytes, Room), Error> {
    let declared_bytes = body.size_hint().lower();
    if declared_bytes > bytes_max {
        return Err(too_long(bytes_max));
    }
    let (mut room, mut room_bytes) = match body.size_hint().upper().map(|bytes| bytes.min(bytes_max)) {
        Some(bytes) => (limits.body(bytes).await?, bytes),
        None => limits.unknown_body(bytes_max).await?,
    };
    // Growing by doubling would copy a large body again and again. Pages that are never written take no memory.
    let mut read = BytesMut::with_capacity(usize::try_from(declared_bytes).unwrap_or(0));
    let mut pace = Pace::new();
    loop {
        let frame = pace.next_frame(&mut body, || room.is_wanted()).await?;
        let Some(frame) = frame else { return Ok((read.freeze(), room)) };
        let Ok(data) = frame.into_data() else { continue };
        let read_bytes = (read.len() + data.len()) as u64;
        if read_bytes > bytes_max {
            return Err(too_long(bytes_max));
        }
        if read_bytes > room_bytes {
            room.join(limits.body(bytes_max - room_bytes).await?);
            room_bytes = bytes_max;
            pace = Pace::new();
        }
        pace.window_bytes += data.len();
        read.extend_from_slice(&data);
    }
}

/// How fast a body arrives.
struct Pace {
    window_ends: Instant,
    window_bytes: usize,
}

impl Pace {
    fn new() -> Self {
        Self { window_ends: Instant::now() + PACE_WINDOW, window_bytes: 0 }
    }

    /// The next part of a body; `None` at its end.
    async fn next_frame(
        &mut self,
        body: &mut Body,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Option<Frame<Bytes>>, Error> {
        let silence_ends = Instant::now() + SILENCE_MAX;
        loop {
            if let Ok(frame) = timeout_at(self.window_ends.min(silence_ends), body.frame()).await {
                let ended_early =
                    |error| Error::bad_request(format!("The body of the request ended early: {error}."));
                return frame.transpose().map_err(ended_early);
            }
            if Instant::now() >= silence_ends {
                let text = "The rest of the request did not come in time.";
                return Err(Error::of(ErrorKind::BodyTimeOut, text));
            }
            if is_wanted() && self.window_bytes < PACE_BYTES_MIN {
                return Err(Error::busy(
                    "The request arrives slowly while others wait for memory; retry it.",
                ));
            }
            *self = Self::new();
        }
    }
}
