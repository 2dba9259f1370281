//! Receiver links: how far the engine may serve them.
//!
//! A client's credit is passed on through a window, so that what the engine has handed over and the client has not
//! read stays bounded. The windows of all links of a connection share one budget; a link always gets one message.

use std::collections::VecDeque;
use std::sync::Arc;

use peeklock_engine::{CreditLimit, LockToken};

use super::entities::Entity;
use crate::endpoint::LinkId;

/// Messages of one connection handed over and not yet written, summed over its links, roughly.
pub(crate) const WINDOW_MESSAGES: u64 = 4096;

/// Bytes of one connection handed over and not yet written, summed over its links, roughly: each link may exceed its
/// share by one message.
pub(crate) const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// Deliveries of one connection that wait for a settlement; the link that exceeds it is closed.
pub(crate) const UNSETTLED_MAX: usize = 262_144;

/// One link's share of the connection's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    messages: u64,
    bytes: u64,
}

impl Window {
    /// The share of one link among `links` of a connection that may hold `room_bytes`.
    pub(crate) fn share(links: usize, room_bytes: usize) -> Self {
        let links = u64::try_from(links.max(1)).unwrap_or(u64::MAX);
        let bytes = WINDOW_BYTES.min(u64::try_from(room_bytes).unwrap_or(u64::MAX));
        Self { messages: (WINDOW_MESSAGES / links).max(1), bytes: (bytes / links).max(1) }
    }
}

/// A message handed over by the engine and not yet written to the socket.
#[derive(Debug)]
struct Waiting {
    token: Option<LockToken>,
    bytes: u32,
}

/// One receiver link.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Its link.
    pub(crate) link: LinkId,
    /// What it reads from.
    pub(crate) entity: Arc<Entity>,
    /// The key of the session it holds.
    pub(crate) session: Option<Arc<str>>,
    /// Whether it is in the list of links to look after when something was transmitted.
    pub(crate) listed: bool,
    /// Deliveries the peer has not settled.
    pub(crate) unsettled: usize,
    /// Deliveries since attach that the peer will take.
    client_limit: u64,
    /// What the engine was told last.
    granted: CreditLimit,
    handed: CreditLimit,
    transmitted: CreditLimit,
    waiting: VecDeque<Waiting>,
    /// The peer wants its credit back when nothing is available.
    draining: bool,
    /// Drains asked of the engine and not yet answered.
    drains_in_flight: u32,
}

/// What to tell the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// How far.
    pub(crate) limit: CreditLimit,
    /// Whether unused credit is given back at once.
    pub(crate) drain: bool,
}

impl Receiver {
    /// A link without credit.
    pub(crate) fn new(link: LinkId, entity: Arc<Entity>) -> Self {
        Self {
            link,
            entity,
            session: None,
            listed: false,
            unsettled: 0,
            client_limit: 0,
            granted: CreditLimit::default(),
            handed: CreditLimit::default(),
            transmitted: CreditLimit::default(),
            waiting: VecDeque::new(),
            draining: false,
            drains_in_flight: 0,
        }
    }

    /// The peer changed its credit.
    pub(crate) fn set_credit(&mut self, limit: u64, drain: bool, window: Window) -> Option<Grant> {
        // Said again while the engine is at it: its one answer serves both.
        if drain && self.draining && limit == self.client_limit && self.drains_in_flight > 0 {
            return None;
        }
        self.client_limit = limit;
        self.draining = drain;
        let wanted = self.wanted(window);
        let unchanged = wanted.messages == self.granted.messages && wanted.bytes <= self.granted.bytes;
        // A drain under way voids what was granted before it: say it again.
        if unchanged && !drain && self.drains_in_flight == 0 {
            return None;
        }
        Some(self.grant(wanted))
    }

    /// The engine handed over a message.
    pub(crate) fn handed_over(&mut self, token: Option<LockToken>, content_bytes: usize) {
        let bytes = u32::try_from(content_bytes).unwrap_or(u32::MAX);
        self.handed.messages += 1;
        self.handed.bytes += u64::from(bytes);
        self.waiting.push_back(Waiting { token, bytes });
        if token.is_some() {
            self.unsettled += 1;
        }
    }

    /// The connection has written so many deliveries since attach. A new grant is due when half the window is used.
    pub(crate) fn transmitted(&mut self, messages: u64, window: Window) -> Option<Grant> {
        while self.transmitted.messages < messages {
            let Some(written) = self.waiting.pop_front() else { break };
            self.transmitted.messages += 1;
            self.transmitted.bytes += u64::from(written.bytes);
        }
        if self.drains_in_flight > 0 {
            return None;
        }
        let wanted = self.wanted(window);
        if wanted.messages <= self.handed.messages || wanted.bytes <= self.handed.bytes {
            return None;
        }
        let due = |granted: u64, handed: u64, wanted: u64, share: u64| {
            wanted > granted && granted.saturating_sub(handed).saturating_mul(2) < share
        };
        let is_due = due(self.granted.messages, self.handed.messages, wanted.messages, window.messages)
            || (self.granted.messages > self.handed.messages
                && due(self.granted.bytes, self.handed.bytes, wanted.bytes, window.bytes));
        is_due.then(|| self.grant(wanted))
    }

    /// The engine has delivered what there was. `true` when that fulfils the peer's drain; otherwise it stopped at
    /// the window and goes on when that moves.
    pub(crate) fn drained(&mut self) -> bool {
        self.drains_in_flight = self.drains_in_flight.saturating_sub(1);
        if !self.draining || self.drains_in_flight > 0 {
            return false;
        }
        let queue_is_empty =
            self.handed.messages < self.granted.messages && self.handed.bytes < self.granted.bytes;
        // The engine has voided what was left; the next grant starts from here.
        self.granted = self.handed;
        if !queue_is_empty && self.handed.messages < self.client_limit {
            return false;
        }
        self.draining = false;
        self.client_limit = self.handed.messages;
        true
    }

    /// Drains asked of the engine and not yet answered.
    pub(crate) fn drains_in_flight(&self) -> u32 {
        self.drains_in_flight
    }

    /// Whether messages wait to be written or a drain waits for the window.
    pub(crate) fn needs_attention(&self) -> bool {
        !self.waiting.is_empty() || (self.draining && self.drains_in_flight == 0)
    }

    /// Locks of messages that never left: they are given back when the link goes.
    pub(crate) fn untransmitted(&self) -> impl Iterator<Item = LockToken> + '_ {
        self.waiting.iter().filter_map(|waiting| waiting.token)
    }

    fn wanted(&self, window: Window) -> CreditLimit {
        CreditLimit {
            messages: self.client_limit.min(self.transmitted.messages.saturating_add(window.messages)),
            bytes: self.transmitted.bytes.saturating_add(window.bytes),
        }
    }

    fn grant(&mut self, limit: CreditLimit) -> Grant {
        self.granted = limit;
        self.drains_in_flight += u32::from(self.draining);
        Grant { limit, drain: self.draining }
    }
}

#[cfg(test)]
mod tests;
