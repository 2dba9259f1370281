//! End of a connection's rights: tokens expire, rules change, connections stay unauthenticated. The cost for a
//! connection on which nothing ends is one deadline, and one read of a counter per turn.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use peeklock_engine::Right;
use tokio::sync::watch;

use super::authorization::Need;
use super::entities::Entity;
use super::errors::Fault;
use super::{ConnectionHandler, Link};
use crate::endpoint::condition::{UNAUTHORIZED_ACCESS, error};
use crate::endpoint::{Connection, LinkId, NowMs};

/// The broker's time may be corrected, so intervals measured by it are checked again after this, in milliseconds.
const EXPIRY_LOOK_MS_MAX: u64 = 60_000;

/// When a connection has to check its rights.
pub(super) struct RevocationWatch {
    /// A credential was added or has ended: the deadline below has to be set again.
    pub(super) is_due: bool,
    deadline: Option<NowMs>,
    /// Since when the peer has had no valid credential, without the time for which its attempts were delayed.
    unauthenticated_since: Option<NowMs>,
    /// Ready when a rule changes.
    change: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl RevocationWatch {
    pub(super) fn new(changes: watch::Receiver<u64>) -> Self {
        Self { is_due: true, deadline: None, unauthenticated_since: None, change: next_change(changes) }
    }

    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.deadline
    }

    /// Gives the peer more time to authenticate: an attempt of it is delayed. uamqp puts a token four times on each
    /// connection, so the delays alone would take all the time, and its user would not learn that the key is wrong.
    pub(super) const fn extend(&mut self, delay_ms: u64) {
        if let Some(since) = self.unauthenticated_since {
            self.unauthenticated_since = Some(since.saturating_add(delay_ms));
            self.is_due = true;
        }
    }
}

fn next_change(mut changes: watch::Receiver<u64>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if changes.changed().await.is_err() {
            // The sender was dropped: the broker is shutting down.
            std::future::pending::<()>().await;
        }
    })
}

impl ConnectionHandler {
    /// Wakes the connection when a rule changes; [`Self::update_authorization`] checks.
    pub(super) fn poll_change(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let woken = self.revocation.change.as_mut().poll(context);
        if woken.is_ready() {
            let mut changes = self.authorization.changes();
            changes.mark_unchanged();
            self.revocation.change = next_change(changes);
        }
        woken
    }

    /// Detaches links that lost their rights by a changed rule; called once per turn.
    pub(super) fn update_authorization(&mut self, connection: &mut Connection, now: NowMs) {
        if self.authorization.revoke() {
            self.detach_unpermitted(connection);
            self.revocation.is_due = true;
        }
        if std::mem::take(&mut self.revocation.is_due) {
            self.set_deadline(now);
        }
    }

    /// Handles the deadline: expired tokens, and the end of the time to authenticate.
    pub(super) fn authorization_due(&mut self, connection: &mut Connection, now: NowMs) {
        if self.revocation.deadline.take_if(|deadline| *deadline <= now).is_none() {
            return;
        }
        self.authorization.expire();
        self.detach_unpermitted(connection);
        let time_out_ms = self.config.authorization_time_out_ms;
        let is_over = |since: NowMs| now >= since.saturating_add(time_out_ms);
        if self.authorization.is_unauthenticated()
            && self.revocation.unauthenticated_since.is_some_and(is_over)
        {
            tracing::debug!(time_out_ms, "connection closed: no credential was presented in time");
            let reason = "no valid token was put to $cbs, and no other credential was presented, in time";
            return connection.close(Some(error(UNAUTHORIZED_ACCESS, reason)));
        }
        self.set_deadline(now);
    }

    fn set_deadline(&mut self, now: NowMs) {
        self.revocation.deadline = if self.authorization.is_unauthenticated() {
            let since = *self.revocation.unauthenticated_since.get_or_insert(now);
            Some(since.saturating_add(self.config.authorization_time_out_ms))
        } else {
            self.revocation.unauthenticated_since = None;
            self.peer.admission.admit();
            self.authorization.next_expiry().map(|at| {
                let left_ms = at.0.saturating_sub(self.authorization.access().now().0);
                now.saturating_add(left_ms.min(EXPIRY_LOOK_MS_MAX))
            })
        };
    }

    /// Detaches every link that is no longer permitted.
    fn detach_unpermitted(&mut self, connection: &mut Connection) {
        let lost: Vec<(LinkId, Need, String)> = self
            .links
            .iter()
            .filter_map(|(link, kind)| {
                let (entity, need) = self.needs(kind)?;
                let needed = [Some((entity, need)), destination(kind)];
                let mut needed = needed.into_iter().flatten();
                let missing =
                    needed.find(|(entity, need)| !self.authorization.permits(&entity.resource, *need))?;
                Some((*link, missing.1, missing.0.uri.clone()))
            })
            .collect();
        if let Some((_, need, uri)) = lost.first() {
            // What the links have sent or settled in a transaction must not be committed without their rights.
            self.revoke_transactions(&Fault::GrantEnded { right: need.name(), uri: uri.clone() });
        }
        for (link, need, uri) in lost {
            let fault = Fault::GrantEnded { right: need.name(), uri };
            let error = self.tracker().error(&fault);
            connection.detach(link, Some(error));
            self.detached(link);
        }
    }

    fn needs<'a>(&'a self, link: &'a Link) -> Option<(&'a Entity, Need)> {
        let (entity, need) = match link {
            Link::Sender(sender) => (&sender.entity, Need::Right(Right::Send)),
            Link::Receiver(id) => (&self.receivers.get(id)?.entity, Need::Right(Right::Listen)),
            Link::Browser(browser) => (&browser.entity, Need::Right(Right::Listen)),
            Link::ManagementRequests { target, .. } => (&target.entity, Need::Any),
            Link::Responses { entity: Some(entity) } => (entity, Need::Any),
            // Rights are checked for each message, or when the link ends.
            Link::Relay { .. } | Link::Subscription { .. } => return None,
            Link::Coordinator | Link::CbsRequests { .. } | Link::Responses { entity: None } => return None,
        };
        Some((entity, need))
    }
}

/// The destination of a link that sends by way of another entity.
fn destination(link: &Link) -> Option<(&Entity, Need)> {
    let entity = match link {
        Link::Sender(sender) => sender.requested_via()?,
        Link::ManagementRequests { target, .. } => &target.destination.as_ref()?.entity,
        _ => return None,
    };
    Some((entity, Need::Right(Right::Send)))
}
