//! Writes standard error in a thread of its own, so that the broker does not wait for a reader that has stopped (a paused
//! terminal, a hanging supervisor). Lines that find no space in the buffer are lost and counted.
//!
//! `tracing-appender` has such a writer, but limits the number of lines instead of bytes, loses lines of a reader that is only slow,
//! and panics if the thread can't be started.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Size of the buffer for lines that wait to be written, in bytes; the last line may exceed it.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Longest wait of a line for space in the buffer, so that a reader that is only slow loses none. After one wait in vain, no line waits
/// until the thread has written some.
const SPACE_WAIT_MAX: Duration = Duration::from_millis(100);

/// Longest wait for the last lines at the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Handle for adding lines; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Output(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// [`SPACE_WAIT_MAX`], except in tests.
    space_wait_max: Duration,
    waiting: Mutex<Waiting>,
    /// Notified when lines were added.
    added: Condvar,
    /// Notified when the thread took lines, and when it has written them.
    taken: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whole lines.
    bytes: Vec<u8>,
    /// Whether the thread is writing earlier lines.
    is_writing: bool,
    /// Whether a line has waited in vain for space since the thread last took lines.
    is_stalled: bool,
    lost: u64,
}

impl Output {
    /// Starts the thread that writes to `target`.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(super) fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        Self::start_waiting(target, SPACE_WAIT_MAX)
    }

    fn start_waiting(target: impl Write + Send + 'static, space_wait_max: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            space_wait_max,
            waiting: Mutex::default(),
            added: Condvar::new(),
            taken: Condvar::new(),
        });
        let output = Self(Arc::clone(&shared));
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.run(target))?;
        Ok(output)
    }

    /// Returns the number of lines lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        mem::take(&mut self.0.lock().lost)
    }

    /// Waits until everything is written, for [`FLUSH_MAX`] at most.
    pub(super) fn flush(&self) {
        let is_under_way = |waiting: &mut Waiting| waiting.is_writing || !waiting.bytes.is_empty();
        drop(self.0.taken.wait_timeout_while(self.0.lock(), FLUSH_MAX, is_under_way));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one or more whole lines, or counts them as lost.
    fn put(&self, lines: &[u8]) {
        let mut waiting = self.lock();
        if waiting.is_full() && !waiting.is_stalled {
            let is_needed = |waiting: &mut Waiting| waiting.is_full() && !waiting.is_stalled;
            let waited = self.taken.wait_timeout_while(waiting, self.space_wait_max, is_needed);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            waiting.is_stalled = waiting.is_full();
        }
        if waiting.is_stalled {
            waiting.lost += 1;
            return;
        }
        waiting.bytes.extend_from_slice(lines);
        drop(waiting);
        self.added.notify_one();
    }

    fn run(&self, mut target: impl Write) {
        let mut lines = Vec::new();
        loop {
            let is_idle = |waiting: &mut Waiting| waiting.bytes.is_empty();
            let waiting = self.added.wait_while(self.lock(), is_idle);
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut waiting.bytes, &mut lines);
            waiting.is_writing = true;
            waiting.is_stalled = false;
            drop(waiting);
            self.taken.notify_all();
            // A failure can't be reported anywhere.
            let _ = target.write_all(&lines);
            lines.clear();
            self.lock().is_writing = false;
            self.taken.notify_all();
        }
    }
}

impl Waiting {
    const fn is_full(&self) -> bool {
        self.bytes.len() >= WAITING_BYTES_MAX
    }
}

impl Write for &Output {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.0.put(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Accepts a write each time that the test allows one.
    struct Reader {
        allowed: Receiver<()>,
        taken: Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.allowed.recv().map_err(io::Error::other)?;
            self.taken.send(bytes.to_owned()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn put(mut output: &Output, text: &str) {
        output.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_reader_that_stops_costs_lines() {
        let ((allow, allowed), (taken, takes)) = (channel(), channel());
        let output = Output::start_waiting(Reader { allowed, taken }, Duration::ZERO).unwrap();
        let line = "x".repeat(1 << 16);
        put(&output, &line);
        // The thread is writing this line, so none of the others is taken.
        drop(output.0.taken.wait_while(output.0.lock(), |waiting| !waiting.bytes.is_empty()));
        for _ in 1..100 {
            put(&output, &line);
        }
        let lost = output.take_lost();
        assert!((50..100).contains(&lost), "{lost}");
        allow.send(()).unwrap();
        allow.send(()).unwrap();
        let mut bytes: usize = (0..2).map(|_| takes.recv().unwrap().len()).sum();
        put(&output, "back");
        allow.send(()).unwrap();
        bytes += takes.recv().unwrap().len();
        assert_eq!(bytes, (100 - usize::try_from(lost).unwrap()) * line.len() + "back".len());
        assert_eq!(output.take_lost(), 0);
    }

    #[test]
    fn a_reader_that_is_slower_than_the_log_misses_nothing() {
        let ((allow, allowed), (taken, takes)) = (channel(), channel());
        let output = Output::start_waiting(Reader { allowed, taken }, Duration::from_secs(60)).unwrap();
        let reading = thread::spawn(move || {
            let mut bytes = 0;
            while bytes < 100 << 16 {
                allow.send(()).unwrap();
                bytes += takes.recv().unwrap().len();
            }
        });
        let line = "x".repeat(1 << 16);
        (0..100).for_each(|_| put(&output, &line));
        output.flush();
        reading.join().unwrap();
        assert_eq!(output.take_lost(), 0);
    }
}
