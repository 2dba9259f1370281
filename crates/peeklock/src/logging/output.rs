//! Standard error, written by a thread of its own: its reader may stop to read (a terminal that is paused, a supervisor that
//! hangs), and nothing of the broker may wait for it then. Lines that find no room are lost and counted.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written, in bytes; the last may go beyond.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A line waits so long for room, so that a reader that is only slower than the log loses none. After one that waited in vain none
/// waits, until some are written.
const PATIENCE: Duration = Duration::from_millis(100);

/// The end of the process waits so long for the last lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Output(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    came: Condvar,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Whole lines.
    bytes: Vec<u8>,
    /// Others are just being written.
    is_writing: bool,
    /// A line waited in vain for room.
    is_stalled: bool,
    lost: u64,
}

impl Output {
    /// Starts the thread that writes to `target`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let output = Self(Arc::clone(&shared));
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.run(target))?;
        Ok(output)
    }

    /// Lines lost since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        mem::take(&mut self.0.lock().lost)
    }

    /// Waits until everything is written, a bounded time.
    pub(super) fn flush(&self) {
        let is_under_way = |waiting: &mut Waiting| waiting.is_writing || !waiting.bytes.is_empty();
        drop(self.0.left.wait_timeout_while(self.0.lock(), FLUSH_MAX, is_under_way));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One or more whole lines.
    fn put(&self, lines: &[u8]) {
        let mut waiting = self.lock();
        if waiting.is_full() && !waiting.is_stalled {
            let is_needed = |waiting: &mut Waiting| waiting.is_full() && !waiting.is_stalled;
            let waited = self.left.wait_timeout_while(waiting, PATIENCE, is_needed);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            waiting.is_stalled = waiting.is_full();
        }
        if waiting.is_stalled {
            waiting.lost += 1;
            return;
        }
        waiting.bytes.extend_from_slice(lines);
        drop(waiting);
        self.came.notify_one();
    }

    fn run(&self, mut target: impl Write) {
        let mut lines = Vec::new();
        loop {
            let is_idle = |waiting: &mut Waiting| waiting.bytes.is_empty();
            let waiting = self.came.wait_while(self.lock(), is_idle);
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut waiting.bytes, &mut lines);
            waiting.is_writing = true;
            waiting.is_stalled = false;
            drop(waiting);
            self.left.notify_all();
            // There is no place to report a failure.
            let _ = target.write_all(&lines);
            lines.clear();
            self.lock().is_writing = false;
            self.left.notify_all();
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
    use std::time::Instant;

    use super::*;

    /// Takes a chunk each time that a test allows it.
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
    fn a_reader_that_stops_costs_lines_and_a_moment() {
        let ((allow, allowed), (taken, takes)) = (channel(), channel());
        let output = Output::start(Reader { allowed, taken }).unwrap();
        let line = "x".repeat(1 << 16);
        let started = Instant::now();
        for _ in 0..100 {
            put(&output, &line);
        }
        assert!(started.elapsed() < 20 * PATIENCE, "{:?}", started.elapsed());
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
        let output = Output::start(Reader { allowed, taken }).unwrap();
        let reading = thread::spawn(move || {
            let mut bytes = 0;
            while bytes < 100 << 16 {
                allow.send(()).unwrap();
                bytes += takes.recv().unwrap().len();
                thread::sleep(PATIENCE / 20);
            }
        });
        let line = "x".repeat(1 << 16);
        (0..100).for_each(|_| put(&output, &line));
        output.flush();
        reading.join().unwrap();
        assert_eq!(output.take_lost(), 0);
    }
}
