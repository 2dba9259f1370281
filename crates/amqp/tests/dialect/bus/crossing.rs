//! Transactions across entities in the model: the first entity of an AMQP session that began with a coordinator's link is
//! its root. Messages to other entities are sent by way of it, and no other is received from. A link for sending can name
//! a destination besides: its messages are sent by way of the entity that it is attached to, without a transaction as well.

use super::queue::{Message, Place};
use super::room::Added;
use super::transactions::root_of;
use super::work::Work;
use super::{Bus, LinkKey, Path};
use crate::message::Draft;
use crate::outcome::{DISABLED, FULL, NOT_ALLOWED, NOT_FOUND, Outcome, Refused};

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

    /// Attaches a link for sending to an entity, perhaps by way of another, which it is attached to.
    pub(crate) fn attach_sender(&mut self, link: LinkKey, path: Path, via: Option<Path>) -> Outcome {
        let is_subscription = path.contains('/');
        let Some(via) = via else {
            return match is_subscription && self.exists(path) {
                true => Outcome::Refused(NOT_ALLOWED),
                false => self.watch(link, path, true),
            };
        };
        let refused = match (self.exists(via), self.check_sends(via)) {
            (false, _) => Some(NOT_FOUND),
            (true, Err(refused)) => Some(refused),
            (true, Ok(())) if !self.exists(path) => Some(NOT_FOUND),
            (true, Ok(())) => is_subscription.then_some(NOT_ALLOWED),
        };
        refused.map_or_else(|| self.watch(link, via, true), Outcome::Refused)
    }

    /// Sends messages by way of another entity, outside any transaction.
    pub(crate) fn send_via(&mut self, via: Path, target: Path, drafts: &[Draft]) -> Result<Outcome, Refused> {
        let work = Work::Transferred { via, target, born: self.born(target), drafts: drafts.to_vec() };
        self.plan(vec![work])?.into_iter().for_each(|one| self.carry_out(one));
        // Several entities change at a time of the broker's choice.
        self.has_forwarded = true;
        self.look_after();
        Ok(Outcome::Done)
    }

    pub(crate) fn is_root(&self, path: Path) -> bool {
        self.roots.values().any(|root| *root == Some(path))
    }

    /// Whether the target of messages accepts them besides what was added before; otherwise the reason.
    pub(super) fn add_transfer(
        &self,
        (target, born): (Path, Option<u64>),
        drafts: &[Draft],
        added: &mut Added,
    ) -> Result<(), &'static str> {
        let is_it = born.is_some() && born == self.born(target);
        let bytes = added.bytes.entry(target).or_default();
        let checked = is_it.then(|| self.check_send_besides(target, drafts.iter(), *bytes));
        *bytes = checked.unwrap_or(Err(NOT_FOUND)).map_err(|refused| match refused {
            NOT_FOUND => "MessagingEntityNotFoundException",
            DISABLED => "MessagingEntityDisabledException",
            FULL => "QuotaExceededException",
            _ => "Session id is null.",
        })?;
        Ok(())
    }

    /// Stores messages among the transfer dead letters of the entity in between.
    pub(super) fn keep(&mut self, via: Path, drafts: &[Draft], reason: &'static str) {
        let queue = self.queue(via).expect("it is there");
        for draft in drafts {
            let mut message = Message::new(draft);
            (message.place, message.reason) = (Place::Transfer, Some(reason));
            queue.add(message);
        }
    }
}
