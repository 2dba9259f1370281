//! Transactions across entities in the model: the first entity of an AMQP session that began with a coordinator's link is
//! its root. Messages to other entities are sent by way of it, and no other is received from.

use super::queue::{Message, Place};
use super::transactions::root_of;
use super::{Bus, Path};
use crate::message::Draft;
use crate::outcome::{DISABLED, NOT_ALLOWED, NOT_FOUND, Refused};

impl Bus {
    /// The client begins a session for transactions across entities.
    pub(crate) fn cross(&mut self, peer: usize) {
        self.roots.insert(peer, None);
    }

    /// A link to an entity is attached.
    pub(super) fn enter(&mut self, peer: usize, path: Path, receives: bool) -> Result<(), Refused> {
        let Some(root) = self.roots.get_mut(&peer) else { return Ok(()) };
        let is_other = *root.get_or_insert(root_of(path)) != root_of(path);
        if is_other && receives { Err(NOT_ALLOWED) } else { Ok(()) }
    }

    /// The entity by way of which a client's transactions send to another.
    pub(crate) fn via(&self, peer: usize, path: Path) -> Option<Path> {
        let root = self.roots.get(&peer).copied().flatten();
        root.filter(|root| *root != root_of(path))
    }

    pub(crate) fn is_root(&self, path: Path) -> bool {
        self.roots.values().any(|root| *root == Some(path))
    }

    /// Stores messages in their target, or among the transfer dead letters of the entity in between.
    pub(super) fn transfer(&mut self, via: Path, target: Path, drafts: &[Draft]) {
        let reason = match self.check_send(target, drafts.iter()) {
            Ok(()) => {
                drafts.iter().for_each(|draft| _ = self.store(target, draft));
                return;
            }
            Err(NOT_FOUND) => "MessagingEntityNotFoundException",
            Err(DISABLED) => "MessagingEntityDisabledException",
            Err(_) => "Session id is null.",
        };
        let queue = self.queue(via).expect("it is there");
        for draft in drafts {
            let mut message = Message::new(draft);
            (message.place, message.reason) = (Place::Transfer, Some(reason));
            queue.add(message);
        }
    }
}
