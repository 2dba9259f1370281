//! `OpenReceiver` and `CloseReceiver`.

use super::super::step::Step;
use crate::event::Event;
use crate::{ReceiverId, ReceiverOptions, Refusal, Reply, RequestId};

impl Step<'_> {
    pub(in crate::partition) fn open_receiver(
        &mut self,
        request: Option<RequestId>,
        receiver: ReceiverId,
        options: ReceiverOptions,
    ) {
        let done = if self.state().receivers.get(receiver).is_some() {
            Err(Refusal::InvalidArgument(format!("Receiver {} is open already.", receiver.0)))
        } else {
            self.emit(Event::ReceiverOpened { receiver, options });
            Ok(())
        };
        self.reply(request, Reply::Done(done));
    }

    /// The locks it took stay until they are settled or end by themselves.
    pub(in crate::partition) fn close_receiver(&mut self, receiver: ReceiverId) {
        if self.state().receivers.get(receiver).is_some() {
            self.emit(Event::ReceiverClosed { receiver });
        }
    }
}
