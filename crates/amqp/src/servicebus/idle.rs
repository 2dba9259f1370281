//! Detaches links that are not used, and closes connections without links, as Service Bus does; off by default. Only
//! operations are use: heartbeats are not, nor is credit that was granted earlier (azure-sdk-for-python 10127, 18795).

use rustc_hash::FxHashMap;

use super::errors::Fault;
use super::{ConnectionHandler, IdleLimits, Link};
use crate::endpoint::{Connection, Event, LinkId, NowMs};

/// A connection that never had a link is closed after this time if not earlier, in milliseconds
/// (azure-sdk-for-python 36677).
const FIRST_LINK_MS_MAX: u64 = 60_000;

/// How often links are checked: a tenth of the shorter limit, in these bounds, in milliseconds.
const CHECK_MS_MIN: u64 = 100;
const CHECK_MS_MAX: u64 = 10_000;

/// When the links of a connection were used.
pub(super) struct IdleWatch {
    limits: IdleLimits,
    /// All links, from their attach on; ended ones are removed by the next check.
    used: FxHashMap<LinkId, NowMs>,
    /// Since when the connection has had no link other than those to `$cbs`.
    unlinked_since: Option<NowMs>,
    had_link: bool,
    next_check: Option<NowMs>,
}

impl IdleWatch {
    pub(super) fn new(limits: IdleLimits) -> Self {
        let used = FxHashMap::default();
        Self { limits, used, unlinked_since: None, had_link: false, next_check: None }
    }

    pub(super) const fn deadline(&self) -> Option<NowMs> {
        self.next_check
    }

    /// The pause between checks; `None` if there are no limits.
    fn pause_ms(&self) -> Option<u64> {
        let shorter = [self.limits.link_ms, self.limits.no_link_ms].into_iter().flatten().min()?;
        Some((shorter / 10).clamp(CHECK_MS_MIN, CHECK_MS_MAX))
    }

    /// Records the use of a link by the peer.
    pub(super) fn note(&mut self, event: &Event, now: NowMs) {
        match event {
            Event::Opened(_) => self.next_check = self.pause_ms().map(|_| now),
            Event::Attach { link, .. } | Event::Credit { link, .. } | Event::Disposition { link, .. } => {
                self.used(*link, now);
            }
            Event::Message { id, .. } => self.used(id.link, now),
            _ => {}
        }
    }

    /// Records the use of a link.
    pub(super) fn used(&mut self, link: LinkId, now: NowMs) {
        if self.next_check.is_some() {
            self.used.insert(link, now);
        }
    }
}

impl ConnectionHandler {
    /// Detaches links and closes the connection, if that is due.
    pub(super) fn end_idle(&mut self, connection: &mut Connection, now: NowMs) {
        if self.idle.next_check.is_none_or(|at| now < at) {
            return;
        }
        self.idle.next_check = self.idle.pause_ms().map(|pause_ms| now.saturating_add(pause_ms));
        self.idle.used.retain(|link, _| connection.link_figures(*link).is_some());
        self.detach_idle(connection, now);
        self.close_unlinked(connection, now);
    }

    fn detach_idle(&mut self, connection: &mut Connection, now: NowMs) {
        let Some(limit_ms) = self.idle.limits.link_ms else { return };
        let is_idle = |used_at: NowMs| now.saturating_sub(used_at) >= limit_ms;
        let idle = self.idle.used.iter().filter(|(_, used_at)| is_idle(**used_at));
        let idle: Vec<_> =
            idle.filter_map(|(link, _)| Some((*link, names(self.links.get(link)?)?))).collect();
        for (link, (code, component)) in idle {
            let name = connection.link_figures(link).map(|figures| figures.name.into()).unwrap_or_default();
            let error = self.tracker().error(&Fault::LinkIdle { name, code, component, link, limit_ms });
            connection.detach(link, Some(error));
            self.detached(link);
            self.idle.used.remove(&link);
        }
    }

    fn close_unlinked(&mut self, connection: &mut Connection, now: NowMs) {
        let Some(limit_ms) = self.idle.limits.no_link_ms else { return };
        // A link that is not accepted yet is not in the table.
        let counts = |link: &LinkId| self.links.get(link).is_none_or(|link| !is_for_tokens(link));
        if self.idle.used.keys().any(counts) {
            (self.idle.unlinked_since, self.idle.had_link) = (None, true);
            return;
        }
        let since = *self.idle.unlinked_since.get_or_insert(now);
        let limit_ms = if self.idle.had_link { limit_ms } else { limit_ms.min(FIRST_LINK_MS_MAX) };
        if now.saturating_sub(since) >= limit_ms {
            let error = self.tracker().error(&Fault::NoLinks { limit_ms });
            connection.close(Some(error));
            self.idle.next_check = None;
        }
    }
}

const fn is_for_tokens(link: &Link) -> bool {
    matches!(link, Link::CbsRequests { .. } | Link::Responses { entity: None })
}

/// The names of the link's kind and of its part of the service; `None` for links that stay attached.
const fn names(link: &Link) -> Option<(&'static str, &'static str)> {
    match link {
        Link::Sender(_) => Some(("publisher", "AmqpMessagePublisher")),
        Link::Receiver(_) | Link::Browser(_) => Some(("consumer", "AmqpMessageConsumer")),
        // The component: azure-service-bus-java 75; the code is inferred.
        Link::ManagementRequests { .. } | Link::Responses { entity: Some(_) } => {
            Some(("client", "AmqpControlProtocolClient"))
        }
        Link::CbsRequests { .. }
        | Link::Responses { entity: None }
        | Link::Relay { .. }
        | Link::Subscription { .. }
        | Link::Coordinator => None,
    }
}

/// A duration as .NET writes it.
pub(super) fn time_span(duration_ms: u64) -> String {
    let (secs, ms) = (duration_ms / 1_000, duration_ms % 1_000);
    let fraction = if ms == 0 { String::new() } else { format!(".{ms:03}0000") };
    format!("{:02}:{:02}:{:02}{fraction}", secs / 3_600, secs / 60 % 60, secs % 60)
}
