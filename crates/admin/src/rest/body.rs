//! Reads the body of a request, with limits.

use axum::body::{Body, HttpBody};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use peeklock_errors::ErrorKind;
use tokio::time::timeout;

use super::limits::SILENCE_MAX;
use crate::error::Error;

/// Reads a body of at most `bytes_max`. If its declared length is larger, it is not read at all.
///
/// # Errors
/// 413 for a longer one, 408 when no data arrives for too long, 400 when it ends early.
pub(crate) async fn read(mut body: Body, bytes_max: u64) -> Result<Bytes, Error> {
    let too_long = || {
        let text = format!("The body is longer than the {bytes_max} bytes that can be accepted here.");
        Error::of(ErrorKind::BodyTooLarge, text)
    };
    let declared_bytes = body.size_hint().lower();
    if declared_bytes > bytes_max {
        return Err(too_long());
    }
    // Growing by doubling would copy a large body again and again. Pages that are never written take no memory.
    let mut read = BytesMut::with_capacity(usize::try_from(declared_bytes).unwrap_or(0));
    loop {
        let frame = timeout(SILENCE_MAX, body.frame()).await;
        let frame = frame.map_err(|_| {
            Error::of(ErrorKind::BodyTimeOut, "The rest of the request did not come in time.")
        })?;
        let Some(frame) = frame else { return Ok(read.freeze()) };
        let frame = frame
            .map_err(|error| Error::bad_request(format!("The body of the request ended early: {error}.")))?;
        let Ok(data) = frame.into_data() else { continue };
        if (read.len() + data.len()) as u64 > bytes_max {
            return Err(too_long());
        }
        read.extend_from_slice(&data);
    }
}
