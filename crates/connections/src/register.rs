//! The register of connections.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::{About, Figures, Look};

/// Most requests that wait for a connection's next turn; with more, the connection counts as busy.
const REQUESTS_MAX: usize = 16;

/// Identifies a connection. Ids of another run of the broker are invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    run: u64,
    number: u64,
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:x}-{}", self.run, self.number)
    }
}

/// The text is not an id of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoConnectionId;

impl FromStr for ConnectionId {
    type Err = NoConnectionId;

    fn from_str(text: &str) -> Result<Self, NoConnectionId> {
        let (run, number) = text.split_once('-').ok_or(NoConnectionId)?;
        let run = u64::from_str_radix(run, 16).map_err(|_| NoConnectionId)?;
        let id = Self { run, number: number.parse().map_err(|_| NoConnectionId)? };
        // Each id has only one accepted spelling.
        if id.to_string() == text { Ok(id) } else { Err(NoConnectionId) }
    }
}

/// A request to a connection.
#[derive(Debug)]
pub enum Request {
    /// Return the connection's state.
    Look(Look, oneshot::Sender<Figures>),
    /// Close the connection.
    Close {
        /// The operator who requested it.
        by: Box<str>,
    },
}

/// Live connections; cheap to clone.
#[derive(Debug, Clone)]
pub struct Register(Arc<Mutex<Live>>);

#[derive(Debug)]
struct Live {
    run: u64,
    entered: u64,
    entries: BTreeMap<ConnectionId, Entry>,
}

impl Default for Register {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Register {
    /// An empty register. `run` should differ between runs of the broker, so that an old id never refers to another
    /// connection.
    #[must_use]
    pub fn new(run: u64) -> Self {
        Self(Arc::new(Mutex::new(Live { run, entered: 0, entries: BTreeMap::new() })))
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection until the result is dropped.
    #[must_use]
    pub fn enter(&self, about: About) -> Presence {
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let mut live = self.live();
        live.entered += 1;
        let id = ConnectionId { run: live.run, number: live.entered };
        live.entries.insert(id, Entry { id, about: Arc::new(about), requests: sender });
        drop(live);
        Presence { register: self.clone(), id, requests, waiting: None }
    }

    /// Number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.live().entries.len()
    }

    /// The connection with this id, if it is registered.
    #[must_use]
    pub fn find(&self, id: ConnectionId) -> Option<Entry> {
        self.live().entries.get(&id).cloned()
    }

    /// Connections in the order of opening, after the given one, which may no longer exist.
    #[must_use]
    pub fn after(&self, id: Option<ConnectionId>, top: usize) -> Vec<Entry> {
        let live = self.live();
        let entries = live.entries.range((id.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        entries.take(top).map(|(_, entry)| entry.clone()).collect()
    }
}

/// A registered connection, as seen from outside.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id.
    pub id: ConnectionId,
    /// Its fixed properties.
    pub about: Arc<About>,
    requests: mpsc::Sender<Request>,
}

impl Entry {
    /// Queries the state of connections concurrently. `None` for a connection that ended meanwhile or did not answer in
    /// time.
    pub async fn look_at(entries: &[Self], look: &Look, within: Duration) -> Vec<Option<Figures>> {
        let until = Instant::now() + within;
        let asked: Vec<_> = entries.iter().map(|entry| entry.ask(look.clone())).collect();
        let mut found = Vec::with_capacity(asked.len());
        for answer in asked {
            found.push(match answer {
                Some(answer) => timeout_at(until, answer).await.ok().and_then(Result::ok),
                None => None,
            });
        }
        found
    }

    fn ask(&self, look: Look) -> Option<oneshot::Receiver<Figures>> {
        let (sender, answer) = oneshot::channel();
        self.requests.try_send(Request::Look(look, sender)).ok().map(|()| answer)
    }

    /// Closes the connection in its next turn; returns whether it still existed.
    pub async fn close(&self, by: &str) -> bool {
        self.requests.send(Request::Close { by: by.into() }).await.is_ok()
    }

    /// Resolves when the connection is no longer registered.
    pub async fn gone(&self) {
        self.requests.closed().await;
    }
}

/// Keeps a connection registered until dropped.
#[derive(Debug)]
pub struct Presence {
    register: Register,
    id: ConnectionId,
    requests: mpsc::Receiver<Request>,
    /// The request that woke the connection.
    waiting: Option<Request>,
}

impl Presence {
    /// The connection's id.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The next request; to be called until it returns `None`, after [`Self::poll_request`] was ready.
    pub fn next_request(&mut self) -> Option<Request> {
        self.waiting.take().or_else(|| self.requests.try_recv().ok())
    }

    /// Ready if [`Self::next_request`] would return a request; otherwise wakes the context when one arrives.
    pub fn poll_request(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_none()
            && let Poll::Ready(request) = self.requests.poll_recv(context)
        {
            self.waiting = request;
        }
        if self.waiting.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.register.live().entries.remove(&self.id);
    }
}
