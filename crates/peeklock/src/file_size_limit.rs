//! The limit of the size of files (`ulimit -f`): a write beyond it fails like one on a full disk.

use std::io;

use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Handles SIGXFSZ for the rest of the process: its default action would end it without a reason.
///
/// # Errors
/// The system's error.
pub(crate) fn fail_writes() -> io::Result<()> {
    // The handler stays when the runtime has ended.
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _context = runtime.enter();
    signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).map(drop)
}
