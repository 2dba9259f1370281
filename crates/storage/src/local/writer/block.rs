//! What lies before the next frame in its block, so that the writer can write whole blocks.

use super::Active;
use crate::local::filesystem::BLOCK_BYTES;
use crate::local::format::SegmentHeader;
use crate::local::frame::FrameBuilder;
use crate::local::segments::SegmentFile;

/// The bytes of the last block of the log before its end, as they are on disk.
#[derive(Debug, Default)]
pub(super) struct BlockStart {
    /// Empty where they are not known.
    bytes: Vec<u8>,
}

impl BlockStart {
    /// Of a segment in which the log goes on. Where they can't be read, the next frame is written without them.
    pub(super) fn read(active: &Active) -> Self {
        let len = bytes_before(active.offset);
        let mut bytes = vec![0; len];
        let is_read = active.segment.file.read_exact_at(&mut bytes, active.offset - len as u64).is_ok();
        Self { bytes: if is_read { bytes } else { Vec::new() } }
    }

    /// Of a segment without frames.
    pub(super) fn of_header(segment: &SegmentFile) -> Self {
        Self { bytes: SegmentHeader { id: segment.id, salt: segment.salt }.encode() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The log ends at `end` now, with this frame.
    pub(super) fn follow(&mut self, frame: &FrameBuilder, end: u64) {
        if !frame.tail(bytes_before(end), &mut self.bytes) {
            self.bytes.clear();
        }
    }
}

/// How many bytes of the block that `offset` lies in are before it.
fn bytes_before(offset: u64) -> usize {
    usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0)
}
