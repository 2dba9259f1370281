//! `OpenReceiver` and `CloseReceiver`.

use super::super::step::Step;
use crate::event::Event;
use crate::{
    Effect, QueueId, ReceiveMode, ReceiverId, ReceiverOptions, Refusal, Reply, RequestId, SessionRequest,
};

impl Step<'_> {
    pub(in crate::partition) fn open_receiver(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        options: ReceiverOptions,
        session: Option<SessionRequest>,
    ) {
        let checked = if self.state().receiver_queues.contains_key(&receiver) {
            Err(Refusal::InvalidArgument(format!("Receiver {} is open already.", receiver.0)))
        } else if let Err(refusal) = self.check_forwarding(options) {
            Err(refusal)
        } else if options.mode == ReceiveMode::Forward {
            Ok(())
        } else {
            self.check_session_request(options, session.as_ref())
        };
        match (checked, session) {
            (Err(refusal), _) => self.reply(request, Reply::Opened(Err(refusal))),
            (Ok(()), Some(requested)) => self.accept_session(request, receiver, options, &requested),
            (Ok(()), None) => {
                self.emit(Event::ReceiverOpened { receiver, options });
                self.reply(request, Reply::Opened(Ok(None)));
            }
        }
    }

    /// Registers a link without receiver, to be notified when its entity is deleted or disabled.
    pub(in crate::partition) fn watch(&mut self, watcher: ReceiverId, queue: QueueId, sends: bool) {
        let refusal = match self.state().queue(queue) {
            None => Refusal::EntityDeleted,
            Some(_) if sends && !self.allows_send() => Refusal::EntityDisabled,
            Some(_) => return self.emit(Event::Watched { watcher, queue, sends }),
        };
        self.effect(Effect::ReceiverClosed { receiver: watcher, refusal });
    }

    /// Closes a receiver. Its message locks stay until they are settled or expire; a session is released.
    pub(in crate::partition) fn close_receiver(&mut self, receiver: ReceiverId) {
        self.leave_session(receiver);
        self.release_all_of_forwarder(receiver);
        let state = self.state();
        if state.receiver_queues.contains_key(&receiver) || state.watchers.contains_key(&receiver) {
            self.emit(Event::ReceiverClosed { receiver });
        }
    }
}
