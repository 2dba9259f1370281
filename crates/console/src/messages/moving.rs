//! Moves messages from one entity to another: stores them there and deletes them here in one step.

use bytes::Bytes;
use peeklock_admin::Error;
use peeklock_admin::messages::Place;
use peeklock_engine::runtime::{Mailbox, Output, Response as Reply};
use peeklock_engine::{
    Command, EntityOptions, MessageAction, NewMessage, PropertyChanges, Received, Refusal, SequenceNumber,
    SubQueue, TextProperty,
};
use peeklock_message::delivery::{DeliveryFormat, Encoder};
use peeklock_message::submission;
use smallvec::SmallVec;
use std::sync::Arc;
use uuid::Uuid;

use crate::Console;

/// The target of a move.
pub(crate) struct Target {
    place: Place,
    keeps_ids: bool,
}

impl Target {
    /// A target for messages of `source`.
    ///
    /// # Errors
    /// 400 for one that can't be sent to, and for ids that a target with duplicate detection would drop.
    pub(crate) fn new(
        console: &Console,
        source: &Place,
        place: Place,
        keep_id: Option<bool>,
    ) -> Result<Self, Error> {
        if place.origin.copies || place.source.sub_queue != SubQueue::Main {
            return Err(Error::bad_request("Messages can only be moved to a queue or a topic."));
        }
        if place.source == source.source {
            return Err(Error::bad_request("The messages are in the target already."));
        }
        let options = console.admin.namespace.options(&place.entity.name);
        let detects_duplicates = options.as_deref().is_some_and(EntityOptions::requires_duplicate_detection);
        if detects_duplicates && keep_id == Some(true) {
            return Err(Error::bad_request(
                "The target detects duplicates and may drop messages whose ids it knows: leave 'keep_id' out.",
            ));
        }
        Ok(Self { place, keeps_ids: keep_id.unwrap_or(!detects_duplicates) })
    }

    /// Stores messages in the target and deletes them in the source: all of them or none.
    ///
    /// # Errors
    /// 400 for a message that can't be encoded for the target. A refusal of either entity is a successful answer.
    pub(crate) async fn take_over(
        &self,
        console: &Console,
        source: &Place,
        numbers: Vec<SequenceNumber>,
        messages: &[Received],
    ) -> Result<Result<(), Refusal>, Error> {
        let mut step = console.admin.namespace.begin_transaction();
        let delete = MessageAction::Delete;
        step.add(
            &source.partition,
            Command::ActOnMessages { source: source.source, numbers, action: delete },
        );
        let mut bytes = 0;
        for message in messages {
            let message = self.message(message, source)?;
            let size_bytes = message.content.len() as u64;
            bytes += size_bytes;
            let limit_bytes = self.place.message_bytes_max;
            if size_bytes > limit_bytes || (messages.len() > 1 && bytes > limit_bytes) {
                return Ok(Err(Refusal::MessageTooLarge { size_bytes: bytes, limit_bytes }));
            }
            // One command per message, because the messages of one command must have the same partition key.
            let messages: SmallVec<[NewMessage; 1]> = SmallVec::from_iter([message]);
            step.add(&self.place.partition, Command::Send { messages });
        }
        let (mailbox, mut outputs) = Mailbox::new();
        step.commit(mailbox, 0);
        while let Some(output) = outputs.recv().await {
            if let Output::Response { response: Reply::Done(done), .. } = output {
                return Ok(done);
            }
        }
        Ok(Err(Refusal::Unavailable))
    }

    /// The message as if sent again: with the changes of actions and receivers, without its dead-letter reason.
    fn message(&self, received: &Received, source: &Place) -> Result<NewMessage, Error> {
        let content = self.content(received, source)?;
        submission::read_message(&content, self.place.wanted, &mut || Uuid::new_v4().as_u128())
            .map_err(|unfit| Error::bad_request(unfit.to_string()))
    }

    fn content(&self, received: &Received, source: &Place) -> Result<Bytes, Error> {
        let view = &received.view;
        if self.keeps_ids && view.changes.is_none() && view.modified.is_none() {
            return Ok(received.content.clone());
        }
        let mut copy = received.clone();
        copy.view.dead_letter = None;
        if !self.keeps_ids {
            let mut id = PropertyChanges::default();
            id.set_text(TextProperty::MessageId, Some(Uuid::new_v4().simple().to_string().into()));
            let changes = view.changes.as_deref().cloned().unwrap_or_default();
            copy.view.changes = Some(Arc::new(changes.followed_by(id)));
        }
        let encoded = Encoder::default().encode_whole(&copy, DeliveryFormat::Management, source.origin);
        encoded.map_err(|_| Error::internal())
    }
}
