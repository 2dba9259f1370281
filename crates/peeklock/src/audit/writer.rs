//! The thread that writes lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum number of lines that wait to be written.
const LINES_WAITING_MAX: usize = 4096;

/// How long a flush waits at most.
const FLUSH_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Job {
    Line(String),
    Reopen,
    /// Answered once all earlier jobs are done.
    Flush(SyncSender<()>),
}

/// The sending half of its queue.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: SyncSender<Job>,
    /// Number of lines dropped because the queue was full, or over the rate limit.
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Opens a file, or standard error without one, and starts the thread.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn start(path: Option<PathBuf>) -> io::Result<Self> {
        let file = path.as_deref().map(open).transpose()?;
        let (jobs, waiting) = sync_channel(LINES_WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let output = Output { path, file, lost: Arc::clone(&lost), is_failing: false };
        thread::Builder::new().name("audit".to_owned()).spawn(move || output.run(&waiting))?;
        Ok(Self { jobs, lost })
    }

    /// Queues a line without waiting.
    pub(super) fn note(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.jobs.try_send(Job::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a line that is dropped.
    pub(super) fn leave_out(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Reopens the file before later lines; no effect if the queue is full.
    pub(super) fn reopen(&self) {
        let _ = self.jobs.try_send(Job::Reopen);
    }

    /// Waits until all earlier lines are written, up to a time-out.
    pub(super) fn flush(&self) {
        let (done, is_done) = sync_channel(1);
        if self.jobs.try_send(Job::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(FLUSH_MAX);
        }
    }
}

/// Opens the file readable only by its owner, because its contents are confidential.
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

struct Output {
    path: Option<PathBuf>,
    file: Option<File>,
    lost: Arc<AtomicU64>,
    /// Set after a failed write, so that a full disk is reported once.
    is_failing: bool,
}

impl Output {
    fn run(mut self, waiting: &Receiver<Job>) {
        while let Ok(job) = waiting.recv() {
            match job {
                Job::Line(line) => self.line(&line),
                Job::Reopen => self.reopen(),
                Job::Flush(done) => drop(done.try_send(())),
            }
        }
    }

    fn line(&mut self, line: &str) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let written = if lost > 0 { self.write(&format!("{{\"lost\":{lost}}}\n")) } else { Ok(()) };
        let written = written.and_then(|()| self.write(line));
        self.report(written);
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        }
    }

    fn report(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => self.is_failing = false,
            Err(error) if !self.is_failing => {
                self.is_failing = true;
                tracing::error!("the audit log can't be written: {error}");
            }
            Err(_) => {}
        }
    }

    /// Continues with the previous file if reopening fails.
    fn reopen(&mut self) {
        let Some(path) = &self.path else { return };
        match open(path) {
            Ok(file) => self.file = Some(file),
            Err(error) => tracing::error!("the audit log {} can't be opened again: {error}", path.display()),
        }
    }
}
