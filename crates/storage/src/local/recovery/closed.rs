//! The end of a log that was closed cleanly.

use std::sync::Arc;

use super::super::directory::corrupt;
use super::super::format::SEGMENT_HEADER_BYTES;
use super::super::manifest::Seal;
use super::super::segments::SegmentFile;
use super::super::walk::walk;
use super::{Loader, Mode};
use crate::Error;

impl Loader<'_> {
    /// Replays the open segments after a clean close: no search for the end is needed, and nothing may be missing.
    pub(super) fn load_closed(
        &mut self,
        open: &[Arc<SegmentFile>],
        id: u32,
        seal: Seal,
    ) -> Result<(), Error> {
        let Some(at) = open.iter().position(|file| file.id == id) else {
            let path = self.directory.manifest_path();
            return Err(corrupt(&path, 0, format!("the log ends in segment {id}, which is not open")));
        };
        let Some(file) = open.get(at) else { return Ok(()) };
        let later = open.get(at + 1..).unwrap_or_default();
        let has_hint = self.load_known(file, seal, false)?;
        // Segments are sealed in order, never before one that is still open.
        let fault = if self.mode == Mode::Open && has_hint && at == 0 { fault(file, seal) } else { None };
        match fault {
            Some(reason) => self.seal_early(file, seal, later, &reason),
            None => self.go_on_in(file, seal, later),
        }
        Ok(())
    }

    /// Seals a segment that can't be read in full, and continues in another one. The hint of a segment that is appended to
    /// is dropped, which would lose its information about damaged records.
    fn seal_early(&mut self, file: &SegmentFile, seal: Seal, later: &[Arc<SegmentFile>], reason: &str) {
        let path = file.path.display();
        tracing::error!(
            path = %path,
            reason,
            "a segment can't be read in full; its hint file lists its contents, and the log continues in another segment"
        );
        let manifest = &mut self.loaded.manifest;
        manifest.segments.iter_mut().filter(|listed| listed.id == file.id).for_each(|listed| {
            listed.seal = Some(seal);
        });
        manifest.sealed_sequence = seal.next_sequence - 1;
        if let Some(segment) = self.loaded.state.segments.get_mut(file.id) {
            segment.sealed_end = Some(seal.end);
        }
        file.file.release();
        if let Some((next, rest)) = later.split_first() {
            let (first_sequence, next_sequence) = (seal.next_sequence, seal.next_sequence);
            let nothing = Seal { end: u64::from(SEGMENT_HEADER_BYTES), first_sequence, next_sequence };
            self.go_on_in(next, nothing, rest);
        }
    }
}

/// The reason why not all frames can be read: damage, or an error of the device, which may pass.
fn fault(file: &SegmentFile, seal: Seal) -> Option<String> {
    match walk(file, seal.end, seal.first_sequence, |_| {}) {
        Ok(end) if end.offset == seal.end && end.next_sequence == seal.next_sequence => None,
        Ok(end) => Some(end.reason),
        Err(error) => Some(error.to_string()),
    }
}
