//! The witness of the last frame: an empty frame written after it once the log is idle.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use super::{Request, Writer};
use crate::local::format::FRAME_HEADER_BYTES;

/// Time without a request after which the witness is written.
const IDLE_MS: u64 = 1000;

impl Writer {
    /// Waits for a request; after a time without one, writes the witness.
    pub(super) fn wait(&mut self, requests: &Receiver<Request>) -> Result<Request, TryRecvError> {
        if self.needs_trailing_frame {
            match requests.recv_timeout(Duration::from_millis(IDLE_MS)) {
                Err(RecvTimeoutError::Timeout) => self.write_trailing_frame(),
                received => return received.map_err(|_| TryRecvError::Disconnected),
            }
        }
        requests.recv().map_err(|_| TryRecvError::Disconnected)
    }

    /// Does the writer's work after a time without requests.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::local) fn idle(&mut self) {
        if self.needs_trailing_frame {
            self.write_trailing_frame();
        }
    }

    /// Writes an empty frame, so that damage of the previous frame can be distinguished from a torn write.
    fn write_trailing_frame(&mut self) {
        self.needs_trailing_frame = false;
        let has_room = self.active.offset + u64::from(FRAME_HEADER_BYTES) <= self.active.segment.capacity;
        if !has_room || self.shared.fatal_error.get().is_some() {
            return;
        }
        self.frame.clear();
        self.frame.finish(self.active.offset, self.active.sequence, self.active.segment.salt);
        // An error is announced when it ends the handle; otherwise there was no room.
        if self.write_frame().is_ok() {
            self.apply();
        }
    }
}
