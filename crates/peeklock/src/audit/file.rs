//! The file of the audit log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Request to open the file again before the next line; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Reopen(Arc<AtomicBool>);

impl Reopen {
    /// Requests it.
    pub(super) fn request(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A file to which lines are appended. Failures are logged.
#[derive(Debug)]
pub(super) struct AuditFile {
    path: PathBuf,
    file: File,
    reopen: Reopen,
    /// Set after a failed write, so that a full disk is reported once.
    is_failing: bool,
    /// Likewise for a failed reopening.
    is_reopen_failing: bool,
}

impl AuditFile {
    /// Opens the file.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn open(path: PathBuf, reopen: Reopen) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(Self { path, file, reopen, is_failing: false, is_reopen_failing: false })
    }

    /// Continues with the previous file if reopening fails, until the next line.
    fn reopen(&mut self) {
        let opened = open(&self.path);
        if let Err(error) = &opened {
            self.reopen.request();
            if !self.is_reopen_failing {
                tracing::error!("the audit log {} can't be opened again: {error}", self.path.display());
            }
        }
        self.is_reopen_failing = opened.is_err();
        if let Ok(file) = opened {
            self.file = file;
        }
    }
}

impl Write for AuditFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.reopen.0.swap(false, Ordering::AcqRel) {
            self.reopen();
        }
        let written = self.file.write(lines);
        match &written {
            Ok(_) => self.is_failing = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted || self.is_failing => {}
            Err(error) => {
                self.is_failing = true;
                tracing::error!("the audit log can't be written: {error}");
            }
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens the file readable only by its owner, because its contents are confidential.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
