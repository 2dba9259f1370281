//! Exchange between the writer and the background threads: prepared segments in one direction, full ones in the other.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::hint::Listing;
use super::manifest::Seal;
use super::segments::SegmentFile;
use super::shard::closed;
use crate::Error;

/// Prepared segments kept ready: the next one and a reserve for removals on a full disk.
pub(super) const PREPARED_SEGMENTS: usize = 2;
/// Most dead segment files kept for reuse; more are deleted.
pub(super) const SPARE_SEGMENTS_MAX: usize = 4;

/// Most listings of full segments that wait for the keeper.
pub(super) const LISTINGS_MAX: usize = 3;
/// Number of youngest sealed segments whose hints are delayed while further segments are sealed: where messages are
/// consumed as fast as they arrive, these segments are dead before long.
pub(super) const HINTS_WAITING: usize = 1;
/// Buffers kept for the next listing and the next hint.
const BUFFERS_MAX: usize = 2;

/// Interval in which a waiting writer checks again.
const WAIT_MS: u64 = 20;

/// The writer's requirements for the next segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    /// Its minimum size.
    pub(super) bytes: u64,
    /// Number of prepared segments that must remain.
    pub(super) left: usize,
    /// How long to wait for space to be freed when there is none for another segment.
    pub(super) patience: Duration,
}

/// A segment that is no longer appended to.
#[derive(Debug, Clone, Copy)]
pub(super) struct FullSegment {
    pub(super) id: u32,
    pub(super) seal: Seal,
}

/// A dead segment file, kept for reuse.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) path: PathBuf,
    pub(super) capacity: u64,
}

/// The shared state. Locked briefly, never during file operations.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// In the order of their ranks, in which they are used.
    pub(super) prepared: VecDeque<Arc<SegmentFile>>,
    /// Number that the keeper keeps ready; 0 until the first segment fills.
    pub(super) prepared_target: usize,
    /// The minimum size of the segment that the writer waits for.
    pub(super) wanted_bytes: Option<u64>,
    /// The reason why no segment can be prepared, while that is so.
    pub(super) supply_error: Option<Error>,
    /// Number of the last round that the keeper began, and of the last one it finished.
    pub(super) rounds_begun: u64,
    pub(super) rounds_done: u64,
    /// Full segments whose seal is not in the manifest yet.
    pub(super) unsealed: VecDeque<FullSegment>,
    /// Sealed segments without a hint yet.
    pub(super) hints_due: VecDeque<FullSegment>,
    /// Listings of some of them, and of segments that will be added to them soon.
    pub(super) listings: Vec<(u32, Listing)>,
    /// Buffers of finished listings and hints, kept for reuse: new memory costs a process more than filling it.
    buffers: Vec<Vec<u8>>,
    /// Files removed from the manifest; reused once no reader holds them.
    pub(super) retired: Vec<Arc<SegmentFile>>,
    pub(super) spares: Vec<Spare>,
    is_stopped: bool,
}

impl Exchange {
    /// Keeps the listing of a full segment, unless too many wait for the keeper already: they take memory.
    pub(super) fn keep_listing(&mut self, id: u32, listing: Listing) {
        if listing.is_complete() && self.listings.len() < LISTINGS_MAX {
            self.listings.push((id, listing));
        } else {
            self.give_buffer_back(listing.into_buffer());
        }
    }

    /// The listing of a full segment, if there is one.
    pub(super) fn take_listing(&mut self, id: u32) -> Option<Listing> {
        let place = self.listings.iter().position(|(listed, _)| *listed == id)?;
        Some(self.listings.swap_remove(place).1)
    }

    /// The next segment whose hint is to be written, and its listing, if there is one. The youngest ones are delayed
    /// unless the store is idle.
    pub(super) fn next_hint(&mut self, is_at_rest: bool) -> Option<(FullSegment, Option<Listing>)> {
        let waiting = if is_at_rest { 0 } else { HINTS_WAITING };
        let due = if self.hints_due.len() > waiting { self.hints_due.pop_front()? } else { return None };
        let listing = self.take_listing(due.id);
        Some((due, listing))
    }

    /// An empty buffer, of megabytes if one was returned recently.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    /// Keeps a buffer for the next listing or hint.
    pub(super) fn give_buffer_back(&mut self, mut buffer: Vec<u8>) {
        if self.buffers.len() < BUFFERS_MAX && buffer.capacity() > 0 {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Releases the buffers after a time without use.
    pub(super) fn drop_buffers(&mut self) {
        self.buffers = Vec::new();
    }
}

/// An [`Exchange`] with a condition variable.
#[derive(Debug, Default)]
pub(super) struct Pool {
    exchange: Mutex<Exchange>,
    changed: Condvar,
}

impl Pool {
    pub(super) fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes a waiting writer.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Takes the next segment; waits while one is being prepared. `ask` wakes the keeper. The error is that of the
    /// preparation, or [`Error::Stopped`].
    pub(super) fn take(
        &self,
        need: Need,
        ask: impl Fn(),
        stepped: &Stepped,
    ) -> Result<Arc<SegmentFile>, Error> {
        let Need { bytes, left, patience } = need;
        let deadline = Instant::now() + if stepped.is_stepped() { Duration::ZERO } else { patience };
        let mut exchange = self.lock();
        exchange.prepared_target = PREPARED_SEGMENTS;
        let asked_in_round = exchange.rounds_begun;
        loop {
            if exchange.is_stopped {
                exchange.wanted_bytes = None;
                return Err(closed());
            }
            let is_fitting = exchange.prepared.front().is_some_and(|segment| segment.capacity >= bytes);
            if is_fitting && exchange.prepared.len() > left {
                exchange.wanted_bytes = None;
                if let Some(segment) = exchange.prepared.pop_front() {
                    drop(exchange);
                    ask();
                    return Ok(segment);
                }
            }
            // Removals may have freed space since the keeper's last check: only a round begun after the request counts.
            let has_looked = exchange.rounds_done > asked_in_round;
            let given_up = exchange.supply_error.clone().filter(|_| has_looked && Instant::now() >= deadline);
            if let Some(error) = given_up {
                exchange.wanted_bytes = None;
                return Err(error);
            }
            exchange.wanted_bytes = Some(bytes);
            ask();
            if stepped.is_stepped() {
                drop(exchange);
                stepped.work();
                exchange = self.lock();
                continue;
            }
            let waited = self.changed.wait_timeout(exchange, Duration::from_millis(WAIT_MS));
            exchange = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Makes a waiting writer give up.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.notify();
    }
}

/// Replacement for the background threads of a store that is stepped by a test: instead of waiting for a thread, its
/// work is done.
#[derive(Default)]
pub(super) struct Stepped(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl Stepped {
    pub(super) fn is_stepped(&self) -> bool {
        self.0.get().is_some()
    }

    fn work(&self) {
        if let Some(work) = self.0.get() {
            work();
        }
    }

    /// From now on there are no threads; `work` is called instead of waiting for them.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn set(&self, work: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(work));
    }
}

impl std::fmt::Debug for Stepped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Stepped").field(&self.is_stepped()).finish()
    }
}

/// Wakes a background thread; a wake-up while the thread is working is not lost.
#[derive(Debug, Default)]
pub(super) struct WakeFlag {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl WakeFlag {
    pub(super) fn wake(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits until the flag is set or `timeout` has passed; returns whether it was set, and clears it.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_set, timeout, |is_set| !*is_set);
        let (mut is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *is_set)
    }
}

const _: () = assert!(HINTS_WAITING < LISTINGS_MAX, "waiting hints keep their listings");
