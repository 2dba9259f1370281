//! Links that receive no messages: they are detached, as receivers are, when their entity is deleted or stops accepting
//! messages.

use std::collections::HashMap;
use std::sync::Arc;

use peeklock_engine::{Command, ReceiverId, Refusal};

use super::ConnectionHandler;
use super::entities::Entity;
use crate::endpoint::{Connection, LinkId};

/// A link that watches its entity.
struct Watcher {
    link: LinkId,
    entity: Arc<Entity>,
    /// Whether the link sends.
    sends: bool,
}

/// The links of one connection that watch their entity.
#[derive(Default)]
pub(super) struct Watchers {
    by_id: HashMap<ReceiverId, Watcher>,
    by_link: HashMap<LinkId, ReceiverId>,
}

impl Watchers {
    fn add(&mut self, id: ReceiverId, watcher: Watcher) {
        self.by_link.insert(watcher.link, id);
        self.by_id.insert(id, watcher);
    }

    fn remove(&mut self, id: ReceiverId) -> Option<Watcher> {
        let watcher = self.by_id.remove(&id)?;
        self.by_link.remove(&watcher.link);
        Some(watcher)
    }

    pub(super) fn links(&self) -> Vec<LinkId> {
        self.by_link.keys().copied().collect()
    }
}

impl ConnectionHandler {
    /// Lets a link that neither sends to the entity nor receives from it watch its entity.
    pub(super) fn watch(&mut self, link: LinkId, entity: &Arc<Entity>) {
        self.add_watcher(Watcher { link, entity: Arc::clone(entity), sends: false });
    }

    /// Lets a link that sends to the entity watch it: it also ends when the entity accepts no messages any more.
    pub(super) fn watch_sender(&mut self, link: LinkId, entity: &Arc<Entity>) {
        self.add_watcher(Watcher { link, entity: Arc::clone(entity), sends: true });
    }

    fn add_watcher(&mut self, added: Watcher) {
        let (entity, sends) = (Arc::clone(&added.entity), added.sends);
        let watcher = self.entities.next_receiver_id(&entity.partition);
        self.watchers.add(watcher, added);
        self.tell(&entity.partition, Command::Watch { watcher, queue: entity.queue, sends });
    }

    /// Stops watching when a link has ended.
    pub(super) fn unwatch(&mut self, link: LinkId) {
        let Some(watcher) = self.watchers.by_link.get(&link).copied() else { return };
        if let Some(Watcher { entity, .. }) = self.watchers.remove(watcher) {
            self.tell(&entity.partition, Command::CloseReceiver { receiver: watcher });
        }
    }

    /// Handles the close of a watcher by its partition: its entity was deleted, or the partition has ended.
    pub(super) fn watcher_closed(
        &mut self,
        watcher: ReceiverId,
        refusal: Refusal,
        connection: &mut Connection,
    ) {
        let Some(Watcher { link, entity, sends }) = self.watchers.remove(watcher) else { return };
        self.forget_link(link);
        let fault = entity.named(refusal.into(), sends, &self.config.namespace);
        let error = self.tracker().error(&fault);
        connection.detach(link, Some(error));
    }
}
