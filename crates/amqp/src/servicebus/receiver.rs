//! Receiver links: the credit passed on to the engine.
//!
//! A client's credit is passed on through a window, so that the number of messages that the engine has delivered and
//! the client has not read is bounded. The windows of all links of a connection share one budget; a link always gets
//! one message.

use std::collections::VecDeque;
use std::sync::Arc;

use peeklock_engine::{CreditLimit, LockToken, ReceiveMode, Selector};
use smallvec::SmallVec;

use super::entities::Entity;
use crate::endpoint::{LinkId, NowMs};

/// Approximate number of messages of one connection delivered by the engine and not yet written, summed over its links.
pub(crate) const WINDOW_MESSAGES: u64 = 4096;

/// Approximate bytes of one connection delivered by the engine and not yet written, summed over its links: each link
/// may exceed its share by one message.
pub(crate) const WINDOW_BYTES: u64 = 4 * 1024 * 1024;

/// Unsettled deliveries of one connection; the link that exceeds it is closed.
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

/// A message delivered by the engine and not yet written to the socket.
#[derive(Debug)]
struct Waiting {
    token: LockToken,
    bytes: u32,
    /// When it is withdrawn unless it has been sent.
    withdraw_at: NowMs,
}

/// One receiver link.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Its link.
    pub(crate) link: LinkId,
    /// The entity it receives from.
    pub(crate) entity: Arc<Entity>,
    /// The key of its session, if it has one.
    pub(crate) session: Option<Arc<str>>,
    /// The selector that its messages match, if it has one.
    pub(crate) selector: Option<Selector>,
    /// Whether it is in the list of links to process after a transmission.
    pub(crate) listed: bool,
    /// Whether messages are removed before they are sent: receive-and-delete.
    pub(crate) deletes: bool,
    /// Deliveries the peer has not settled.
    pub(crate) unsettled: usize,
    /// Deliveries since attach that the peer's credit allows.
    client_limit: u64,
    /// The limit last sent to the engine.
    granted: CreditLimit,
    handed: CreditLimit,
    transmitted: CreditLimit,
    /// Messages delivered by the engine and withdrawn: the engine counts them, the link does not.
    withdrawn: CreditLimit,
    waiting: VecDeque<Waiting>,
    /// How many waiting messages are removed or being removed.
    reserved: usize,
    /// How many of these may be sent.
    released: usize,
    /// Deliveries transmitted at the last withdrawal: from there the window grows as the peer reads.
    slow_since: Option<u64>,
    /// The peer has requested a drain.
    draining: bool,
    /// Drains requested from the engine and not yet answered.
    drains_in_flight: u32,
    /// The peer's last drain is complete: its unused credit is returned once the waiting messages are sent, and they get
    /// no successors.
    drain_is_complete: bool,
}

/// A credit update for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The new credit limit.
    pub(crate) limit: CreditLimit,
    /// Whether unused credit is returned at once.
    pub(crate) drain: bool,
}

impl Receiver {
    /// A link without credit.
    pub(crate) fn new(link: LinkId, entity: Arc<Entity>, mode: ReceiveMode) -> Self {
        Self {
            link,
            entity,
            session: None,
            selector: None,
            listed: false,
            deletes: mode == ReceiveMode::ReceiveAndDelete,
            unsettled: 0,
            client_limit: 0,
            granted: CreditLimit::default(),
            handed: CreditLimit::default(),
            transmitted: CreditLimit::default(),
            withdrawn: CreditLimit::default(),
            waiting: VecDeque::new(),
            reserved: 0,
            released: 0,
            slow_since: None,
            draining: false,
            drains_in_flight: 0,
            drain_is_complete: false,
        }
    }

    /// Applies the peer's new credit.
    pub(crate) fn set_credit(&mut self, limit: u64, drain: bool, window: Window) -> Option<Grant> {
        // A repetition during a drain: the engine's one answer serves both.
        if drain && self.draining && limit == self.client_limit && self.drains_in_flight > 0 {
            return None;
        }
        self.client_limit = limit;
        self.draining = drain;
        self.drain_is_complete = false;
        let wanted = self.wanted(window);
        let unchanged = wanted.messages == self.granted.messages && wanted.bytes <= self.granted.bytes;
        // A drain in progress voids earlier grants, so the grant is repeated.
        if unchanged && !drain && self.drains_in_flight == 0 {
            return None;
        }
        Some(self.grant(wanted))
    }

    /// Records a message delivered by the engine, to be withdrawn at `withdraw_at` unless it is being sent by then.
    pub(crate) fn handed_over(&mut self, token: LockToken, content_bytes: usize, withdraw_at: NowMs) {
        let bytes = u32::try_from(content_bytes).unwrap_or(u32::MAX);
        self.handed.messages += 1;
        self.handed.bytes += u64::from(bytes);
        self.waiting.push_back(Waiting { token, bytes, withdraw_at });
        if !self.deletes {
            self.unsettled += 1;
        }
    }

    /// Marks the next `count` messages as being removed and returns their locks.
    pub(crate) fn reserve(&mut self, count: usize) -> SmallVec<[LockToken; 1]> {
        let next = self.waiting.iter().skip(self.reserved).take(count);
        let tokens = next.map(|waiting| waiting.token).collect();
        self.reserved += count;
        tokens
    }

    /// Marks `count` messages as removed, except those at the positions `dropped` among them (in order), which are not
    /// sent. Returns the locks of the latter. `drained` is whether that completed the peer's drain.
    pub(crate) fn release_reserved(
        &mut self,
        count: usize,
        dropped: &[usize],
        drained: bool,
    ) -> SmallVec<[LockToken; 1]> {
        let mut tokens = SmallVec::new();
        for position in dropped.iter().rev() {
            if let Some(waiting) = self.waiting.remove(self.released + position) {
                self.reserved -= 1;
                self.forget(&waiting);
                tokens.push(waiting.token);
            }
        }
        self.released += count.saturating_sub(dropped.len());
        if drained || self.drain_is_complete {
            self.client_limit = self.handed.messages;
        }
        tokens
    }

    /// When the first message that is not leaving is withdrawn; `leaving` is the number in front of it.
    pub(crate) fn withdraw_at(&self, leaving: usize) -> Option<NowMs> {
        Some(self.waiting.get(leaving)?.withdraw_at)
    }

    /// Messages delivered by the engine beyond the peer's credit, which it has reduced meanwhile.
    pub(crate) fn excess(&self) -> usize {
        usize::try_from(self.handed.messages.saturating_sub(self.client_limit)).unwrap_or(usize::MAX)
    }

    /// Withdraws the last `count` messages and returns their locks.
    pub(crate) fn withdrawn(&mut self, count: usize, drained: bool) -> SmallVec<[LockToken; 1]> {
        let kept = self.waiting.len().saturating_sub(count);
        let gone = self.waiting.split_off(kept);
        for waiting in &gone {
            self.forget(waiting);
            self.unsettled -= usize::from(!self.deletes && self.unsettled > 0);
        }
        if drained || self.drain_is_complete {
            self.client_limit = self.handed.messages;
        }
        gone.into_iter().map(|waiting| waiting.token).collect()
    }

    /// Stops further deliveries of the engine for now. The engine ends a drain in progress, and answers it. The peer is
    /// slow, so the window starts small again.
    pub(crate) fn stop(&mut self) -> Grant {
        self.slow_since = Some(self.transmitted.messages);
        self.granted = self.handed;
        Grant { limit: self.as_the_engine_counts(self.granted), drain: false }
    }

    fn forget(&mut self, waiting: &Waiting) {
        let bytes = u64::from(waiting.bytes);
        for count in [&mut self.handed, &mut self.granted] {
            count.messages = count.messages.saturating_sub(1);
            count.bytes = count.bytes.saturating_sub(bytes);
        }
        self.withdrawn.messages += 1;
        self.withdrawn.bytes += bytes;
    }

    /// Messages sent since attach.
    pub(crate) fn messages(&self) -> u64 {
        self.transmitted.messages
    }

    fn as_the_engine_counts(&self, limit: CreditLimit) -> CreditLimit {
        CreditLimit {
            messages: limit.messages.saturating_add(self.withdrawn.messages),
            bytes: limit.bytes.saturating_add(self.withdrawn.bytes),
        }
    }

    /// Records the deliveries written since attach. A new grant is due when half the window is used.
    pub(crate) fn transmitted(&mut self, messages: u64, window: Window) -> Option<Grant> {
        while self.transmitted.messages < messages {
            let Some(written) = self.waiting.pop_front() else { break };
            self.transmitted.messages += 1;
            self.transmitted.bytes += u64::from(written.bytes);
            self.reserved = self.reserved.saturating_sub(1);
            self.released = self.released.saturating_sub(1);
        }
        if self.drains_in_flight > 0 {
            return None;
        }
        let window = self.paced(window);
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

    /// Handles the engine's answer to a drain. `true` when that completes the peer's drain; otherwise the window may
    /// have moved in the meantime, or it has stopped the engine, which continues when it moves.
    pub(crate) fn drained(&mut self) -> bool {
        self.drains_in_flight = self.drains_in_flight.saturating_sub(1);
        if !self.draining || self.drains_in_flight > 0 {
            return false;
        }
        let queue_is_empty =
            self.handed.messages < self.granted.messages && self.handed.bytes < self.granted.bytes;
        // The engine has voided the remaining credit; the next grant starts from here.
        self.granted = self.handed;
        if !queue_is_empty && self.handed.messages < self.client_limit {
            return false;
        }
        self.draining = false;
        self.drain_is_complete = true;
        self.client_limit = self.client_limit.min(self.handed.messages);
        true
    }

    /// Drains requested from the engine and not yet answered.
    pub(crate) fn drains_in_flight(&self) -> u32 {
        self.drains_in_flight
    }

    /// Whether messages wait to be written or a drain waits for the window.
    pub(crate) fn needs_attention(&self) -> bool {
        !self.waiting.is_empty() || (self.draining && self.drains_in_flight == 0)
    }

    /// Locks of messages that are not leaving: they are released when the link ends.
    pub(crate) fn untransmitted(&self) -> impl Iterator<Item = LockToken> + '_ {
        self.waiting.iter().skip(self.reserved).map(|waiting| waiting.token)
    }

    fn paced(&self, window: Window) -> Window {
        let read = |since: u64| self.transmitted.messages.saturating_sub(since);
        let messages = self.slow_since.map_or(u64::MAX, |since| read(since).saturating_mul(2).max(1));
        Window { messages: window.messages.min(messages), ..window }
    }

    fn wanted(&self, window: Window) -> CreditLimit {
        let window = self.paced(window);
        CreditLimit {
            messages: self.client_limit.min(self.transmitted.messages.saturating_add(window.messages)),
            bytes: self.transmitted.bytes.saturating_add(window.bytes),
        }
    }

    fn grant(&mut self, limit: CreditLimit) -> Grant {
        self.granted = limit;
        self.drains_in_flight += u32::from(self.draining);
        Grant { limit: self.as_the_engine_counts(limit), drain: self.draining }
    }
}

#[cfg(test)]
mod tests;
