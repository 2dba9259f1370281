//! The only thread that appends: collects pending batches, writes one frame, syncs once, then answers them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::directory::is_full;
use super::format::{
    FRAME_HEADER_BYTES, Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, Shadows,
};
use super::frame::FrameBuilder;
use super::hint::Listing;
use super::manifest::{Closed, Seal};
use super::pace::Pace;
use super::segments::SegmentFile;
use super::shared::Shared;
use super::state::Shadower;
use crate::queue::{FrameLimits, Queue, batch_bytes};
use crate::waiting::{Halted, Waiting, full, refuse};
use crate::{Batch, CommitNotifier, Error, Key, Operation, PartitionId, Pressure};

mod roll;
mod trailing_frame;

/// A frame accepts no further batch beyond this many operations, which bounds the time for which the index is locked.
const FRAME_OPERATIONS_MAX: usize = 16 << 10;
/// Buffers larger than this are released after use.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// Length of a sleep while waiting for more batches.
const NAP: Duration = Duration::from_micros(50);
/// Smaller frames are written without a gathering delay: latency matters more than batching.
const GATHERED_BATCHES_MIN: usize = 8;

/// A request to the writer.
#[derive(Debug)]
pub(super) enum Request {
    Commit(Batch, CommitNotifier),
    /// Accepts batches of this partition again; its owner has noticed the refusal and has no batch under way any more.
    Resume(PartitionId),
    Stop,
}

/// How long to wait when taking in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gather {
    /// For the first request, and briefly for more batches to share its sync.
    Waiting,
    /// Not at all.
    #[cfg(any(test, feature = "testing"))]
    Queued,
}

/// The segment that is being filled.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) segment: Arc<SegmentFile>,
    /// Offset of the next frame.
    pub(super) offset: u64,
    pub(super) first_sequence: u64,
    /// Sequence of the next frame.
    pub(super) sequence: u64,
}

impl Active {
    /// The seal that matches the segment's current contents.
    pub(super) const fn seal(&self) -> Seal {
        Seal { end: self.offset, first_sequence: self.first_sequence, next_sequence: self.sequence }
    }
}

/// State of the writer.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    active: Active,
    frame: FrameBuilder,
    /// The listing of the active segment.
    listing: Listing,
    shadows: Vec<Option<Shadows>>,
    queue: Queue,
    /// A request that is carried out when all earlier ones are answered.
    carried: Option<Request>,
    pace: Pace,
    halted: Halted,
    /// Number of batches in the last frame, and the time to write it.
    last_batches: usize,
    last_write: Duration,
    /// The last frame is not empty and no frame follows it yet.
    needs_trailing_frame: bool,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, active: Active) -> Self {
        let needs_trailing_frame = active.sequence > active.first_sequence;
        // Records already in the segment were listed by an earlier owner, if at all.
        let is_empty = active.offset == u64::from(SEGMENT_HEADER_BYTES);
        let listing = if is_empty { Listing::new(Vec::new()) } else { Listing::default() };
        Self {
            shared,
            active,
            frame: FrameBuilder::default(),
            listing,
            shadows: Vec::new(),
            queue: Queue::default(),
            carried: None,
            pace: Pace::default(),
            halted: Halted::default(),
            last_batches: 0,
            last_write: Duration::ZERO,
            needs_trailing_frame,
        }
    }

    /// Runs until stopped, then returns the active segment. After a fatal error it answers everything with that error.
    pub(super) fn run(mut self, requests: &Receiver<Request>) -> Active {
        let mut waiting = Vec::new();
        while self.drain(requests, &mut waiting) {
            if !waiting.is_empty() {
                self.commit(&mut waiting);
            }
        }
        self.commit(&mut waiting);
        self.active
    }

    /// Commits at most `batches_max` of the queued batches as one frame; returns how many it answered.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn step(&mut self, requests: &Receiver<Request>, batches_max: usize) -> usize {
        let mut waiting = Vec::new();
        self.take_in(requests, Gather::Queued);
        self.queue.take_oldest(batches_max, &mut waiting);
        let batches = waiting.len();
        if batches > 0 {
            self.commit(&mut waiting);
        }
        batches
    }

    /// The active segment.
    #[cfg(any(test, feature = "testing"))]
    pub(super) const fn active(&self) -> &Active {
        &self.active
    }

    fn limits(&self) -> FrameLimits {
        FrameLimits { bytes: self.pace.frame_bytes_max(), operations: FRAME_OPERATIONS_MAX }
    }

    /// Takes in pending requests and collects a frame of them; returns false when the writer must stop.
    fn drain(&mut self, requests: &Receiver<Request>, waiting: &mut Vec<Waiting>) -> bool {
        let goes_on = self.take_in(requests, Gather::Waiting);
        self.queue.take_frame(self.limits(), waiting);
        goes_on
    }

    /// Moves requests to the queue; returns false when the writer must stop.
    fn take_in(&mut self, requests: &Receiver<Request>, gather: Gather) -> bool {
        let limits = self.limits();
        let mut gathering_since = None;
        while !self.queue.is_full() {
            let next = match self.carried.take() {
                // Earlier batches must be answered first.
                Some(request) if !self.queue.is_empty() => {
                    self.carried = Some(request);
                    break;
                }
                Some(request) => Ok(request),
                None if self.queue.is_empty() && gather == Gather::Waiting => self.wait(requests),
                None => requests.try_recv(),
            };
            match next {
                Ok(Request::Commit(batch, notifier)) => self.queue.push(batch, notifier),
                Ok(request @ (Request::Resume(_) | Request::Stop)) if !self.queue.is_empty() => {
                    self.carried = Some(request);
                }
                Ok(Request::Resume(partition)) => self.halted.resume(partition),
                Ok(Request::Stop) => return false,
                Err(TryRecvError::Disconnected) if self.queue.is_empty() => return false,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    let since = *gathering_since.get_or_insert_with(Instant::now);
                    let is_enough = gather != Gather::Waiting || self.queue.exceeds(limits);
                    if is_enough || !self.is_worth_waiting(self.queue.len(), since) {
                        break;
                    }
                    self.let_others_work(since);
                }
            }
        }
        true
    }

    /// Whether to let more batches come before the next sync.
    ///
    /// Senders of the batches just answered are about to send again. Without waiting, the first of them would get a
    /// sync of its own while all others wait for the next one. The wait is at most half the duration of that sync.
    fn is_worth_waiting(&self, batches: usize, since: Instant) -> bool {
        self.last_batches >= GATHERED_BATCHES_MIN
            && batches < self.last_batches / 2
            && since.elapsed() < self.last_write / 2
    }

    /// Yields the processor to the expected senders. Sleeping costs less than polling, but takes twice as long as
    /// requested, so it is used only if there is enough time.
    fn let_others_work(&self, since: Instant) {
        if (self.last_write / 2).saturating_sub(since.elapsed()) > 4 * NAP {
            std::thread::sleep(NAP);
        } else {
            std::thread::yield_now();
        }
    }

    /// Makes the waiting batches durable and answers all of them, in order.
    fn commit(&mut self, waiting: &mut Vec<Waiting>) {
        let started = Instant::now();
        self.last_batches = waiting.len();
        if let Some(error) = self.shared.fatal_error.get() {
            refuse(waiting, error, |_| true);
        } else {
            let limits = self.shared.options.limits();
            for one in waiting.iter_mut() {
                one.refusal = one.batch.check(limits).err();
            }
            if let Some(error) = shortage(*self.shared.pressure.borrow()) {
                refuse(waiting, &error, Batch::grows);
            }
            self.halted.spread(waiting);
            if let Err(error) = self.write_accepted(waiting) {
                refuse(waiting, &error, |_| true);
                self.halted.spread(waiting);
            }
        }
        let now = Instant::now();
        self.last_write = now - started;
        self.pace.note(waiting, self.last_write, now);
        for one in waiting.drain(..) {
            one.notifier.resolve(one.refusal.map_or(Ok(()), Err));
        }
        self.frame.shrink(BUFFER_BYTES_MAX);
        self.ask_for_next_segment();
    }

    /// Writes the batches that are not refused; when space runs out, or no segment can be prepared, removals can still
    /// use the reserve.
    fn write_accepted(&mut self, waiting: &mut [Waiting]) -> Result<(), Error> {
        let Err(mut error) = self.try_write(waiting, false) else { return Ok(()) };
        if self.refuse_oversized(waiting, &error) {
            match self.try_write(waiting, false) {
                Ok(()) => return Ok(()),
                Err(other) => error = other,
            }
        }
        let Some(pressure) = pressure_of(&error) else { return Err(error) };
        self.shared.announce(pressure);
        refuse(waiting, &error, Batch::grows);
        self.halted.spread(waiting);
        self.try_write(waiting, true)
    }

    fn try_write(&mut self, waiting: &[Waiting], is_for_removals: bool) -> Result<(), Error> {
        let accepted = || waiting.iter().filter(|one| one.refusal.is_none()).map(|one| &one.batch);
        if accepted().all(Batch::is_empty) {
            return Ok(());
        }
        let bytes = accepted().map(batch_bytes).sum::<u64>() + u64::from(FRAME_HEADER_BYTES) + 8;
        let does_grow = || accepted().any(Batch::grows);
        if !self.has_room(bytes, does_grow)
            || (is_for_removals && self.shared.is_write_refused.load(Ordering::Acquire))
        {
            self.roll(bytes, does_grow(), is_for_removals)?;
        }
        self.encode(accepted());
        if self.frame.is_empty() {
            return Ok(());
        }
        self.frame.finish(self.active.offset, self.active.sequence, self.active.segment.salt);
        let started = Instant::now();
        self.write_frame()?;
        self.count(accepted().count(), started.elapsed());
        self.apply();
        self.needs_trailing_frame = true;
        Ok(())
    }

    fn encode<'a>(&mut self, batches: impl Iterator<Item = &'a Batch> + Clone) {
        self.shadows.clear();
        {
            let mut state = self.shared.state();
            let mut shadower = Shadower::new(&mut state, self.active.segment.id);
            for batch in batches.clone() {
                let shadows = batch.operations().iter().map(|operation| shadower.shadows(operation));
                self.shadows.extend(shadows);
            }
        }
        self.frame.clear();
        let mut shadows = self.shadows.iter();
        for batch in batches {
            for (operation, shadows) in batch.operations().iter().zip(shadows.by_ref()) {
                if let Some(shadows) = shadows {
                    push(&mut self.frame, operation, *shadows);
                }
            }
        }
    }

    fn write_frame(&self) -> Result<(), Error> {
        let Active { segment, offset, .. } = &self.active;
        match self.frame.write(segment.file.as_ref(), *offset) {
            Ok(()) => {}
            Err(error) if is_full(&error) => {
                self.shared.is_write_refused.store(true, Ordering::Release);
                // The blanked header must never be mistaken for a frame, not even after a power cut.
                let blank = [0; FRAME_HEADER_BYTES as usize];
                let blanked = segment.file.write_all_at(&blank, *offset);
                let is_unwritten = blanked.as_ref().is_err_and(is_full);
                return match blanked.and_then(|()| segment.file.sync_data()) {
                    Err(error) if !is_unwritten => {
                        Err(self.shared.fail_in_doubt("writing", &segment.path, &error))
                    }
                    _ => Err(full(&error.to_string())),
                };
            }
            Err(error) => return Err(self.shared.fail_in_doubt("writing", &segment.path, &error)),
        }
        // After a failed sync the state of earlier writes is unknown too: the process must stop.
        segment.file.sync_data().map_err(|error| self.shared.fail_in_doubt("syncing", &segment.path, &error))
    }

    fn apply(&mut self) {
        let id = self.active.segment.id;
        self.frame.list(&mut self.listing);
        self.active.offset += super::format::align(self.frame.len());
        self.active.sequence += 1;
        let is_segment_dead = {
            let mut state = self.shared.state();
            state.log_end = Some(Closed { id, seal: self.active.seal() });
            state.apply_all(id, self.frame.records())
        };
        if is_segment_dead {
            self.shared.keeper_wake.wake();
        }
    }

    fn count(&self, batches: usize, took: Duration) {
        let metrics = &self.shared.options.metrics;
        metrics.syncs.inc();
        metrics.batches.inc_by(batches as u64);
        metrics.written_bytes.inc_by(self.frame.len());
        metrics.sync_duration.observe_us(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
}

/// What a write's error says about the store's room; `None` for an error that ends the handle.
const fn pressure_of(error: &Error) -> Option<Pressure> {
    match error {
        Error::Full { .. } => Some(Pressure::Full),
        error if error.is_outage() => Some(Pressure::Failing),
        _ => None,
    }
}

/// The error for batches that grow the store under this pressure.
fn shortage(pressure: Pressure) -> Option<Error> {
    let left = "only the reserve for removals is left";
    match pressure {
        Pressure::Normal => None,
        Pressure::Full => Some(full(left)),
        Pressure::Failing => {
            Some(Error::Unavailable { reason: format!("no segment can be prepared, and {left}") })
        }
    }
}

fn push(frame: &mut FrameBuilder, operation: &Operation, shadows: Shadows) {
    match operation {
        Operation::Put { key, value } => {
            let value_len = u32::try_from(value.len()).unwrap_or(u32::MAX);
            frame.push(RecordHeader { kind: Kind::Put, key: *key, value_len, shadows }, value, 0);
        }
        Operation::Delete { key } => {
            let header = RecordHeader { kind: Kind::Delete, key: *key, value_len: 0, shadows };
            frame.push_copy(header, &[], 0);
        }
        Operation::DeleteRange { space, partition, numbers } => {
            let key = Key::new(*space, *partition, *numbers.start());
            let header = RecordHeader { kind: Kind::DeleteRange, key, value_len: 8, shadows };
            frame.push_copy(header, &numbers.end().to_le_bytes(), *numbers.end());
        }
    }
}

const _: () = assert!(RECORD_HEADER_BYTES == 32, "batch_bytes counts on it");
