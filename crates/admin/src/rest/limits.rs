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

/// Divisor: this part of the memory for bodies is left to small ones, so that large ones, which take long to arrive, can't
/// hold them up.
const SMALL_PART_OF_BODIES: u32 = 8;

/// Divisor: bodies of unknown length that may become large begin in this part of the memory for bodies. They keep it while
/// they wait for more: together with the part of large bodies it must not be all, or they could wait for one another.
const UNKNOWN_PART_OF_BODIES: u32 = 8;

/// A larger body is large: the default maximum message size of the premium tier.
const SMALL_BODY_KIB_MAX: u32 = 1024;

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
    /// Memory for all bodies.
    bodies: Pool,
    /// The part of it that large bodies may use together.
    large_bodies: Pool,
    /// The part of it in which bodies of unknown length begin.
    unknown_bodies: Pool,
    budget: Budget,
}

/// Memory that requests share, in KiB.
#[derive(Debug, Clone)]
struct Pool {
    free_kib: Arc<Semaphore>,
    kib_max: u32,
    /// Number of requests that wait for it.
    waiting: Arc<AtomicUsize>,
}

/// A part of a [`Pool`], returned when dropped.
#[derive(Debug)]
struct Part {
    permit: OwnedSemaphorePermit,
    waiting: Arc<AtomicUsize>,
}

impl Pool {
    fn new(kib_max: u32) -> Self {
        Self { free_kib: Arc::new(Semaphore::new(kib_max as usize)), kib_max, waiting: Arc::default() }
    }

    /// Takes a part, in order of the requests.
    async fn take(&self, kib: u32) -> Result<Part, Error> {
        let _waiting = Waiting::begin(&self.waiting);
        let permit = Arc::clone(&self.free_kib).acquire_many_owned(kib.min(self.kib_max)).await;
        let permit = permit.map_err(|_| Error::internal())?;
        Ok(Part { permit, waiting: Arc::clone(&self.waiting) })
    }
}

impl Part {
    fn kib(&self) -> u32 {
        u32::try_from(self.permit.num_permits()).unwrap_or(u32::MAX)
    }

    fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Memory reserved for a body, released when dropped.
#[derive(Debug)]
pub struct Room {
    parts: Vec<Part>,
    /// For a large body.
    large_parts: Vec<Part>,
    /// For a body of unknown length.
    unknown_part: Option<Part>,
    shares: Vec<Share>,
}

impl Room {
    /// Whether other requests wait for memory that this body holds.
    pub(crate) fn is_wanted(&self) -> bool {
        self.parts.iter().chain(&self.large_parts).chain(&self.unknown_part).any(Part::is_wanted)
    }

    /// Adds the memory of another room.
    pub(super) fn join(&mut self, mut other: Self) {
        self.parts.append(&mut other.parts);
        self.large_parts.append(&mut other.large_parts);
        self.shares.append(&mut other.shares);
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
        let kib_max = u32::try_from(part_kib).unwrap_or(u32::MAX).min(BODIES_KIB);
        Self {
            receives: Slots::default(),
            bodies: Pool::new(kib_max),
            large_bodies: Pool::new(
                kib_max - kib_max / SMALL_PART_OF_BODIES - kib_max / UNKNOWN_PART_OF_BODIES,
            ),
            unknown_bodies: Pool::new(kib_max / UNKNOWN_PART_OF_BODIES),
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
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX).min(self.bodies.kib_max);
        let parts = timeout(BODIES_PATIENCE, self.parts(kib)).await;
        let (parts, large_parts) = parts.unwrap_or_else(|_| Err(memory_short()))?;
        let bytes = kib as usize * 1024;
        let deadline = Instant::now() + MEMORY_PATIENCE;
        let mut waiting = None;
        loop {
            if let Some(share) = self.budget.try_share(Owner::HttpRequests, bytes) {
                return Ok(Room { parts, large_parts, unknown_part: None, shares: vec![share] });
            }
            if Instant::now() >= deadline {
                return Err(memory_short());
            }
            waiting.get_or_insert_with(|| self.budget.wait());
            sleep(MEMORY_LOOK).await;
        }
    }

    /// Parts of the memory for bodies. A large body takes its part of the large ones first, and holds nothing that small
    /// ones need while it waits for it. While a request waits, slow bodies end ([`Room::is_wanted`]).
    async fn parts(&self, kib: u32) -> Result<(Vec<Part>, Vec<Part>), Error> {
        if !self.is_large(kib) {
            return Ok((vec![self.bodies.take(kib).await?], Vec::new()));
        }
        let large_part = self.large_bodies.take(kib).await?;
        Ok((vec![self.bodies.take(large_part.kib()).await?], vec![large_part]))
    }

    /// Reserves memory for a body of unknown length of at most `bytes_max`, which counts as a small one until it is larger;
    /// also returns the bytes that have room.
    ///
    /// # Errors
    /// 503 if memory is short.
    pub(super) async fn unknown_body(&self, bytes_max: u64) -> Result<(Room, u64), Error> {
        let small_kib = self.small_body_kib_max();
        let small_bytes = u64::from(small_kib) * 1024;
        if bytes_max <= small_bytes {
            return Ok((self.body(bytes_max).await?, bytes_max));
        }
        let part = timeout(BODIES_PATIENCE, self.unknown_bodies.take(small_kib)).await;
        let part = part.unwrap_or_else(|_| Err(memory_short()))?;
        let room = self.body(small_bytes).await?;
        Ok((Room { unknown_part: Some(part), ..room }, small_bytes))
    }

    fn small_body_kib_max(&self) -> u32 {
        SMALL_BODY_KIB_MAX.min(self.bodies.kib_max / SMALL_PART_OF_BODIES)
    }

    fn is_large(&self, kib: u32) -> bool {
        kib > self.small_body_kib_max()
    }

    /// Reserves memory for what a body becomes when it is read, besides the room that the body has. Waits a few seconds
    /// only: requests that wait here hold rooms themselves.
    ///
    /// # Errors
    /// 413 if all memory for bodies would not suffice, 503 if memory is short.
    pub(super) async fn more(&self, room: &Room, bytes: u64) -> Result<Room, Error> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let (pool, held) = match self.is_large(kib) {
            true => (&self.large_bodies, &room.large_parts),
            false => (&self.bodies, &room.parts),
        };
        let held_kib: u32 = held.iter().map(Part::kib).sum();
        if kib > pool.kib_max.saturating_sub(held_kib) {
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
