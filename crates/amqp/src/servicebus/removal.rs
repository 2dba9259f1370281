//! Receive-and-delete: a message is removed from the store when it is about to leave, and leaves once that is durable.
//!
//! So at most once holds over a crash, and what has not begun to leave is given back when the link goes. The removal is asked
//! for as many messages together as link credit, session window and the limits below allow to leave.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, ReceiverId, Settlement};

use super::{ConnectionHandler, Pending};
use crate::endpoint::{Connection, LinkId};

/// Messages of one link that are removed and have not left, or are being removed: what a connection that breaks takes along.
pub(crate) const LEAVING_MESSAGES_MAX: usize = 2048;

/// The same, in bytes; a single message may be larger.
pub(crate) const LEAVING_BYTES_MAX: usize = 512 * 1024;

impl ConnectionHandler {
    /// Asks for the removal of what may leave next on a link.
    pub(super) fn remove_next(&mut self, id: ReceiverId, connection: &mut Connection) {
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let link = receiver.link;
        let count = connection.reserve(link, LEAVING_MESSAGES_MAX, LEAVING_BYTES_MAX);
        if count == 0 {
            return;
        }
        let tokens = receiver.reserve(count);
        let (partition, queue) = (receiver.entity.partition.clone(), receiver.entity.queue);
        let command = Command::Settle { queue, tokens, settlement: Settlement::Complete };
        self.ask(&partition, command, Pending::Removal { link, receiver: id, count });
    }

    /// Messages are removed; those that are not (a lock ended meanwhile) don't leave and are others'.
    pub(super) fn removed(
        &mut self,
        link: LinkId,
        id: ReceiverId,
        count: usize,
        response: Response,
        connection: &mut Connection,
    ) {
        let Response::Settled(failures) = response else { return };
        let dropped: Vec<usize> = failures.iter().map(|failure| failure.index).collect();
        // Also when the receiver is gone: the link waits for what is leaving.
        connection.let_go(link, count, &dropped);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let tokens = receiver.let_go(count, &dropped);
        if !tokens.is_empty() {
            let entity = receiver.entity.clone();
            self.release(&entity, tokens);
        }
    }
}
