//! Handle for sending requests to a partition.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::vec;

use peeklock_storage::Epoch;
use tokio::sync::mpsc;

use super::joint::LoanRequest;
use super::parcels::Addressee;
use super::{Mailbox, Output, Request, Response, TaggedCommand, answer};
use crate::{Command, ReceiverId, Refusal};

/// Handle for sending requests to a partition, wherever its actor runs; cheap to clone.
#[derive(Debug, Clone)]
pub struct PartitionHandle {
    transport: Transport,
    subject: Arc<Subject>,
}

/// How requests reach a partition's actor. Private, so an actor in another process would be one more variant.
#[derive(Debug, Clone)]
enum Transport {
    /// The actor is a task of this process.
    Local { requests: mpsc::UnboundedSender<Parcel>, loans: mpsc::UnboundedSender<LoanRequest> },
}

/// Requests with one reply address, in order.
#[derive(Debug)]
struct Parcel {
    mailbox: Mailbox,
    asked: vec::IntoIter<TaggedCommand>,
}

/// State shared by all handles of one actor.
#[derive(Debug, Default)]
struct Subject {
    /// The epoch in which the actor's host owns its shard.
    epoch: Epoch,
    /// The refusal after the actor has ended, if a later retry can't succeed.
    gone: OnceLock<Refusal>,
}

impl PartitionHandle {
    /// A handle in epoch 0, and the queue for its actor. Benchmarks and tests provide their own actor.
    #[must_use]
    pub fn new() -> (Self, Requests) {
        let (handle, requests, _) = Self::of_actor(Epoch::default());
        (handle, requests)
    }

    /// A handle, its queue of requests and its queue of loan requests by the committer.
    pub(super) fn of_actor(epoch: Epoch) -> (Self, Requests, mpsc::UnboundedReceiver<LoanRequest>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (loans, loan_requests) = mpsc::unbounded_channel();
        let subject = Arc::new(Subject { epoch, gone: OnceLock::new() });
        (
            Self { transport: Transport::Local { requests, loans }, subject },
            Requests { parcels: receiver, opened: None },
            loan_requests,
        )
    }

    /// Queues a command. If the actor has ended, the answer is [`Refusal::EntityDeleted`] or [`Refusal::EntityDamaged`] if
    /// that is the reason, otherwise [`Refusal::Unavailable`]; commands that name a receiver and have no answer get
    /// [`Output::ReceiverClosed`] instead.
    pub fn submit(&self, request: Request) {
        let Request { mailbox, tag, command } = request;
        self.submit_all(mailbox, vec![TaggedCommand { tag, command }]);
    }

    /// Queues commands in order, like [`Self::submit`], but cheaper than one by one.
    pub fn submit_all(&self, mailbox: Mailbox, asked: Vec<TaggedCommand>) {
        let Transport::Local { requests, .. } = &self.transport;
        if let Err(refused) = requests.send(Parcel { mailbox, asked: asked.into_iter() }) {
            let refusal = self.subject.gone.get().unwrap_or(&Refusal::Unavailable);
            refused.0.for_each(|request| answer::refuse(request, refusal, Mailbox::put));
        }
    }

    /// Sends a command and waits for its answer; `None` for a command without an answer.
    pub async fn ask(&self, command: Command) -> Option<Response> {
        let (mailbox, mut outputs) = Mailbox::new();
        self.submit(Request { mailbox, tag: Some(0), command });
        loop {
            if let Output::Response { response, .. } = outputs.recv().await? {
                return Some(response);
            }
        }
    }

    /// The id of a receiver or watcher of this partition with this number. Numbers are unique in the process, see
    /// [`super::Namespace::next_receiver_id`].
    #[must_use]
    pub fn receiver_id(&self, number: u64) -> ReceiverId {
        ReceiverId::new(self.subject.epoch, number)
    }

    /// Asks the actor to lend its partition's state; false if the actor has ended.
    pub(super) fn borrow_state(&self, request: LoanRequest) -> bool {
        let Transport::Local { loans, .. } = &self.transport;
        loans.send(request).is_ok()
    }

    /// Distinguishes entities.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.subject).addr()
    }

    /// The refusal of requests after the actor has ended.
    pub(super) fn refusal_when_gone(&self) -> Refusal {
        self.subject.gone.get().cloned().unwrap_or(Refusal::Unavailable)
    }

    /// Records that the entity was deleted.
    pub(super) fn set_deleted(&self) {
        let _ = self.subject.gone.set(Refusal::EntityDeleted);
    }

    /// Records that the stored state of the entity, which has this name, is damaged.
    pub(super) fn set_damaged(&self, name: &str) {
        let _ = self.subject.gone.set(Refusal::EntityDamaged(name.into()));
    }
}

impl Addressee for PartitionHandle {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.subject, &other.subject)
    }
}

impl Iterator for Parcel {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let TaggedCommand { tag, command } = self.asked.next()?;
        Some(Request { mailbox: self.mailbox.clone(), tag, command })
    }
}

/// The actor's end of a [`PartitionHandle`]. Requests left in it when the actor ends are refused, so that every request is
/// answered.
#[derive(Debug)]
pub struct Requests {
    parcels: mpsc::UnboundedReceiver<Parcel>,
    /// The rest of the current parcel.
    opened: Option<Parcel>,
}

impl Requests {
    /// The next request, if one is waiting.
    pub fn try_next(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.next_opened() {
                return Some(request);
            }
            self.opened = Some(self.parcels.try_recv().ok()?);
        }
    }

    /// The number of waiting requests, or less: a parcel that is not opened yet counts as one.
    pub(super) fn waiting(&self) -> usize {
        self.opened.as_ref().map_or(0, |parcel| parcel.asked.len()) + self.parcels.len()
    }

    /// The next request; `None` when the channel is closed and empty.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Request>> {
        loop {
            if let Some(request) = self.next_opened() {
                return Poll::Ready(Some(request));
            }
            match ready!(self.parcels.poll_recv(context)) {
                Some(parcel) => self.opened = Some(parcel),
                None => return Poll::Ready(None),
            }
        }
    }

    /// The next request of the current parcel. An empty parcel is dropped at once, because it holds a mailbox.
    fn next_opened(&mut self) -> Option<Request> {
        let request = self.opened.as_mut()?.next();
        if self.opened.as_ref().is_some_and(|parcel| parcel.asked.len() == 0) {
            self.opened = None;
        }
        request
    }

    /// Accepts no further requests.
    pub(super) fn close(&mut self) {
        self.parcels.close();
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.parcels.close();
        while let Some(request) = self.try_next() {
            answer::refuse(request, &Refusal::Unavailable, Mailbox::put);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{LockToken, Settlement};

    use super::*;

    #[test]
    fn requests_left_to_a_dead_actor_are_answered_in_kind() {
        let (handle, requests) = PartitionHandle::new();
        let (mailbox, mut outputs) = Mailbox::new();
        let settle = || Command::Settle {
            queue: crate::QueueId(1),
            tokens: [LockToken(1), LockToken(2)].into_iter().collect(),
            settlement: Settlement::Complete,
        };
        handle.submit(Request { mailbox: mailbox.clone(), tag: Some(1), command: settle() });
        drop(requests);
        handle.submit(Request { mailbox: mailbox.clone(), tag: Some(2), command: settle() });
        for expected in [1, 2] {
            let Ok(Output::Response { tag, response: Response::Settled(failures) }) = outputs.try_recv()
            else {
                panic!("expected a settlement to fail");
            };
            assert_eq!((tag, failures.len()), (expected, 2));
            assert!(failures.iter().all(|failure| failure.refusal == Refusal::Unavailable));
        }
        let credit =
            Command::Credit { receiver: ReceiverId(3), limit: crate::CreditLimit::default(), drain: false };
        handle.submit(Request { mailbox, tag: None, command: credit });
        let closed = outputs.try_recv();
        assert!(matches!(closed, Ok(Output::ReceiverClosed { receiver: ReceiverId(3), .. })), "{closed:?}");
    }
}
