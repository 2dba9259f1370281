//! Closes the socket of an ended connection.

use std::future::poll_fn;
use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use super::limits::{LINGER_BYTES_MAX, LINGER_MS};
use super::output::Output;
use super::timer::Timer;

/// Lets the peer read the remaining output and close the socket first, within limits of time and bytes.
pub(super) async fn linger<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    mut output: Output,
    timer: Timer,
) {
    let too_long = timer.sleep_ms(LINGER_MS);
    let farewell = async {
        output.finish();
        while output.is_unfinished() {
            poll_fn(|context| output.poll_write(&mut socket, context)).await?;
        }
        let mut thrown_away = 0;
        let mut bytes = BytesMut::with_capacity(super::limits::READ_BYTES_MIN);
        while thrown_away < LINGER_BYTES_MAX && socket.read_buf(&mut bytes).await? > 0 {
            thrown_away += bytes.len();
            bytes.clear();
        }
        io::Result::Ok(())
    };
    tokio::select! {
        result = farewell => if let Err(failure) = result {
            tracing::trace!(error = %failure, "socket failed after the end");
        },
        () = too_long => {}
    }
}
