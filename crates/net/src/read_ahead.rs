//! A stream whose first bytes were already read, optionally with read-ahead: rustls requests 4 KiB at a time, and every
//! read is a system call.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Size of the read-ahead in bytes: a connection that is not read because memory is short holds this in addition to
/// what it reports.
const AHEAD_BYTES: usize = 16 << 10;

/// A stream with read-ahead.
pub type ReadAhead<S> = AheadOf<S, AHEAD_BYTES>;

/// A stream without read-ahead.
pub type Rewind<S> = AheadOf<S, 0>;

/// Returns the bytes that were already read, then those of the stream, of which it reads at least `BYTES` at a time.
/// Holds no memory while nothing arrives.
#[derive(Debug)]
pub struct AheadOf<S, const BYTES: usize> {
    ahead: BytesMut,
    stream: S,
}

impl<S, const BYTES: usize> AheadOf<S, BYTES> {
    /// `first` are the bytes already read.
    pub fn new(first: BytesMut, stream: S) -> Self {
        Self { ahead: first, stream }
    }
}

impl<S: AsyncRead + Unpin, const BYTES: usize> AheadOf<S, BYTES> {
    /// Reads once into the empty buffer, which stays empty at the end of the stream.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ahead.reserve(BYTES);
        // The future keeps no state between polls, so a new one each time is equivalent.
        let read = pin!(self.stream.read_buf(&mut self.ahead)).poll(context);
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
        read.map_ok(drop)
    }
}

impl<S: AsyncRead + Unpin, const BYTES: usize> AsyncRead for AheadOf<S, BYTES> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            if buffer.remaining() >= BYTES {
                self.ahead = BytesMut::new();
                return Pin::new(&mut self.stream).poll_read(context, buffer);
            }
            ready!(self.poll_fill(context))?;
        }
        let length = self.ahead.len().min(buffer.remaining());
        buffer.put_slice(self.ahead.get(..length).unwrap_or_default());
        self.ahead.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, const BYTES: usize> AsyncWrite for AheadOf<S, BYTES> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn first_bytes_come_first_and_all_the_rest_follows() {
        let (mut near, far) = duplex(256 << 10);
        let sent: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        near.write_all(&sent).await.unwrap();
        drop(near);
        let mut reader = ReadAhead::new(BytesMut::from("first"), far);
        let mut read = Vec::new();
        // Alternates small and large reads.
        for wanted in [3, 4_096, 100_000].into_iter().cycle() {
            let before = read.len();
            let mut part = vec![0; wanted];
            let length = reader.read(&mut part).await.unwrap();
            read.extend_from_slice(&part[..length]);
            if read.len() == before {
                break;
            }
        }
        assert_eq!(read, [b"first", &sent[..]].concat());
    }

    #[tokio::test]
    async fn without_reading_ahead_the_first_bytes_come_first_and_are_not_kept() {
        let (mut near, far) = duplex(64);
        near.write_all(b" and the rest").await.unwrap();
        drop(near);
        let mut reader = Rewind::new(BytesMut::from("the start"), far);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!((text.as_str(), reader.ahead.capacity()), ("the start and the rest", 0));
    }

    #[tokio::test]
    async fn nothing_is_held_while_nothing_comes() {
        let (mut near, far) = duplex(64);
        let mut reader = ReadAhead::new(BytesMut::new(), far);
        near.write_all(b"ab").await.unwrap();
        assert_eq!((reader.read_u8().await.unwrap(), reader.ahead.len()), (b'a', 1));
        assert_eq!(reader.read_u8().await.unwrap(), b'b');
        tokio::select! {
            biased;
            read = reader.read_u8() => panic!("{read:?}"),
            () = async {} => {}
        }
        assert_eq!(reader.ahead.capacity(), 0);
    }
}
