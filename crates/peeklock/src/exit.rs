//! Exit codes, as `peeklock --help` documents them.

use std::process::ExitCode;

/// The exit code of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Success = 0,
    /// Something failed at run time: an address in use, a failed write; for `health`: not healthy.
    Failure = 1,
    /// The command line or the configuration is wrong. Also clap's code for usage errors.
    Usage = 2,
    /// The data directory is damaged, locked by another process, or inaccessible; a database is damaged or has lost
    /// records.
    Data = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
