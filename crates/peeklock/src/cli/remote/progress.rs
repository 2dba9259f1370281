//! Progress of long operations, on standard error and only if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Fewer steps are done too quickly for a progress bar.
const STEPS_MIN: u64 = 200;

/// A bar for this many steps.
pub(super) fn bar(steps: u64, what: &'static str) -> ProgressBar {
    let target = if steps < STEPS_MIN { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(steps), target);
    let style = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {per_sec} {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())).with_message(what)
}
