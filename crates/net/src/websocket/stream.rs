//! A byte stream over binary frames, on the server side.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use super::input::{Input, Next};

/// Size of a read for small frames; the payload of a large one is read directly into the caller's buffer.
const READ_BYTES: usize = 16 << 10;
/// Longest frame sent, in bytes: small enough for peers that buffer whole frames.
const FRAME_BYTES_MAX: usize = 64 << 10;
/// Slices written at once, one of them the header.
const SLICES_MAX: usize = 64;

/// Reads the payload of binary frames and writes binary frames. Answers pings and closes while it is being read.
#[derive(Debug)]
pub struct WebSocket<S> {
    stream: S,
    input: Input,
    read: BytesMut,
    /// Control frames and the header of a data frame, waiting to be written.
    head: BytesMut,
    /// Payload bytes of the current data frame that have not been written.
    promised: usize,
    /// A pong that waits for the end of the current data frame; only the last one matters (RFC 6455, §5.5.3).
    pong: Option<BytesMut>,
    /// The peer closed, or violated the protocol.
    ended: bool,
    /// The payload of a close frame to be sent.
    close: Option<SmallVec<[u8; 2]>>,
    /// A close frame is being written: nothing may follow.
    closed: bool,
}

impl<S> WebSocket<S> {
    /// Wraps a stream after the handshake. `read` are bytes that were read with the handshake.
    pub fn new(stream: S, read: BytesMut) -> Self {
        Self {
            stream,
            input: Input::default(),
            read,
            head: BytesMut::new(),
            promised: 0,
            pong: None,
            ended: false,
            close: None,
            closed: false,
        }
    }

    /// Queues pending control frames before the next data frame.
    fn queue_control(&mut self) {
        if self.promised > 0 || self.closed {
            return;
        }
        // Answers must not pile up behind one that the peer does not read.
        if let Some(content) = self.pong.take_if(|_| self.head.is_empty()) {
            self.queue_header(OpCode::Control(Control::Pong), content.len());
            self.head.extend_from_slice(&content);
        }
        if let Some(code) = self.close.take() {
            self.queue_header(OpCode::Control(Control::Close), code.len());
            self.head.extend_from_slice(&code);
            self.closed = true;
        }
    }

    fn queue_header(&mut self, opcode: OpCode, length: usize) {
        let header =
            FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask: None };
        // Writing to memory can't fail.
        let _ = header.format(length as u64, &mut (&mut self.head).writer());
    }

    /// Ends the input: the peer closed, or violated the protocol. A close with this code answers.
    fn end(&mut self, code: Option<CloseCode>) {
        self.ended = true;
        self.close = Some(payload(code));
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocket<S> {
    /// Reads into the own buffer; 0 is the end. Holds no memory while nothing arrives.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.read.reserve(READ_BYTES);
        let read = pin!(self.stream.read_buf(&mut self.read)).poll(context);
        if self.read.is_empty() {
            self.read = BytesMut::new();
        }
        read
    }

    /// Writes control frames and the rest of a header.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.queue_control();
            if self.head.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.head))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.head.advance(written);
        }
    }

    /// Answers pings while nothing else is written; the next write reports a failure.
    fn answer(&mut self, context: &mut Context<'_>) {
        if self.promised == 0 && self.poll_head(context).is_ready() {
            let _ = Pin::new(&mut self.stream).poll_flush(context);
        }
    }

    /// Returns payload: bytes that were read with its header, otherwise directly from the stream, bypassing our buffer.
    fn poll_payload(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        length: u64,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let fits = |bytes: usize| bytes.min(usize::try_from(length).unwrap_or(usize::MAX));
        if self.read.is_empty() && fits(usize::MAX) < buffer.remaining() {
            // A header follows the end of this frame.
            if ready!(self.poll_fill(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        if self.read.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
            if buffer.filled().len() == before {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        } else {
            let part = self.read.split_to(fits(self.read.len()).min(buffer.remaining()));
            buffer.put_slice(&part);
        }
        self.input.take(buffer.filled_mut().get_mut(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for WebSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.ended && buffer.remaining() > 0 {
            let this = &mut *self;
            match this.input.next(&mut this.read) {
                Ok(Next::Payload(length)) => return this.poll_payload(context, buffer, length),
                Ok(Next::More) => {
                    if this.pong.is_some() {
                        this.answer(context);
                    }
                    if ready!(this.poll_fill(context))? == 0 {
                        // Closing without a close frame is common; within a message it is data loss.
                        let whole = this.input.is_between_messages() && this.read.is_empty();
                        this.ended = true;
                        return Poll::Ready(whole.then_some(()).ok_or(io::ErrorKind::UnexpectedEof.into()));
                    }
                }
                Ok(Next::Ping(content)) => this.pong = Some(content),
                Ok(Next::Close(code)) => {
                    this.end(code);
                    this.answer(context);
                }
                Err(failure) => {
                    this.end(Some(CloseCode::Protocol));
                    this.answer(context);
                    return Poll::Ready(Err(failure));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WebSocket<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if total == 0 {
            return Poll::Ready(Ok(0));
        }
        if this.promised == 0 {
            this.queue_control();
            if this.closed {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            this.promised = total.min(FRAME_BYTES_MAX);
            this.queue_header(OpCode::Data(Data::Binary), this.promised);
        }
        loop {
            let written = {
                let vector = with_head(&this.head, slices, this.promised);
                ready!(Pin::new(&mut this.stream).poll_write_vectored(context, &vector))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_head = written.min(this.head.len());
            this.head.advance(of_head);
            let payload = written - of_head;
            if payload > 0 {
                this.promised -= payload;
                return Poll::Ready(Ok(payload));
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.promised == 0 {
            ready!(this.poll_head(context))?;
        }
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.promised == 0 && !this.closed {
            // If the peer has closed, the answer to its close is queued already.
            this.close.get_or_insert_with(|| payload(Some(CloseCode::Normal)));
        }
        if this.promised == 0 {
            ready!(this.poll_head(context))?;
            ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        }
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

/// The payload of a close with this code.
fn payload(code: Option<CloseCode>) -> SmallVec<[u8; 2]> {
    code.map(|code| u16::from(code).to_be_bytes().into()).unwrap_or_default()
}

/// The rest of the header, and as much of `slices` as it announces.
fn with_head<'a>(
    head: &'a [u8],
    slices: &'a [IoSlice<'a>],
    mut promised: usize,
) -> SmallVec<[IoSlice<'a>; SLICES_MAX]> {
    let mut vector = SmallVec::new();
    if !head.is_empty() {
        vector.push(IoSlice::new(head));
    }
    for slice in slices.iter().take(SLICES_MAX - 1) {
        let length = slice.len().min(promised);
        promised -= length;
        if length > 0 {
            vector.push(IoSlice::new(slice.get(..length).unwrap_or_default()));
        }
    }
    vector
}
