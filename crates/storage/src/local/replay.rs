//! Replay of records concurrently with the reading of hints. All records of a key are in one space, so a thread that
//! replays some spaces sees the whole history of their keys, in order. The results of the threads are merged.
//!
//! These threads access no files: files are read in the order of segments, independently of the threads' progress.

use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use bytes::Bytes;

use super::directory::failed;
use super::hint::Hint;
use super::segments::Segments;
use super::state::State;
use crate::{Error, Space};

/// The spaces replayed by each thread: each half has half of the keys of waiting messages.
const SHARES: [&[Space]; 2] = [&[Space::Meta, Space::Head], &[Space::Body]];
/// Most bytes of hints that are read ahead of replay; beyond that, reading waits.
pub(super) const AHEAD_BYTES_MAX: usize = 16 << 20;

/// The replaying threads, and the buffers of hints that they return.
#[derive(Debug)]
pub(super) struct Replay<'scope> {
    threads: Vec<Replayer<'scope>>,
    lend: Sender<Bytes>,
    returned: Receiver<Bytes>,
    /// Bytes of hints that are read and not replayed yet.
    ahead_bytes: usize,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Replayer<'scope> {
    hints: Sender<(u32, Arc<LentHint>)>,
    thread: ScopedJoinHandle<'scope, State>,
}

/// A hint whose buffer returns to the reading thread once it is no longer referenced.
#[derive(Debug)]
pub(super) struct LentHint {
    hint: Hint,
    owner: Sender<Bytes>,
}

impl Deref for LentHint {
    type Target = Hint;

    fn deref(&self) -> &Hint {
        &self.hint
    }
}

impl Drop for LentHint {
    fn drop(&mut self) {
        // The receiver is gone after the last hint.
        let _ = self.owner.send(std::mem::take(&mut self.hint.bytes));
    }
}

impl<'scope> Replay<'scope> {
    /// Starts the threads, each with a copy of `segments`, before any record is replayed.
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, segments: &Segments) -> Result<Self, Error> {
        let threads = SHARES.map(|spaces| {
            let state = State { segments: segments.clone(), ..State::default() };
            let (hints, received) = channel();
            let builder = Builder::new().name("store-replay".to_owned());
            let thread = builder.spawn_scoped(scope, move || replay(state, spaces, &received));
            thread.map(|thread| Replayer { hints, thread })
        });
        let threads = threads.into_iter().collect::<Result<_, _>>();
        let threads = threads.map_err(|error| failed("can't start a thread", &error))?;
        let (lend, returned) = channel();
        Ok(Self { threads, lend, returned, ahead_bytes: 0, spare: Vec::new() })
    }

    /// A buffer for the next hint, a used one if possible, because new memory costs a process more than reading into
    /// it. Waits while too much is read ahead.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        while self.ahead_bytes > AHEAD_BYTES_MAX
            && let Ok(bytes) = self.returned.recv()
        {
            self.take_back(bytes);
        }
        while let Ok(bytes) = self.returned.try_recv() {
            self.take_back(bytes);
        }
        self.spare.pop().unwrap_or_default()
    }

    /// Queues the records of segment `id` for replay, after those of all earlier hints.
    pub(super) fn add(&mut self, id: u32, hint: Hint) -> Arc<LentHint> {
        self.ahead_bytes += hint.bytes.len();
        let hint = Arc::new(LentHint { hint, owner: self.lend.clone() });
        for replayer in &self.threads {
            // A thread that ended has panicked; its panic is reported at the end.
            let _ = replayer.hints.send((id, Arc::clone(&hint)));
        }
        hint
    }

    /// Waits for the threads and merges their results into `state`.
    pub(super) fn finish(self, state: &mut State) {
        for Replayer { hints, thread } in self.threads {
            drop(hints);
            match thread.join() {
                Ok(replayed) => state.absorb(replayed),
                Err(panic) => resume_unwind(panic),
            }
        }
    }

    fn take_back(&mut self, bytes: Bytes) {
        self.ahead_bytes -= bytes.len();
        // Keeps as much as may be read ahead, or a single large buffer.
        if self.spare.is_empty() || bytes.len() * (self.spare.len() + 1) <= AHEAD_BYTES_MAX {
            self.spare.push(bytes.into());
        }
    }
}

/// Replays the entries of `spaces` of all hints received.
fn replay(mut state: State, spaces: &[Space], hints: &Receiver<(u32, Arc<LentHint>)>) -> State {
    for (id, hint) in hints {
        hint.entries(|entry| {
            if spaces.contains(&entry.placed.header.key.space) {
                state.apply(id, &entry.placed);
            }
        });
        hint.numbers(|space, partition, number| {
            if spaces.contains(&space) {
                state.index.note_number(space, partition, number);
            }
        });
    }
    state
}
