//! Attaches to `$management` that arrive before the token for their entity: they wait for it.
//!
//! Java attaches these links while it puts the token, up to `azure-messaging-servicebus` 7.17.5, and the SDK's live tests
//! browse that way (`ServiceBusReceiverAsyncClientIntegrationTest.peekMessage`): `getManagementNode` creates the channel
//! before `authorize()` has completed.

use std::collections::VecDeque;

use peeklock_access::{ResolvedNode, Resource};

use super::ConnectionHandler;
use super::authorization::Need;
use super::kept_attach::KeptAttach;
use crate::endpoint::{Connection, LinkId, NowMs};
use crate::wire::performative::{Attach, Role, Target};

/// Maximum number of waiting attaches per connection.
const ATTACHES_MAX: usize = 64;

/// The same for an unauthenticated connection: some of its links are left for `$cbs`.
const UNAUTHENTICATED_ATTACHES_MAX: usize = 12;

/// An attach that waits until `due`.
struct AwaitedAttach {
    due: NowMs,
    link: LinkId,
    session: u16,
    resource: Resource,
    attach: KeptAttach,
}

impl AwaitedAttach {
    fn decode(self) -> Option<(LinkId, u16, Attach)> {
        Some((self.link, self.session, self.attach.decode()?))
    }
}

/// The waiting attaches of one connection, oldest first.
#[derive(Default)]
pub(super) struct AwaitedAttaches(VecDeque<AwaitedAttach>);

impl AwaitedAttaches {
    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.0.front().map(|first| first.due)
    }

    /// Memory of the waiting attaches, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|waiting| waiting.attach.len()).sum()
    }

    pub(super) fn forget(&mut self, link: LinkId) {
        self.0.retain(|waiting| waiting.link != link);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn pop_due(&mut self, now: NowMs) -> Option<AwaitedAttach> {
        self.0.front().filter(|first| first.due <= now)?;
        self.0.pop_front()
    }
}

impl ConnectionHandler {
    /// Keeps an attach whose token may still arrive, as long as a connection may take to authenticate; returns any other.
    /// The same for entities that do not exist: whether a name exists is reported only to authorized peers.
    pub(super) fn await_token(&mut self, link: LinkId, session: u16, attach: Attach) -> Option<Attach> {
        let Some(resource) = management_resource(&attach) else { return Some(attach) };
        let attaches_max = match self.authorization.is_unauthenticated() {
            true => UNAUTHENTICATED_ATTACHES_MAX,
            false => ATTACHES_MAX,
        };
        if self.authorization.has_identity()
            || self.authorization.permits(&resource, Need::Any)
            || self.awaited.0.len() >= attaches_max
        {
            return Some(attach);
        }
        let due = self.now.saturating_add(self.config.authorization_time_out_ms);
        let attach = KeptAttach::new(attach);
        self.awaited.0.push_back(AwaitedAttach { due, link, session, resource, attach });
        None
    }

    /// Continues with the attaches whose token has been accepted.
    pub(super) fn attach_awaited(&mut self, connection: &mut Connection) {
        for waiting in std::mem::take(&mut self.awaited.0) {
            if self.authorization.permits(&waiting.resource, Need::Any) {
                self.answer_decoded(waiting, connection);
            } else {
                self.awaited.0.push_back(waiting);
            }
        }
    }

    /// Continues with the attach of a link on which the peer sends already: nothing is read until it is answered, so its
    /// token could not arrive.
    pub(super) fn answer_awaited_by_transfer(&mut self, connection: &mut Connection) {
        if self.awaited.0.is_empty() {
            return;
        }
        let link = connection.link_of_waiting_transfer();
        if let Some(place) = self.awaited.0.iter().position(|waiting| Some(waiting.link) == link)
            && let Some(waiting) = self.awaited.0.remove(place)
        {
            self.answer_decoded(waiting, connection);
        }
    }

    /// Continues with attaches that have waited too long: they are refused for the missing right.
    pub(super) fn refuse_awaited(&mut self, connection: &mut Connection, now: NowMs) {
        while let Some(waiting) = self.awaited.pop_due(now) {
            self.answer_decoded(waiting, connection);
        }
    }

    fn answer_decoded(&mut self, waiting: AwaitedAttach, connection: &mut Connection) {
        if let Some((link, session, attach)) = waiting.decode() {
            self.answer_attach(link, session, attach, connection);
        }
    }
}

/// The resource of an attach to a management node.
fn management_resource(attach: &Attach) -> Option<Resource> {
    let terminus = match (attach.role, &attach.target) {
        (Role::Receiver, _) => attach.source.as_ref()?,
        (Role::Sender, Some(Target::Node(terminus))) => terminus,
        (Role::Sender, _) => return None,
    };
    match ResolvedNode::of(terminus.address.as_deref()?).ok()? {
        ResolvedNode::Entity(address) if address.management => Some(address.resource()),
        _ => None,
    }
}
