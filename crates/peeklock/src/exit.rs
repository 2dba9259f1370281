//! Exit codes, as `peeklock --help` documents them.

use std::process::ExitCode;
use std::{io, panic, thread};

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Success = 0,
    /// Something failed at run time, and another start may succeed: an address in use, a failed write, an error of the
    /// device; for `health`: not healthy.
    Failure = 1,
    /// The command line or the configuration is wrong. Also clap's code for usage errors.
    Usage = 2,
    /// The data directory is damaged, locked by another process, or inaccessible; a database is damaged or has lost
    /// records.
    Data = 3,
}

impl Exit {
    /// The exit code if a file of the configuration can't be used: [`Self::Usage`] if its path or permissions are at fault,
    /// [`Self::Failure`] if another start may succeed, as after a lack of descriptors or an error of the device.
    pub(crate) fn of_file(error: &io::Error) -> Self {
        use io::ErrorKind::{
            InvalidData, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
        };
        match error.kind() {
            // Text that is not UTF-8 is invalid data.
            InvalidData | IsADirectory | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem => {
                Self::Usage
            }
            _ => Self::Failure,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Ends the process with [`Exit::Failure`] if the main thread panics, as tokio does when the system refuses it a thread:
/// unwinding would wait for the threads that it has started.
pub(crate) fn on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        if thread::current().name() == Some("main") {
            std::process::exit(Exit::Failure as i32);
        }
    }));
}
