//! The witness of the last frame: an empty frame that is written once the log is idle.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use super::{Request, Writer};
use crate::local::format::FRAME_HEADER_BYTES;

/// After this long without a request the last frame gets a successor.
const IDLE_MS: u64 = 1000;

impl Writer {
    /// Waits for a request; when none comes for a while, the last frame gets a witness.
    pub(super) fn wait(&mut self, requests: &Receiver<Request>) -> Result<Request, TryRecvError> {
        if self.is_unwitnessed {
            match requests.recv_timeout(Duration::from_millis(IDLE_MS)) {
                Err(RecvTimeoutError::Timeout) => self.witness(),
                received => return received.map_err(|_| TryRecvError::Disconnected),
            }
        }
        requests.recv().map_err(|_| TryRecvError::Disconnected)
    }

    /// What a while without requests does.
    #[cfg(any(test, feature = "testing"))]
    pub(in crate::local) fn idle(&mut self) {
        if self.is_unwitnessed {
            self.witness();
        }
    }

    /// Writes an empty frame: damage of the frame before it can then be told from a write that a crash cut off.
    fn witness(&mut self) {
        self.is_unwitnessed = false;
        let has_room = self.active.offset + u64::from(FRAME_HEADER_BYTES) <= self.active.segment.capacity;
        if !has_room || self.shared.dead.get().is_some() {
            return;
        }
        self.frame.clear();
        self.frame.finish(self.active.offset, self.active.sequence, self.active.segment.salt);
        // What fails here is announced by what ends the handle, or there is no room.
        if self.write_frame().is_ok() {
            self.apply();
        }
    }
}
