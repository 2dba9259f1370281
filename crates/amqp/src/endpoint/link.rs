//! A link of either direction, and the table of all links of a connection.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slab::Slab;

use super::LinkId;
use super::link_in::LinkIn;
use super::link_out::LinkOut;
use crate::wire::performative::{Attach, ReceiverSettleMode, Role, SenderSettleMode};

/// ```text
/// peer attaches: Requested ──accept──▶ Attached ──our detach──▶ Detaching ──peer's detach──▶ gone
/// we attach:     Offered ───answer──▶ Attached ──peer's detach, answered──▶ gone
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPhase {
    /// The peer's attach waits for the upper layer.
    Requested,
    /// Our attach waits for the peer.
    Offered,
    /// Both have attached.
    Attached,
    /// We have detached; frames from before the peer's detach are ignored.
    Detaching,
}

/// The part of a link that depends on its direction.
#[derive(Debug)]
pub(super) enum Side {
    /// We receive.
    In(LinkIn),
    /// We send. Boxed because the sender's part is larger and most links of a large connection are receivers.
    Out(Box<LinkOut>),
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    /// Key of the session.
    pub(super) session: usize,
    pub(super) name: Arc<str>,
    pub(super) phase: LinkPhase,
    /// Our handle.
    pub(super) handle_out: u32,
    /// The peer's handle, from its attach to its detach.
    pub(super) handle_in: Option<u32>,
    pub(super) snd_settle_mode: SenderSettleMode,
    pub(super) rcv_settle_mode: ReceiverSettleMode,
    /// The link was announced to the upper layer and has not been detached by it.
    pub(super) announced: bool,
    pub(super) side: Side,
}

impl Link {
    /// Our role.
    pub(super) fn role(&self) -> Role {
        match self.side {
            Side::In(_) => Role::Receiver,
            Side::Out(_) => Role::Sender,
        }
    }

    pub(super) fn as_in(&mut self) -> Option<&mut LinkIn> {
        match &mut self.side {
            Side::In(side) => Some(side),
            Side::Out(_) => None,
        }
    }

    pub(super) fn as_out(&mut self) -> Option<&mut LinkOut> {
        match &mut self.side {
            Side::Out(side) => Some(side),
            Side::In(_) => None,
        }
    }

    pub(super) fn out(&self) -> Option<&LinkOut> {
        match &self.side {
            Side::Out(side) => Some(side),
            Side::In(_) => None,
        }
    }

    /// Whether the peer has detached, and our detach waits.
    pub(super) fn is_detached_by_peer(&self) -> bool {
        self.handle_in.is_none() && self.phase != LinkPhase::Offered
    }

    /// Whether the link owes a flow; clears the mark.
    pub(super) fn take_flow_due(&mut self) -> bool {
        match &mut self.side {
            Side::In(side) => std::mem::take(&mut side.flow_due),
            Side::Out(side) => std::mem::take(&mut side.flow_due),
        }
    }

    /// An attach without termini: the first half of a refusal (part 2.6.3).
    pub(super) fn null_attach(&self) -> Attach {
        Attach {
            name: (&*self.name).into(),
            handle: self.handle_out,
            role: self.role(),
            snd_settle_mode: self.snd_settle_mode,
            rcv_settle_mode: self.rcv_settle_mode,
            source: None,
            target: None,
            resumes: false,
            initial_delivery_count: (self.role() == Role::Sender).then_some(0),
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        }
    }
}

/// All links of a connection; keys are reused, ids are not.
#[derive(Debug, Default)]
pub(super) struct Links {
    table: Slab<Link>,
    by_id: BTreeMap<LinkId, usize>,
    /// Links by name, for each of our roles (part 2.6.1: names are unique per direction): those that are not detaching,
    /// and those that wait for the answer to an attach.
    senders: HashMap<Arc<str>, usize>,
    receivers: HashMap<Arc<str>, usize>,
    ids_given: u32,
    /// Links that wait for the peer's detach.
    pub(super) detaching: usize,
}

impl Links {
    /// Adds the link that `make` creates for its id.
    pub(super) fn insert_with(&mut self, make: impl FnOnce(LinkId) -> Link) -> usize {
        let id = LinkId(self.ids_given);
        self.ids_given = self.ids_given.wrapping_add(1);
        let link = make(id);
        let (name, role) = (Arc::clone(&link.name), link.role());
        let key = self.table.insert(link);
        self.by_id.insert(id, key);
        self.names(role).insert(name, key);
        key
    }

    pub(super) fn get(&self, key: usize) -> Option<&Link> {
        self.table.get(key)
    }

    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Link> {
        self.table.get_mut(key)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Link> {
        self.table.iter_mut().map(|(_, link)| link)
    }

    /// The key of a link that the upper layer may still use.
    pub(super) fn key(&self, id: LinkId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// The key of the link with a name in one of our roles.
    pub(super) fn named(&mut self, role: Role, name: &str) -> Option<usize> {
        self.names(role).get(name).copied()
    }

    /// The ids of the links with a name, at most one in each direction.
    pub(super) fn ids_named(&self, name: &str) -> impl Iterator<Item = LinkId> {
        let keys = [&self.senders, &self.receivers].map(|names| names.get(name).copied());
        keys.into_iter().flatten().filter_map(|key| Some(self.table.get(key)?.id))
    }

    /// Removes the link from the ids that the upper layer can find; its name still finds it.
    pub(super) fn retire_id(&mut self, key: usize) {
        if let Some(link) = self.table.get(key) {
            self.by_id.remove(&link.id);
        }
    }

    /// Removes the link from the ids and names that the upper layer can find.
    pub(super) fn retire(&mut self, key: usize) {
        self.retire_id(key);
        self.retire_name(key);
    }

    /// Removes the link from the names: another link may have its name.
    pub(super) fn retire_name(&mut self, key: usize) {
        let Some(link) = self.table.get(key) else { return };
        let (name, role) = (Arc::clone(&link.name), link.role());
        if self.named(role, &name) == Some(key) {
            self.names(role).remove(&name);
        }
    }

    pub(super) fn remove(&mut self, key: usize) -> Option<Link> {
        self.retire(key);
        let link = self.table.try_remove(key)?;
        if link.phase == LinkPhase::Detaching {
            self.detaching -= 1;
        }
        Some(link)
    }

    /// All links, detaching ones too.
    pub(super) fn total(&self) -> usize {
        self.table.len()
    }

    /// Links that are not detaching.
    pub(super) fn len(&self) -> usize {
        self.table.len() - self.detaching
    }

    fn names(&mut self, role: Role) -> &mut HashMap<Arc<str>, usize> {
        match role {
            Role::Sender => &mut self.senders,
            Role::Receiver => &mut self.receivers,
        }
    }
}
