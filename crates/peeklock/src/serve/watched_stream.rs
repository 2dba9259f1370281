//! A stream of an HTTP connection whose end is noticed while a request waits, also behind bytes that the server does not
//! read yet: a line end after a body, or further requests. Hyper looks for the end only while it holds no such bytes.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use peeklock_admin::Departure;
use peeklock_net::ByteStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Most bytes that are read ahead; the end behind more bytes is not noticed.
const AHEAD_BYTES_MAX: usize = 8 << 10;

/// A stream that its server and a waiting request share. Both are polled by the task of the connection.
#[derive(Debug)]
pub(super) struct WatchedStream<S>(Arc<Mutex<Watched<S>>>);

#[derive(Debug)]
struct Watched<S> {
    stream: S,
    /// Bytes that were read while a request waited.
    ahead: BytesMut,
}

impl<S: ByteStream> WatchedStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Arc::new(Mutex::new(Watched { stream, ahead: BytesMut::new() })))
    }

    /// Watches for the end of the stream until the stream is dropped.
    pub(super) fn departure(&self) -> Departure {
        let watched = Arc::downgrade(&self.0);
        Departure::new(move |context| match watched.upgrade() {
            Some(watched) => lock(&watched).poll_end(context),
            None => Poll::Ready(()),
        })
    }

    /// The stream, and the bytes that were read ahead of it.
    pub(super) fn into_parts(self) -> Option<(S, BytesMut)> {
        let watched = Arc::into_inner(self.0)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        Some((watched.stream, watched.ahead))
    }
}

fn lock<S>(watched: &Mutex<Watched<S>>) -> MutexGuard<'_, Watched<S>> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: ByteStream> Watched<S> {
    /// Reads ahead until the stream ends or fails.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.ahead.len() < AHEAD_BYTES_MAX {
            self.ahead.reserve(AHEAD_BYTES_MAX - self.ahead.len());
            // The future keeps no state between polls, so a new one each time is equivalent.
            let read = pin!(self.stream.read_buf(&mut self.ahead)).poll(context);
            if self.ahead.is_empty() {
                self.ahead = BytesMut::new();
            }
            if matches!(ready!(read), Ok(0) | Err(_)) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(self.ahead.get(..length).unwrap_or_default());
        self.ahead.advance(length);
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: ByteStream> AsyncRead for WatchedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).poll_read(context, buffer)
    }
}

impl<S: ByteStream> AsyncWrite for WatchedStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut lock(&self.0).stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut lock(&self.0).stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        lock(&self.0).stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn poll_end(stream: &WatchedStream<DuplexStream>) -> Poll<()> {
        lock(&stream.0).poll_end(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn the_end_is_noticed_behind_bytes_which_are_read_later() {
        let (mut client, server) = duplex(64);
        let mut stream = WatchedStream::new(server);
        assert!(poll_end(&stream).is_pending());
        client.write_all(b"\r\nGET /").await.unwrap();
        assert!(poll_end(&stream).is_pending());
        drop(client);
        assert!(poll_end(&stream).is_ready());
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"\r\nGET /");
    }

    #[tokio::test]
    async fn few_bytes_are_read_ahead_and_an_upgrade_gets_them() {
        let (mut client, server) = duplex(4 * AHEAD_BYTES_MAX);
        let sent: Vec<u8> = (0..3 * AHEAD_BYTES_MAX).map(|number| number.to_le_bytes()[0]).collect();
        client.write_all(&sent).await.unwrap();
        drop(client);
        let stream = WatchedStream::new(server);
        assert!(poll_end(&stream).is_pending(), "the end is behind too many bytes");
        let (mut server, ahead) = stream.into_parts().unwrap();
        assert!((AHEAD_BYTES_MAX..2 * AHEAD_BYTES_MAX).contains(&ahead.len()), "{}", ahead.len());
        let mut read = ahead.to_vec();
        server.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, sent);
    }
}
