//! Progress of a copy, on standard error and only if that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use peeklock_storage::copy::{CopyProgress, CopyStage};

const TICK: Duration = Duration::from_millis(200);
const BOUNDED: &str = "{msg} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
const UNBOUNDED: &str = "{msg} {spinner} {bytes} {bytes_per_sec}";

/// A bar for each stage.
pub(super) struct Bar {
    bar: ProgressBar,
    stage: Option<CopyStage>,
    /// Approximate total size.
    bytes: Option<u64>,
    copied_bytes: u64,
}

impl Bar {
    pub(super) fn new(bytes: Option<u64>) -> Self {
        Self { bar: ProgressBar::hidden(), stage: None, bytes, copied_bytes: 0 }
    }

    pub(super) fn show(&mut self, progress: CopyProgress) {
        if self.stage != Some(progress.stage) {
            self.begin(progress.stage);
        }
        if progress.stage == CopyStage::Copying {
            self.copied_bytes = progress.bytes;
        }
        self.bar.set_position(progress.bytes);
    }

    fn begin(&mut self, stage: CopyStage) {
        self.bar.finish_and_clear();
        let (what, bytes) = match stage {
            CopyStage::Copying => ("copying", self.bytes),
            CopyStage::Comparing => ("comparing", Some(self.copied_bytes)),
        };
        let (bar, template) = match bytes {
            Some(bytes) => (ProgressBar::new(bytes), BOUNDED),
            None => (ProgressBar::new_spinner(), UNBOUNDED),
        };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = bar.with_style(style).with_message(what);
        self.bar.enable_steady_tick(TICK);
        self.stage = Some(stage);
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
