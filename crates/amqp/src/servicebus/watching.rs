//! Links that receive no messages: they are detached, as receivers are, when their entity is deleted or stops accepting
//! messages.

use std::collections::HashMap;
use std::sync::Arc;

use peeklock_engine::{Command, ReceiverId, Refusal};

use super::ConnectionHandler;
use super::entities::Entity;
use crate::endpoint::{Connection, LinkId};

/// The links of one connection that watch their entity.
#[derive(Default)]
pub(super) struct Watchers {
    by_id: HashMap<ReceiverId, (LinkId, Arc<Entity>)>,
    by_link: HashMap<LinkId, ReceiverId>,
}

impl Watchers {
    fn add(&mut self, watcher: ReceiverId, link: LinkId, entity: Arc<Entity>) {
        self.by_link.insert(link, watcher);
        self.by_id.insert(watcher, (link, entity));
    }

    fn remove(&mut self, watcher: ReceiverId) -> Option<(LinkId, Arc<Entity>)> {
        let (link, entity) = self.by_id.remove(&watcher)?;
        self.by_link.remove(&link);
        Some((link, entity))
    }

    pub(super) fn links(&self) -> Vec<LinkId> {
        self.by_link.keys().copied().collect()
    }
}

impl ConnectionHandler {
    pub(super) fn watch(&mut self, link: LinkId, entity: &Arc<Entity>, sends: bool) {
        let watcher = self.entities.next_receiver_id(&entity.partition);
        self.watchers.add(watcher, link, Arc::clone(entity));
        self.tell(&entity.partition, Command::Watch { watcher, queue: entity.queue, sends });
    }

    /// Stops watching when a link has ended.
    pub(super) fn unwatch(&mut self, link: LinkId) {
        let Some(watcher) = self.watchers.by_link.get(&link).copied() else { return };
        if let Some((_, entity)) = self.watchers.remove(watcher) {
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
        let Some((link, entity)) = self.watchers.remove(watcher) else { return };
        self.forget_link(link);
        let error = self.tracker().error(&entity.fault(refusal));
        connection.detach(link, Some(error));
    }
}
