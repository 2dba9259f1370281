//! One memory budget for what peers can make the process hold.
//!
//! Every part that holds bytes on behalf of a peer (a connection, a request over HTTP, the cache of contents) reports them
//! through a [`Share`]. Reporting never fails and never waits: the budget says how much a holder may hold at this moment
//! ([`Budget::allowance`]), and each holder stops taking more by itself.
//!
//! The allowance is a fraction of what is free, so it needs no list of holders: few holders may each have much, many have
//! little each, a newcomer always finds some room, and the sum stays below the limit. (This is the "dynamic threshold"
//! by which switches share their packet buffers: Choudhury and Hahne, 1998.)
//!
//! What is larger than an allowance is taken by turns ([`turn`]), out of a part of the budget that allowances leave free.
//!
//! What is known of everything that is stored is not part of the budget, and has a limit of its own ([`state`]).
//!
//! Holders that can't go on for lack of room say so with a [`Waiting`]. While there is one, others know that what they
//! hold idly is wanted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub mod state;
pub mod throttle;
pub mod turn;

#[cfg(test)]
mod tests;

/// A holder may hold the free bytes divided by this.
const FREE_PER_ALLOWANCE: usize = 2;

/// Changes of a share below this many bytes are not reported: small holders cost no shared counter.
const STEP_BYTES: usize = 16 * 1024;

/// What every holder may hold whatever the others do, in bytes: so much is never reported.
pub const FREE_OF_CHARGE_BYTES: usize = STEP_BYTES;

/// For what memory is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Messages that arrive over AMQP: partly received, or waiting to be stored.
    Incoming,
    /// Deliveries and answers over AMQP that wait for the peer to read them, and answers under way.
    Outgoing,
    /// Bodies of requests over HTTP.
    HttpRequests,
    /// Messages in answers over HTTP.
    HttpAnswers,
    /// Contents of recent messages, kept to spare reading them from the disk.
    BodyCache,
    /// Contents read from the disk for receivers, until the receiver's front end reports them.
    Deliveries,
    /// Messages on their way from one entity to another.
    Forwarding,
}

impl Owner {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Incoming,
        Self::Outgoing,
        Self::HttpRequests,
        Self::HttpAnswers,
        Self::BodyCache,
        Self::Deliveries,
        Self::Forwarding,
    ];

    /// As metrics call it.
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

/// A limit in bytes and what is held of it; cheap to clone, all clones are the same budget.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit_bytes: usize,
    /// The part that is left for whoever has its turn.
    turn_bytes: usize,
    line: turn::Line,
    state: state::State,
    used_bytes: AtomicUsize,
    by_owner: [AtomicUsize; Owner::ALL.len()],
    waiting: AtomicUsize,
    holders: AtomicUsize,
}

impl Default for Budget {
    /// Without a limit.
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Budget {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self::with_turns(limit_bytes, 0)
    }

    /// A budget of so many bytes, `turn_bytes` of which are left for the holder that has its turn.
    #[must_use]
    pub fn with_turns(limit_bytes: usize, turn_bytes: usize) -> Self {
        Self::beside_state(limit_bytes, turn_bytes, usize::MAX)
    }

    /// The same, beside a state of at most so many bytes.
    #[must_use]
    pub fn beside_state(limit_bytes: usize, turn_bytes: usize, state_bytes_max: usize) -> Self {
        Self(Arc::new(Inner {
            limit_bytes,
            turn_bytes,
            line: turn::Line::default(),
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

    /// What all shares hold, in bytes.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// What the shares of one owner hold, in bytes.
    #[must_use]
    pub fn used_by(&self, owner: Owner) -> usize {
        self.0.by_owner(owner).load(Ordering::Relaxed)
    }

    /// What nobody holds, in bytes.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.0.limit_bytes.saturating_sub(self.used_bytes())
    }

    /// How much one holder may hold at this moment, in bytes.
    #[must_use]
    pub fn allowance(&self) -> usize {
        let free_bytes = self.free_bytes().saturating_sub(self.0.turn_bytes);
        (free_bytes / FREE_PER_ALLOWANCE).max(FREE_OF_CHARGE_BYTES)
    }

    /// The most that a single holder may hold while nobody else holds anything, in bytes.
    #[must_use]
    pub fn largest_share(&self) -> usize {
        // x = (limit - x) / FREE_PER_ALLOWANCE
        self.0.limit_bytes.saturating_sub(self.0.turn_bytes) / (FREE_PER_ALLOWANCE + 1)
    }

    /// Whether a holder can't go on for lack of room.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// What is known of everything that is stored.
    #[must_use]
    pub fn state(&self) -> &state::State {
        &self.0.state
    }

    fn line(&self) -> &turn::Line {
        &self.0.line
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

    /// Says that a holder waits for room, until it is dropped.
    #[must_use]
    pub fn wait(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self.clone())
    }

    /// A number for each holder, so that they need not all do the same at the same time.
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

/// What one holder holds; given back when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    owner: Owner,
    bytes: usize,
}

impl Share {
    /// The holder holds so many bytes from now on. Rounded down to steps of 16 KiB.
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

    /// What is reported, in bytes.
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
