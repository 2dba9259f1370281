//! The system call that makes Linux begin to write a part of a file to its disk.

#![allow(unsafe_code, reason = "no library that is kept well has this system call")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use libc::{SYNC_FILE_RANGE_WRITE, off64_t};

/// Begins to write the dirty pages of these bytes; waits only if the disk's queue is full.
pub(super) fn begin(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let beyond = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (offset, bytes) =
        (off64_t::try_from(offset).map_err(beyond)?, off64_t::try_from(bytes).map_err(beyond)?);
    // SAFETY: the arguments are numbers, and the descriptor is open while `file` is borrowed.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, SYNC_FILE_RANGE_WRITE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
