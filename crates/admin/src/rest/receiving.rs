//! `…/messages/head`: receives the next message, under a lock or removing it.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use peeklock_budget::Share;
use peeklock_engine::runtime::{
    Mailbox, MailboxReceiver, Namespace, Output, PartitionHandle, Request, Response as Answer,
};
use peeklock_engine::{
    Command, CreditLimit, QueueId, ReceiveMode, Received, ReceiverId, ReceiverOptions, Settlement,
};
use tokio::time::{Instant, timeout_at};

use super::limits::Limits;
use super::place::Place;
use super::slots::Slot;
use super::{refusal, shown};
use crate::error::Error;

/// Default wait of a receive (admin reference §7).
const TIME_OUT_SECONDS: u64 = 60;

/// Maximum wait: proxies consider a connection dead after a longer silence.
const TIME_OUT_SECONDS_MAX: u64 = 300;

/// Receives a message, in a slot for waiting receives. 204 if none arrives in time.
///
/// # Errors
/// 400 for an invalid request, 410 when the entity is deleted meanwhile, 503 if memory is short.
pub(super) async fn receive(
    namespace: &Namespace,
    (limits, slot): (&Limits, Slot),
    place: Place,
    mode: ReceiveMode,
    head: &Parts,
) -> Result<Response, Error> {
    let deadline = Instant::now() + time_out(head.uri.query().unwrap_or_default())?;
    let mut listening = Listening::open(namespace, &place, mode);
    let Some(mut received) = listening.next(deadline).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let room = limits.answer(received.content.len());
    let share = room.inspect_err(|_| release(&place.partition, place.source.queue, &received))?;
    if mode == ReceiveMode::ReceiveAndDelete {
        listening.remove(&mut received).await?;
    }
    let held = UnsentMessage {
        partition: place.partition.clone(),
        queue: place.source.queue,
        received: Some(received),
        _slot: slot,
        _share: share,
    };
    shown::response(held, &place, head)
}

/// The requested time-out; `timeout=0` returns at once.
fn time_out(query: &str) -> Result<Duration, Error> {
    let mut values = query.split('&').filter_map(|pair| pair.split_once('='));
    let given = values.find(|(name, _)| name.eq_ignore_ascii_case("timeout")).map(|(_, value)| value);
    let seconds = match given {
        None | Some("") => TIME_OUT_SECONDS,
        Some(text) => text
            .parse()
            .map_err(|_| Error::bad_request("'timeout' must be a number of seconds, without a fraction."))?,
    };
    Ok(Duration::from_secs(seconds.min(TIME_OUT_SECONDS_MAX)))
}

/// A receiver with credit for one message: it counts as listening while it waits. Also dropped when the client
/// disconnects; a message that arrives later is released.
struct Listening {
    partition: PartitionHandle,
    queue: QueueId,
    receiver: ReceiverId,
    mailbox: Mailbox,
    outputs: MailboxReceiver,
}

impl Listening {
    fn open(namespace: &Namespace, place: &Place, mode: ReceiveMode) -> Self {
        let (mailbox, outputs) = Mailbox::new();
        let receiver = namespace.next_receiver_id(&place.partition);
        let options = ReceiverOptions { source: place.source, mode };
        let partition = place.partition.clone();
        let listening = Self { partition, queue: place.source.queue, receiver, mailbox, outputs };
        listening.submit(Some(0), Command::OpenReceiver { receiver, options, session: None });
        listening
    }

    fn submit(&self, tag: Option<u64>, command: Command) {
        self.partition.submit(Request { mailbox: self.mailbox.clone(), tag, command });
    }

    /// Grants credit for one message; with `drain`, the partition answers at once if there is none.
    fn grant_credit(&self, drain: bool) {
        let limit = CreditLimit { messages: 1, bytes: u64::MAX };
        self.submit(None, Command::Credit { receiver: self.receiver, limit, drain });
    }

    /// The next message, or `None` once the partition reports that there was none until the deadline.
    async fn next(&mut self, deadline: Instant) -> Result<Option<Received>, Error> {
        let is_due = |deadline| deadline <= Instant::now();
        let mut draining = is_due(deadline);
        self.grant_credit(draining);
        loop {
            let output = match draining {
                true => self.outputs.recv().await,
                false => match timeout_at(deadline, self.outputs.recv()).await {
                    Ok(output) => output,
                    Err(_) => {
                        draining = true;
                        self.grant_credit(true);
                        continue;
                    }
                },
            };
            match output {
                Some(Output::Delivery(delivery)) => return Ok(Some(delivery.message)),
                Some(Output::Drained { .. }) => return Ok(None),
                Some(
                    Output::ReceiverClosed { refusal: refused, .. }
                    | Output::Response { response: Answer::Opened(Err(refused)), .. },
                ) => return Err(refusal::error(&refused)),
                Some(Output::Response { .. } | Output::Examine { .. }) => {}
                None => return Err(Error::internal()),
            }
        }
    }

    /// Removes a message that is about to be sent. If the removal fails, the message is available again when its lock
    /// expires.
    async fn remove(&mut self, received: &mut Received) -> Result<(), Error> {
        let Some(lock) = received.lock.take() else { return Ok(()) };
        let tokens = [lock.token].into_iter().collect();
        let (queue, settlement) = (self.queue, Settlement::Complete);
        self.submit(Some(1), Command::Settle { queue, tokens, settlement });
        while let Some(output) = self.outputs.recv().await {
            if let Output::Response { response: Answer::Settled(failures), .. } = output {
                let failure = failures.into_iter().next();
                return failure.map_or(Ok(()), |failure| Err(refusal::error(&failure.refusal)));
            }
        }
        Err(Error::internal())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The partition itself releases messages that it delivers from here on.
        self.outputs.close();
        self.submit(None, Command::CloseReceiver { receiver: self.receiver });
        while let Ok(output) = self.outputs.try_recv() {
            if let Output::Delivery(delivery) = output {
                release(&self.partition, self.queue, &delivery.message);
            }
        }
    }
}

/// A message to be sent to the client. If dropped before any byte of it was sent, its lock is released.
pub(super) struct UnsentMessage {
    partition: PartitionHandle,
    queue: QueueId,
    received: Option<Received>,
    _slot: Slot,
    _share: Share,
}

impl UnsentMessage {
    /// The message, until it is sent.
    pub(super) fn message(&self) -> Option<&Received> {
        self.received.as_ref()
    }

    /// Marks the message as possibly received: its lock stays.
    pub(super) fn begins_to_leave(&mut self) {
        self.received = None;
    }
}

impl Drop for UnsentMessage {
    fn drop(&mut self) {
        if let Some(received) = &self.received {
            release(&self.partition, self.queue, received);
        }
    }
}

fn release(partition: &PartitionHandle, queue: QueueId, received: &Received) {
    let Some(lock) = received.lock else { return };
    let tokens = [lock.token].into_iter().collect();
    let command = Command::Settle { queue, tokens, settlement: Settlement::Release };
    let (mailbox, _) = Mailbox::new();
    partition.submit(Request { mailbox, tag: None, command });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_are_bounded_seconds() {
        let seconds = |query| time_out(query).map(|time| time.as_secs());
        assert_eq!(seconds(""), Ok(60));
        assert_eq!(seconds("api-version=2015-01&timeout=0"), Ok(0));
        assert_eq!(seconds("timeout=7&x"), Ok(7));
        assert_eq!(seconds("Timeout=99999"), Ok(300));
        for query in ["timeout=-1", "timeout=1.5", "timeout=PT1M"] {
            assert!(seconds(query).is_err(), "{query}");
        }
    }
}
