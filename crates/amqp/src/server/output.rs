//! Bytes that wait for the socket.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::limits::WRITE_SLICES_MAX;

/// Slices in order; written in one vectored write at a time.
#[derive(Debug, Default)]
pub(super) struct Output {
    slices: Vec<Bytes>,
    /// Number of slices at the front that have been written.
    written: usize,
    bytes: usize,
    /// Whether the stream may buffer written bytes: TLS records, frames of WebSockets.
    unflushed: bool,
    end: End,
}

/// The end of the output.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// To be ended after the last byte.
    Due,
    /// The socket has been shut down for writing.
    Done,
}

impl Output {
    /// Bytes not written yet.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Whether bytes have to be written or flushed, or the output has to be ended.
    pub(super) fn is_unfinished(&self) -> bool {
        self.bytes > 0 || self.unflushed || self.end == End::Due
    }

    /// Ends the output after its last byte: the socket is then shut down for writing, and the peer sees the end.
    pub(super) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Due;
        }
    }

    /// Lets `produce` append slices.
    pub(super) fn append(&mut self, produce: impl FnOnce(&mut Vec<Bytes>)) {
        if self.bytes == 0 {
            self.slices.clear();
            self.written = 0;
        }
        let before = self.slices.len();
        produce(&mut self.slices);
        self.bytes += self.slices.iter().skip(before).map(Bytes::len).sum::<usize>();
    }

    /// Writes once, flushes after the last byte, and ends the output if that is due. Must not be called when nothing is unfinished.
    pub(super) fn poll_write(
        &mut self,
        socket: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes > 0 {
            ready!(self.poll_write_once(socket, context))?;
        }
        if self.bytes == 0 {
            self.unflushed = true;
            ready!(Pin::new(&mut *socket).poll_flush(context))?;
            self.unflushed = false;
            if self.end == End::Due {
                ready!(Pin::new(socket).poll_shutdown(context))?;
                self.end = End::Done;
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_once(
        &mut self,
        socket: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut vector = [IoSlice::new(&[]); WRITE_SLICES_MAX];
        let waiting = self.slices.iter().skip(self.written);
        let mut used = 0;
        for (place, slice) in vector.iter_mut().zip(waiting) {
            *place = IoSlice::new(slice);
            used += 1;
        }
        let written = match vector.get(..used).unwrap_or_default() {
            // The kernel needs less for one slice that is not in a list.
            [slice] => ready!(Pin::new(socket).poll_write(context, slice))?,
            slices => ready!(Pin::new(socket).poll_write_vectored(context, slices))?,
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.bytes -= written;
        while let Some(slice) = self.slices.get_mut(self.written).filter(|_| written > 0) {
            let step = written.min(slice.len());
            slice.advance(step);
            written -= step;
            if slice.is_empty() {
                *slice = Bytes::new();
                self.written += 1;
            }
        }
        if self.bytes == 0 {
            self.slices.clear();
            self.written = 0;
        }
    }
}
