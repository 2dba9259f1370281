//! The threads of an open store.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use super::directory::failed;
use super::manifest::Closed;
use super::shared::Shared;
use super::writer::{self, Active, Writer};
use super::{cleaner, keeper, reader, scrub, slice};
use crate::Error;

/// See the module.
#[derive(Debug)]
pub(super) struct Threads {
    /// Receives the last segment when the writer ends.
    writer_end: Receiver<Active>,
    started: Vec<JoinHandle<()>>,
}

/// Work of a thread.
type Work = Box<dyn FnOnce(&Shared) + Send>;

/// Starts a thread; a test makes it fail.
type Spawner<'a> = &'a dyn Fn(Builder, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

/// Running threads, and the channels of their requests.
type Started = (Threads, Sender<writer::Request>, Sender<reader::Request>);

impl Threads {
    /// Starts all threads, or none.
    pub(super) fn start(shared: &Arc<Shared>, active: Active) -> Result<Started, Error> {
        Self::start_by(&|builder, run| builder.spawn(run), shared, active)
    }

    fn start_by(spawner: Spawner<'_>, shared: &Arc<Shared>, active: Active) -> Result<Started, Error> {
        shared.state().log_end = Some(Closed { id: active.segment.id, seal: active.seal() });
        let (writes, write_requests) = channel();
        let (reads, read_requests) = channel();
        let read_requests = Arc::new(Mutex::new(read_requests));
        let writer = Writer::new(Arc::clone(shared), active);
        let (ended, writer_end) = channel();
        let read = || {
            let requests = Arc::clone(&read_requests);
            ("read", Box::new(move |shared: &Shared| reader::run(shared, &requests)) as Work)
        };
        let write = move |_: &Shared| {
            slice::shorten();
            // Nobody waits for the end of a handle that is dropped.
            let _ = ended.send(writer.run(&write_requests));
        };
        let mut all: Vec<(&str, Work)> = (0..reader::READERS).map(|_| read()).collect();
        all.push(("keep", Box::new(keeper::run)));
        all.push(("clean", Box::new(cleaner::run)));
        all.push(("scrub", Box::new(scrub::run)));
        all.push(("write", Box::new(write)));
        let mut threads = Self { writer_end, started: Vec::new() };
        for (name, work) in all {
            match spawn(spawner, name, shared, work) {
                Ok(thread) => threads.started.push(thread),
                Err(error) => {
                    // The others must not go on working in the directory.
                    threads.end_others(shared, &reads);
                    return Err(error);
                }
            }
        }
        Ok((threads, writes, reads))
    }

    /// Waits until all threads have ended; the writer must have been requested to stop. Returns the last segment, unless the
    /// writer panicked.
    pub(super) fn end(self, shared: &Shared, reads: &Sender<reader::Request>) -> Option<Active> {
        let active = self.writer_end.recv().ok();
        self.end_others(shared, reads);
        active
    }

    fn end_others(self, shared: &Shared, reads: &Sender<reader::Request>) {
        for _ in 0..reader::READERS {
            let _ = reads.send(reader::Request::Stop);
        }
        shared.is_stopping.store(true, Ordering::Release);
        shared.keeper_wake.wake();
        shared.cleaner_wake.wake();
        shared.scrub_wake.wake();
        for thread in self.started {
            let _ = thread.join();
        }
    }
}

/// Spawns a thread; a panic, which is a bug, kills the handle instead of ending the thread silently.
fn spawn(
    spawner: Spawner<'_>,
    name: &str,
    shared: &Arc<Shared>,
    work: Work,
) -> Result<JoinHandle<()>, Error> {
    let alarm = Alarm(Arc::clone(shared));
    let builder = Builder::new().name(format!("store-{name}"));
    spawner(builder, Box::new(move || work(&alarm.0))).map_err(|error| failed("can't start a thread", &error))
}

/// Kills the handle when its thread panics.
struct Alarm(Arc<Shared>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.0.fail_handle(Error::InDoubt { reason: format!("the thread {name} panicked") });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::Path;

    use super::super::LocalOptions;
    use super::super::filesystem::SimulatedDisk;
    use super::super::shard::{LocalShard, ScrubDamageSender};
    use super::super::store::take_directory;
    use super::*;

    /// They would change files in the directory, even after another process has locked it.
    #[test]
    fn no_thread_goes_on_if_another_one_can_not_be_started() {
        for first_refused in 0..6 {
            let disk = SimulatedDisk::new();
            let options = LocalOptions { segment_bytes: 8 << 10, ..LocalOptions::default() };
            let (directory, _lock) = take_directory(disk.mount(), Path::new("/data"), &options).unwrap();
            let (shared, active) =
                LocalShard::load(directory, options, ScrubDamageSender::default()).unwrap();
            let started = Cell::new(0);
            let spawner = |builder: Builder, run: Box<dyn FnOnce() + Send>| {
                if started.replace(started.get() + 1) == first_refused {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                builder.spawn(run)
            };

            let opened = Threads::start_by(&spawner, &shared, active);

            assert!(opened.is_err());
            assert_eq!(Arc::strong_count(&shared), 1, "{first_refused} threads were started");
        }
    }
}
