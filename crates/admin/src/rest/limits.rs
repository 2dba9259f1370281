//! Limits of all requests together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use peeklock_access::{Grant, Resource};
use peeklock_budget::{Budget, Owner, Share};
use peeklock_errors::ErrorKind;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::slots::{Slot, Slots};
use crate::error::Error;

/// Memory for bodies of requests, in KiB; further requests wait unread until there is room.
const BODIES_KIB: u32 = 256 * 1024;

/// Divisor: bodies may use at most this part of the process's memory budget.
const BODIES_PART_OF_BUDGET: usize = 4;

/// How long a request waits for memory of other bodies before it is refused: a large one takes seconds to arrive.
const BODIES_PATIENCE: Duration = Duration::from_secs(30);

/// How long a request waits for memory held by others before it is refused.
const MEMORY_PATIENCE: Duration = Duration::from_secs(5);

/// How often it checks for free memory.
const MEMORY_LOOK: Duration = Duration::from_millis(20);

/// How long a peer may pause in the middle of a body.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Limits shared by all requests; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    receives: Slots,
    bodies_kib: Arc<Semaphore>,
    bodies_kib_max: u32,
    /// Number of requests that wait for memory of other bodies.
    waiting: Arc<AtomicUsize>,
    budget: Budget,
}

/// Memory reserved for a body, released when dropped.
#[derive(Debug)]
pub struct Room {
    permit: OwnedSemaphorePermit,
    _share: Share,
    waiting: Arc<AtomicUsize>,
}

impl Room {
    /// Whether other requests wait for memory of bodies.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// A request that waits for memory, counted until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Limits {
    /// Limits within the memory budget of the process.
    pub(crate) fn new(budget: Budget) -> Self {
        let part_kib = budget.limit_bytes() / BODIES_PART_OF_BUDGET / 1024;
        let bodies_kib_max = u32::try_from(part_kib).unwrap_or(u32::MAX).min(BODIES_KIB);
        Self {
            receives: Slots::default(),
            bodies_kib: Arc::new(Semaphore::new(bodies_kib_max as usize)),
            bodies_kib_max,
            waiting: Arc::default(),
            budget,
        }
    }

    /// Reserves a slot for a receive from an entity with a credential, until it is dropped.
    ///
    /// # Errors
    /// 503 if none is free for them.
    pub(super) fn receive(&self, entity: Resource, grant: &Grant) -> Result<Slot, Error> {
        let slot = self.receives.take(entity, grant.holder());
        slot.ok_or_else(|| Error::busy("Too many receives are waiting; retry in a while."))
    }

    /// Reserves memory for a message in an answer.
    ///
    /// # Errors
    /// 503 if memory is short.
    pub(crate) fn answer(&self, bytes: usize) -> Result<Share, Error> {
        self.budget.try_share(Owner::HttpAnswers, bytes).ok_or_else(memory_short)
    }

    /// Reserves memory for a body. Waits for other bodies, and a few seconds for memory held by others.
    ///
    /// # Errors
    /// 503 if memory is short.
    pub(crate) async fn body(&self, bytes: u64) -> Result<Room, Error> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.bodies_kib_max);
        let permit = self.bodies_permit(kib).await?;
        let bytes = kib as usize * 1024;
        let deadline = Instant::now() + MEMORY_PATIENCE;
        let mut waiting = None;
        loop {
            if let Some(share) = self.budget.try_share(Owner::HttpRequests, bytes) {
                return Ok(Room { permit, _share: share, waiting: Arc::clone(&self.waiting) });
            }
            if Instant::now() >= deadline {
                return Err(memory_short());
            }
            waiting.get_or_insert_with(|| self.budget.wait());
            sleep(MEMORY_LOOK).await;
        }
    }

    /// A part of the memory for bodies. While a request waits for it, slow bodies end ([`Room::is_wanted`]).
    async fn bodies_permit(&self, kib: u32) -> Result<OwnedSemaphorePermit, Error> {
        let _waiting = Waiting::begin(&self.waiting);
        let permit = timeout(BODIES_PATIENCE, Arc::clone(&self.bodies_kib).acquire_many_owned(kib)).await;
        permit.map_err(|_| memory_short())?.map_err(|_| Error::internal())
    }

    /// Reserves memory for what a body becomes when it is read, besides the room that the body has. Waits a few seconds
    /// only: requests that wait here hold rooms themselves.
    ///
    /// # Errors
    /// 413 if all memory for bodies would not suffice, 503 if memory is short.
    pub(super) async fn more(&self, room: &Room, bytes: u64) -> Result<Room, Error> {
        let bytes_max =
            (self.bodies_kib_max as usize).saturating_sub(room.permit.num_permits()) as u64 * 1024;
        if bytes > bytes_max {
            let text =
                format!("The batch has too many messages or properties: they take {bytes} bytes of memory.");
            return Err(Error::of(ErrorKind::BodyTooLarge, text));
        }
        timeout(MEMORY_PATIENCE, self.body(bytes)).await.unwrap_or_else(|_| Err(memory_short()))
    }
}

fn memory_short() -> Error {
    Error::busy("The broker has no memory left for this request; retry it in a while.")
}
