//! Writes lines in a thread of its own, so that the broker does not wait for a disk, or for a reader of standard error that
//! has stopped (a paused terminal, a hanging supervisor). Lines that find no space in the buffer, or can't be written, are
//! lost and counted.
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

/// Longest wait for the last lines at the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Handle for adding lines; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LineWriter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
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

impl LineWriter {
    /// Starts the thread `name`, which writes to `target`. A line waits for space in the buffer for `space_wait_max` at most, so
    /// that a reader that is only slow loses none; after one wait in vain, no line waits until the thread has written some.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(crate) fn start(
        name: &str,
        target: impl Write + Send + 'static,
        space_wait_max: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            space_wait_max,
            waiting: Mutex::default(),
            added: Condvar::new(),
            taken: Condvar::new(),
        });
        let writer = Self(Arc::clone(&shared));
        thread::Builder::new().name(name.to_owned()).spawn(move || shared.run(target))?;
        Ok(writer)
    }

    /// Adds one or more whole lines; false if there is no space.
    pub(crate) fn put(&self, lines: &[u8]) -> bool {
        self.0.put(lines)
    }

    /// Counts lines that are lost.
    pub(crate) fn add_lost(&self, lines: u64) {
        self.0.lock().lost += lines;
    }

    /// Returns the number of lines lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        mem::take(&mut self.0.lock().lost)
    }

    /// Waits until everything is written, for [`FLUSH_MAX`] at most.
    pub(crate) fn flush(&self) {
        let is_under_way = |waiting: &mut Waiting| waiting.is_writing || !waiting.bytes.is_empty();
        drop(self.0.taken.wait_timeout_while(self.0.lock(), FLUSH_MAX, is_under_way));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, lines: &[u8]) -> bool {
        let mut waiting = self.lock();
        if waiting.is_full() && !waiting.is_stalled {
            let is_needed = |waiting: &mut Waiting| waiting.is_full() && !waiting.is_stalled;
            let waited = self.taken.wait_timeout_while(waiting, self.space_wait_max, is_needed);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
            waiting.is_stalled = waiting.is_full();
        }
        if waiting.is_stalled {
            return false;
        }
        waiting.bytes.extend_from_slice(lines);
        drop(waiting);
        self.added.notify_one();
        true
    }

    fn run(&self, mut target: impl Write) {
        let mut lines = Vec::new();
        let mut is_torn = false;
        loop {
            let is_idle = |waiting: &mut Waiting| waiting.bytes.is_empty();
            let waiting = self.added.wait_while(self.lock(), is_idle);
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            mem::swap(&mut waiting.bytes, &mut lines);
            waiting.is_writing = true;
            waiting.is_stalled = false;
            drop(waiting);
            self.taken.notify_all();
            // The next line must not continue an incomplete one.
            is_torn = is_torn && target.write_all(b"\n").is_err();
            let unwritten = if is_torn { &lines } else { write(&mut target, &lines) };
            if !unwritten.is_empty() {
                is_torn |= is_incomplete(lines.strip_suffix(unwritten).unwrap_or_default());
            }
            let mut waiting = self.lock();
            waiting.lost += unwritten.iter().filter(|byte| **byte == b'\n').count() as u64;
            waiting.is_writing = false;
            drop(waiting);
            lines.clear();
            self.taken.notify_all();
        }
    }
}

/// Writes as much as possible; returns the rest.
fn write<'a>(target: &mut impl Write, mut lines: &'a [u8]) -> &'a [u8] {
    while !lines.is_empty() {
        match target.write(lines) {
            Ok(written @ 1..) => lines = lines.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
        }
    }
    lines
}

/// Whether the last line has no end.
fn is_incomplete(lines: &[u8]) -> bool {
    lines.last().is_some_and(|byte| *byte != b'\n')
}

impl Waiting {
    const fn is_full(&self) -> bool {
        self.bytes.len() >= WAITING_BYTES_MAX
    }
}

impl Write for &LineWriter {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if !self.put(lines) {
            self.add_lost(1);
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineWriter {
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

    fn put(mut output: &LineWriter, text: &str) {
        output.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_reader_that_stops_costs_lines() {
        let ((allow, allowed), (taken, takes)) = (channel(), channel());
        let output = LineWriter::start("log", Reader { allowed, taken }, Duration::ZERO).unwrap();
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
        let output = LineWriter::start("log", Reader { allowed, taken }, Duration::from_secs(60)).unwrap();
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

    /// Writes as many bytes as the test allows, and fails in between.
    struct Disk {
        allowed: Receiver<usize>,
        contents: Sender<Vec<u8>>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let allowed = self.allowed.recv().map_err(io::Error::other)?;
            let some = bytes.get(..allowed.min(bytes.len())).unwrap_or_default();
            self.contents.send(some.to_owned()).map_err(io::Error::other)?;
            if some.is_empty() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(some.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_can_not_be_written_are_counted_and_no_line_continues_an_incomplete_one() {
        let ((allow, allowed), (contents, written)) = (channel(), channel());
        let writer = LineWriter::start("log", Disk { allowed, contents }, Duration::ZERO).unwrap();
        let next = |bytes: usize| {
            allow.send(bytes).unwrap();
            written.recv().unwrap()
        };
        put(&writer, "one\ntwo\nthree\n");
        assert_eq!(next(6), b"one\ntw");
        assert_eq!(next(0), b"");
        put(&writer, "four\n");
        // The end of the incomplete line can't be written either.
        assert_eq!(next(0), b"");
        writer.flush();
        assert_eq!(writer.take_lost(), 3);
        put(&writer, "five\n");
        assert_eq!(next(9), b"\n");
        assert_eq!(next(9), b"five\n");
        writer.flush();
        assert_eq!(writer.take_lost(), 0);
    }
}
