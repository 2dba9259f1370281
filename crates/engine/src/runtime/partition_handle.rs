//! Where requests go: a partition as its users see it, wherever it runs.

use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use peeklock_storage::Epoch;
use tokio::sync::mpsc;

use super::joint::LoanRequest;
use super::{Mailbox, Output, Request, Response, answer};
use crate::{Command, ReceiverId, Refusal};

/// A partition as its users see it; cheap to clone.
#[derive(Debug, Clone)]
pub struct PartitionHandle {
    transport: Transport,
    subject: Arc<Subject>,
}

/// How requests reach the actor of a partition. Nothing else knows of it: an actor that runs elsewhere is one more variant.
#[derive(Debug, Clone)]
enum Transport {
    /// The actor is a task of this process.
    Local { requests: mpsc::UnboundedSender<Request>, loans: mpsc::UnboundedSender<LoanRequest> },
}

/// What all handles of one actor share.
#[derive(Debug, Default)]
struct Subject {
    /// In which the actor's host owns its shard.
    epoch: Epoch,
    /// Why coming back later is no use, if it is none.
    gone: OnceLock<Refusal>,
}

impl PartitionHandle {
    /// A handle and the queue its actor drains, in epoch 0. Benchmarks and tests put their own actor behind it.
    #[must_use]
    pub fn new() -> (Self, Requests) {
        let (handle, requests, _) = Self::of_actor(Epoch::default());
        (handle, requests)
    }

    /// A handle, the queue of requests and that of the committer's requests.
    pub(super) fn of_actor(epoch: Epoch) -> (Self, Requests, mpsc::UnboundedReceiver<LoanRequest>) {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (loans, loan_requests) = mpsc::unbounded_channel();
        let subject = Arc::new(Subject { epoch, gone: OnceLock::new() });
        (Self { transport: Transport::Local { requests, loans }, subject }, Requests(receiver), loan_requests)
    }

    /// Queues a command. When the actor is gone, the answer is [`Refusal::Unavailable`], or
    /// [`Refusal::EntityDeleted`] if its entity is as well, or [`Refusal::EntityDamaged`]; commands that name a receiver and
    /// have no answer of their own get [`Output::ReceiverClosed`] instead.
    pub fn submit(&self, request: Request) {
        let Transport::Local { requests, .. } = &self.transport;
        if let Err(refused) = requests.send(request) {
            answer::refuse(refused.0, self.subject.gone.get().unwrap_or(&Refusal::Unavailable));
        }
    }

    /// Hands over a command and waits for its answer; `None` for a command that has none.
    pub async fn ask(&self, command: Command) -> Option<Response> {
        let (mailbox, mut outputs) = Mailbox::new();
        self.submit(Request { mailbox, tag: Some(0), command });
        loop {
            if let Output::Response { response, .. } = outputs.recv().await? {
                return Some(response);
            }
        }
    }

    /// The id with this number of a receiver or watcher of this partition. Numbers are unique in the process, see
    /// [`super::Namespace::next_receiver_id`].
    #[must_use]
    pub fn receiver_id(&self, number: u64) -> ReceiverId {
        ReceiverId::new(self.subject.epoch, number)
    }

    /// Asks the actor for the state of its partition; false when the actor is gone.
    pub(super) fn borrow_state(&self, request: LoanRequest) -> bool {
        let Transport::Local { loans, .. } = &self.transport;
        loans.send(request).is_ok()
    }

    /// What tells two entities apart.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.subject).addr()
    }

    /// Why nothing can be had of it, once its actor is gone.
    pub(super) fn why_gone(&self) -> Refusal {
        self.subject.gone.get().cloned().unwrap_or(Refusal::Unavailable)
    }

    /// Its entity is no more.
    pub(super) fn set_deleted(&self) {
        let _ = self.subject.gone.set(Refusal::EntityDeleted);
    }

    /// What is stored of its entity, of this name, is damaged.
    pub(super) fn set_damaged(&self, name: &str) {
        let _ = self.subject.gone.set(Refusal::EntityDamaged(name.into()));
    }
}

/// The actor's end of a [`PartitionHandle`]. What is still in it when the actor goes is refused, so that nobody waits for
/// ever.
#[derive(Debug)]
pub struct Requests(mpsc::UnboundedReceiver<Request>);

impl Requests {
    /// The next request, if one waits.
    pub fn try_next(&mut self) -> Option<Request> {
        self.0.try_recv().ok()
    }

    /// The next request; `None` once there will be none.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Request>> {
        self.0.poll_recv(context)
    }

    /// Accepts no further ones.
    pub(super) fn close(&mut self) {
        self.0.close();
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.0.close();
        while let Ok(request) = self.0.try_recv() {
            answer::refuse(request, &Refusal::Unavailable);
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
