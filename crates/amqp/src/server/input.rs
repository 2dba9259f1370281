//! The read buffer of a connection: large while the peer sends much, small while it sends little.

use std::io;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::limits::{
    LARGE_READ_BYTES_MIN, QUIET_READS, READ_BYTES_MAX, READ_BYTES_MIN, UNAUTHENTICATED_READ_BYTES_MAX,
};

/// Bytes read and not yet consumed, and the size of the next read.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) bytes: BytesMut,
    read_bytes: usize,
    /// Maximum size of a read.
    read_bytes_max: usize,
    quiet_reads: u32,
    /// The last read, a large one, probably left something in the socket.
    more_waits: bool,
}

impl Input {
    /// `first` are bytes that were read to detect the protocol.
    pub(super) fn new(first: BytesMut) -> Self {
        Self {
            bytes: first,
            read_bytes: READ_BYTES_MIN,
            read_bytes_max: READ_BYTES_MAX,
            quiet_reads: 0,
            more_waits: false,
        }
    }

    /// Limits the size of reads, or lifts the limit.
    pub(super) fn limit(&mut self, is_limited: bool) {
        self.read_bytes_max = if is_limited { UNAUTHENTICATED_READ_BYTES_MAX } else { READ_BYTES_MAX };
    }

    /// Reads the available bytes, about `bytes_max` at most, but at least one. 0 is the end of the stream.
    pub(super) fn poll_read(
        &mut self,
        socket: &mut (impl AsyncRead + Unpin),
        bytes_max: usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        // A read without room would look like the end of the stream.
        let wanted = self.read_bytes.min(bytes_max).max(1);
        let spare = self.bytes.capacity() - self.bytes.len();
        if spare < wanted.div_ceil(2) {
            self.bytes.reserve(wanted);
        }
        let spare = self.bytes.capacity() - self.bytes.len();
        let mut read = 0;
        // TLS returns one record per read, and often has the next one ready.
        while read < spare {
            // The future keeps no state between polls, so a new one each time is equivalent.
            match pin!(socket.read_buf(&mut self.bytes)).poll(context) {
                Poll::Ready(Ok(1..)) => read = spare - (self.bytes.capacity() - self.bytes.len()),
                ended if read == 0 => return ended,
                // The next read reports the end, or the failure, again.
                Poll::Ready(_) | Poll::Pending => break,
            }
        }
        self.adapt(read, spare);
        Poll::Ready(Ok(read))
    }

    /// Whether the last read, a large one, probably left data in the socket; true once per read.
    pub(super) fn take_more_waits(&mut self) -> bool {
        std::mem::take(&mut self.more_waits)
    }

    /// Frees the buffer when it is empty and large.
    pub(super) fn release(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > 2 * self.read_bytes {
            self.bytes = BytesMut::new();
        }
    }

    fn adapt(&mut self, read: usize, spare: usize) {
        self.more_waits = read == spare && read >= LARGE_READ_BYTES_MIN;
        if read == spare {
            self.read_bytes = (self.read_bytes * 2).min(self.read_bytes_max);
            self.quiet_reads = 0;
        } else if read < self.read_bytes / 4 {
            self.quiet_reads += 1;
            if self.quiet_reads >= QUIET_READS {
                self.read_bytes = (self.read_bytes / 2).max(READ_BYTES_MIN);
                self.quiet_reads = 0;
            }
        } else {
            self.quiet_reads = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// The allowance may change between the decision to read and the read.
    #[tokio::test]
    async fn a_full_buffer_and_no_allowance_do_not_look_like_the_end() {
        let (mut near, mut far) = duplex(64);
        near.write_all(b"efgh").await.unwrap();
        for bytes_max in [0, 1] {
            let mut full = BytesMut::from(&b"abcd"[..]);
            full.reserve(1);
            full.resize(full.capacity(), b'.');
            let mut input = Input::new(full);
            let read = poll_fn(|context| input.poll_read(&mut far, bytes_max, context)).await.unwrap();
            assert!(read > 0, "with an allowance of {bytes_max} bytes");
            near.write_all(b"efgh").await.unwrap();
        }
    }
}
