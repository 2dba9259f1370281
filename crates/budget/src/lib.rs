//! One memory budget for the data that peers can make the process hold.
//!
//! Every component that holds bytes on behalf of a peer (a connection, an HTTP request, the cache of bodies) reports
//! them through a [`Share`]. Reporting never fails and never waits: the budget determines how much a holder may
//! currently hold ([`Budget::allowance`]), and each holder stops accepting more by itself.
//!
//! The allowance is a fraction of the free bytes, so it needs no list of holders: few holders may each hold much, many
//! hold little each, a new one always finds some room, and the sum stays below the limit. (This is the "dynamic
//! threshold" by which switches share their packet buffers: Choudhury and Hahne, 1998.)
//!
//! Items larger than an allowance take turns ([`turn`]), using a part of the budget reserved for that.
//!
//! The in-memory state of stored data is not part of the budget and has a limit of its own ([`state`]).
//!
//! A holder that can't continue for lack of room registers a [`Waiting`]. While there is one, other holders should
//! release memory that they hold idly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub mod state;
pub mod throttle;
pub mod turn;

#[cfg(test)]
mod tests;

/// The allowance is the free bytes divided by this.
const FREE_PER_ALLOWANCE: usize = 2;

/// Changes of a share below this many bytes are not reported, so that small holders don't touch a shared counter.
const STEP_BYTES: usize = 16 * 1024;

/// Bytes that every holder may hold regardless of the others; they are never reported.
pub const UNREPORTED_BYTES_MAX: usize = STEP_BYTES;

/// The purpose for which memory is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Messages received over AMQP: partly received, or waiting to be stored.
    Incoming,
    /// Deliveries and answers over AMQP that the peer has not read yet, and answers being built.
    Outgoing,
    /// Bodies of HTTP requests.
    HttpRequests,
    /// Messages in HTTP responses.
    HttpAnswers,
    /// Bodies of recent messages, cached to avoid disk reads.
    BodyCache,
    /// Bodies read from the disk for receivers, until the receiver's front end reports them.
    Deliveries,
    /// Messages on their way from one entity to another.
    Forwarding,
}

impl Owner {
    /// All owners.
    pub const ALL: [Self; 7] = [
        Self::Incoming,
        Self::Outgoing,
        Self::HttpRequests,
        Self::HttpAnswers,
        Self::BodyCache,
        Self::Deliveries,
        Self::Forwarding,
    ];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incoming => "incoming",
            Self::Outgoing => "outgoing",
            Self::HttpRequests => "http_requests",
            Self::HttpAnswers => "http_answers",
            Self::BodyCache => "body_cache",
            Self::Deliveries => "deliveries",
            Self::Forwarding => "forwarding",
        }
    }
}

/// A limit in bytes and the bytes held; cheap to clone, all clones are the same budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit_bytes: usize,
    /// The part reserved for the holder that has its turn.
    turn_bytes: usize,
    wait_queue: turn::WaitQueue,
    state: state::State,
    used_bytes: AtomicUsize,
    by_owner: [AtomicUsize; Owner::ALL.len()],
    waiting: AtomicUsize,
    holders: AtomicUsize,
}

impl Default for Budget {
    /// A budget without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self::with_turns(limit_bytes, 0)
    }

    /// A budget of this many bytes, `turn_bytes` of which are reserved for the holder that has its turn.
    #[must_use]
    pub fn with_turns(limit_bytes: usize, turn_bytes: usize) -> Self {
        Self::beside_state(limit_bytes, turn_bytes, usize::MAX)
    }

    /// Like [`Self::with_turns`], with a separate limit for the state.
    #[must_use]
    pub fn beside_state(limit_bytes: usize, turn_bytes: usize, state_bytes_max: usize) -> Self {
        Self(Arc::new(Inner {
            limit_bytes,
            turn_bytes,
            wait_queue: turn::WaitQueue::default(),
            state: state::State::new(state_bytes_max),
            used_bytes: AtomicUsize::new(0),
            by_owner: Default::default(),
            waiting: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
        }))
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.0.limit_bytes
    }

    /// Bytes held by all shares.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes held by the shares of one owner.
    #[must_use]
    pub fn used_by(&self, owner: Owner) -> usize {
        self.0.by_owner(owner).load(Ordering::Relaxed)
    }

    /// Bytes that are not held.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.0.limit_bytes.saturating_sub(self.used_bytes())
    }

    /// Bytes that one holder may currently hold.
    #[must_use]
    pub fn allowance(&self) -> usize {
        let free_bytes = self.free_bytes().saturating_sub(self.0.turn_bytes);
        (free_bytes / FREE_PER_ALLOWANCE).max(UNREPORTED_BYTES_MAX)
    }

    /// Bytes that a single holder may hold when there is no other holder.
    #[must_use]
    pub fn largest_share(&self) -> usize {
        // x = (limit - x) / FREE_PER_ALLOWANCE
        self.0.limit_bytes.saturating_sub(self.0.turn_bytes) / (FREE_PER_ALLOWANCE + 1)
    }

    /// Whether a holder can't continue for lack of room.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// The memory for the state of stored data.
    #[must_use]
    pub fn state(&self) -> &state::State {
        &self.0.state
    }

    fn wait_queue(&self) -> &turn::WaitQueue {
        &self.0.wait_queue
    }

    /// An empty share.
    #[must_use]
    pub fn share(&self, owner: Owner) -> Share {
        Share { budget: self.clone(), owner, bytes: 0 }
    }

    /// A share of `bytes`, if the allowance has room for it.
    #[must_use]
    pub fn try_share(&self, owner: Owner, bytes: usize) -> Option<Share> {
        if bytes > self.allowance() {
            return None;
        }
        let mut share = self.share(owner);
        share.set(bytes);
        Some(share)
    }

    /// Registers a holder that waits for room, until the result is dropped.
    #[must_use]
    pub fn wait(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }

    /// A number for each holder, so that holders can act at different times.
    #[must_use]
    pub fn next_holder(&self) -> usize {
        self.0.holders.fetch_add(1, Ordering::Relaxed)
    }
}

impl Inner {
    fn by_owner(&self, owner: Owner) -> &AtomicUsize {
        let [incoming, outgoing, http_requests, http_answers, body_cache, deliveries, forwarding] =
            &self.by_owner;
        match owner {
            Owner::Incoming => incoming,
            Owner::Outgoing => outgoing,
            Owner::HttpRequests => http_requests,
            Owner::HttpAnswers => http_answers,
            Owner::BodyCache => body_cache,
            Owner::Deliveries => deliveries,
            Owner::Forwarding => forwarding,
        }
    }
}

/// The bytes of one holder; released when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    owner: Owner,
    bytes: usize,
}

impl Share {
    /// Reports the bytes that the holder has now, rounded down to steps of 16 KiB.
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes - bytes % STEP_BYTES;
        let inner = &self.budget.0;
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            inner.used_bytes.fetch_add(more, Ordering::Relaxed);
            inner.by_owner(self.owner).fetch_add(more, Ordering::Relaxed);
        } else if bytes < self.bytes {
            let less = self.bytes - bytes;
            inner.used_bytes.fetch_sub(less, Ordering::Relaxed);
            inner.by_owner(self.owner).fetch_sub(less, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// The reported bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A holder that waits for room.
#[derive(Debug)]
pub struct Waiting(Budget);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
