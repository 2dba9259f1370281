//! How connections and partitions talk: requests in, outputs out, both in batches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use peeklock_budget::Share;
use tokio::sync::mpsc;

use super::answer;
use super::joint::LoanRequest;
use crate::{
    AcceptedSession, Command, Delivery, Received, ReceiverId, Refusal, Rule, SequenceNumber, SettleFailure,
    Timestamp,
};

/// What a partition sends to a mailbox.
#[derive(Debug)]
pub enum Output {
    /// The answer to the request with this tag.
    Response {
        /// The tag given with the request.
        tag: u64,
        /// The answer.
        response: Response,
    },
    /// A message for a receiver opened by this mailbox. Boxed: it is the large variant.
    Delivery(Box<Delivery>),
    /// Messages that a receiver with a selector may want: [`Command::Examined`] is to say which match. Those that can't be
    /// read are left out.
    Examine {
        /// Who.
        receiver: ReceiverId,
        /// What, in order of number, without locks.
        messages: Vec<Received>,
    },
    /// A drain is complete: no delivery for this receiver follows until it gets new credit.
    Drained {
        /// Which.
        receiver: ReceiverId,
    },
    /// The partition closed the receiver or watcher by itself.
    ReceiverClosed {
        /// Which.
        receiver: ReceiverId,
        /// Why.
        refusal: Refusal,
    },
}

/// Answers as they reach the front end: [`crate::Reply`] with contents added.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// See [`crate::Reply::Sent`].
    Sent(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// See [`crate::Reply::Done`].
    Done(Result<(), Refusal>),
    /// See [`crate::Reply::Opened`].
    Opened(Result<Option<AcceptedSession>, Refusal>),
    /// See [`crate::Reply::Settled`].
    Settled(Vec<SettleFailure>),
    /// See [`crate::Reply::Provisional`].
    Provisional(Result<smallvec::SmallVec<[SequenceNumber; 1]>, Refusal>),
    /// The outcome of [`super::Transaction::commit`]: it took effect as a whole, or nothing of it did.
    Committed(Result<(), Refusal>),
    /// See [`crate::Reply::Renewed`].
    Renewed(Result<Vec<Timestamp>, Refusal>),
    /// See [`crate::Reply::Received`].
    Received(Result<Vec<Received>, Refusal>),
    /// See [`crate::Reply::Deleted`].
    Deleted(Result<u32, Refusal>),
    /// See [`crate::Reply::SessionRenewed`].
    SessionRenewed(Result<Timestamp, Refusal>),
    /// See [`crate::Reply::SessionState`].
    SessionState(Result<Option<Bytes>, Refusal>),
    /// See [`crate::Reply::Sessions`].
    Sessions(Result<Vec<Arc<str>>, Refusal>),
    /// See [`crate::Reply::Rules`].
    Rules(Result<Vec<Arc<Rule>>, Refusal>),
}

/// The sending half of a connection's inbox; cheap to clone.
#[derive(Debug, Clone)]
pub struct Mailbox(Arc<Sending>);

#[derive(Debug)]
struct Sending {
    /// Bounded by the requests and credit the owner has outstanding, so the channel itself needs no bound.
    outputs: mpsc::UnboundedSender<Output>,
    account: Arc<Account>,
}

/// What a mailbox's owner and those who send to it know together about memory.
#[derive(Debug, Default)]
pub struct Account {
    is_full: AtomicBool,
    kept: Mutex<Vec<Share>>,
}

impl Account {
    /// Whether the owner holds more than it may and takes no further message; asked for each delivery, so the owner says
    /// it once for each of its turns.
    pub fn set_full(&self, is_full: bool) {
        if self.is_full.load(Ordering::Relaxed) != is_full {
            self.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Keeps a share as long as a request of this mailbox is unanswered: what the owner sent is still held when the owner
    /// is gone.
    pub fn keep(&self, share: Share) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(share);
    }
}

/// The receiving half: drain it with `recv_many`.
pub type MailboxReceiver = mpsc::UnboundedReceiver<Output>;

impl Mailbox {
    /// A connected pair.
    #[must_use]
    pub fn new() -> (Self, MailboxReceiver) {
        let (outputs, receiver) = mpsc::unbounded_channel();
        (Self(Arc::new(Sending { outputs, account: Arc::default() })), receiver)
    }

    /// What owner and senders know about memory.
    #[must_use]
    pub fn account(&self) -> Arc<Account> {
        Arc::clone(&self.0.account)
    }

    /// Whether the owner takes no further message at this moment.
    pub(super) fn is_full(&self) -> bool {
        self.0.account.is_full.load(Ordering::Relaxed)
    }

    /// Delivers an output; nothing happens when the owner is gone.
    pub fn put(&self, output: Output) {
        let _ = self.0.outputs.send(output);
    }

    /// Delivers an output, or hands it back when the owner is gone.
    pub(super) fn try_put(&self, output: Output) -> Result<(), Output> {
        self.0.outputs.send(output).map_err(|refused| refused.0)
    }
}

/// A command with its return address.
#[derive(Debug)]
pub struct Request {
    /// Where answers and, for `OpenReceiver`, deliveries go.
    pub mailbox: Mailbox,
    /// Comes back in [`Output::Response`]; `None` when nobody waits for the answer. `Watch`, `Credit`,
    /// `CloseReceiver` and `Tick` have no answer, so their tag is ignored.
    pub tag: Option<u64>,
    /// What to do.
    pub command: Command,
}

/// A partition as its users see it; cheap to clone.
#[derive(Debug, Clone)]
pub struct PartitionHandle {
    requests: mpsc::UnboundedSender<Request>,
    loans: mpsc::UnboundedSender<LoanRequest>,
    /// Why coming back later is no use, if it is none.
    gone: Arc<OnceLock<Refusal>>,
}

impl PartitionHandle {
    /// A handle and the queue its actor drains. Benchmarks and tests put their own actor behind it.
    #[must_use]
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Request>) {
        let (handle, requests, _) = Self::of_actor();
        (handle, requests)
    }

    /// A handle, the queue of requests and that of the committer's requests.
    pub(super) fn of_actor() -> (Self, mpsc::UnboundedReceiver<Request>, mpsc::UnboundedReceiver<LoanRequest>)
    {
        let (requests, receiver) = mpsc::unbounded_channel();
        let (loans, borrowed) = mpsc::unbounded_channel();
        (Self { requests, loans, gone: Arc::default() }, receiver, borrowed)
    }

    /// Queues a command. When the actor is gone, the answer is [`Refusal::Unavailable`], or
    /// [`Refusal::EntityDeleted`] if its entity is as well, or [`Refusal::EntityDamaged`]; commands that name a receiver and have no answer of their own
    /// get [`Output::ReceiverClosed`] instead.
    pub fn submit(&self, request: Request) {
        if let Err(refused) = self.requests.send(request) {
            answer::refuse(refused.0, self.gone.get().unwrap_or(&Refusal::Unavailable));
        }
    }

    /// Asks the actor for the state of its partition; false when the actor is gone.
    pub(super) fn borrow_state(&self, request: LoanRequest) -> bool {
        self.loans.send(request).is_ok()
    }

    /// What tells two entities apart.
    pub(super) fn identity(&self) -> usize {
        Arc::as_ptr(&self.gone).addr()
    }

    /// Why nothing can be had of it, once its actor is gone.
    pub(super) fn why_gone(&self) -> Refusal {
        self.gone.get().cloned().unwrap_or(Refusal::Unavailable)
    }

    /// Its entity is no more.
    pub(super) fn set_deleted(&self) {
        let _ = self.gone.set(Refusal::EntityDeleted);
    }

    /// What is stored of its entity, of this name, is damaged.
    pub(super) fn set_damaged(&self, name: &str) {
        let _ = self.gone.set(Refusal::EntityDamaged(name.into()));
    }
}

/// The queue behind a [`PartitionHandle`]. Whatever is still in it when its actor goes is answered, so that nobody
/// waits for ever.
#[derive(Debug)]
pub(super) struct Inbox(pub(super) mpsc::UnboundedReceiver<Request>);

impl Drop for Inbox {
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
        drop(Inbox(requests));
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
