//! Receive-and-delete: a message is removed from the store before it is sent, and sent once the removal is durable.
//!
//! So delivery is at most once even across a crash, and messages that are not being sent are released when the link
//! ends. Each removal covers as many messages as link credit, session window and the limits below allow to send.

use peeklock_engine::runtime::Response;
use peeklock_engine::{Command, ReceiverId, Settlement};

use super::{ConnectionHandler, Pending};
use crate::endpoint::{Connection, LinkId};

/// Maximum number of messages of one link that are being removed, or removed and not sent: those lost if the connection
/// breaks.
pub(crate) const LEAVING_MESSAGES_MAX: usize = 2048;

/// Maximum size of these messages, in bytes; a single message may be larger.
pub(crate) const LEAVING_BYTES_MAX: usize = 512 * 1024;

impl ConnectionHandler {
    /// Requests the removal of the messages that can be sent next on a link.
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

    /// Sends the messages that were removed; those that were not (their lock has expired) are available to other
    /// receivers.
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
        // Even if the receiver is gone: the link waits for its leaving deliveries.
        let drained = connection.release_reserved(link, count, &dropped);
        let Some(receiver) = self.receivers.get_mut(&id) else { return };
        let tokens = receiver.release_reserved(count, &dropped, drained);
        if !tokens.is_empty() {
            let entity = receiver.entity.clone();
            self.release(&entity, tokens);
        }
    }
}
