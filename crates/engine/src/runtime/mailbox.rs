//! Connections and partitions exchange requests and outputs in parcels; requests go through `partition_handle`.
//!
//! A parcel holds the items that one turn of the sender has for one receiver (`parcels` collects them). Each send wakes the
//! receiver's task and writes to memory shared by two processors, so it is done once per parcel instead of once per item.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::vec;

use peeklock_budget::Share;
use tokio::sync::mpsc::{self, error::TryRecvError};

use super::parcels::Addressee;
use crate::{Command, Delivery, Received, ReceiverId, Refusal, Reply};

/// An output of a partition to a mailbox.
#[derive(Debug)]
pub enum Output {
    /// The answer to the request with this tag.
    Response {
        /// The tag given with the request.
        tag: u64,
        /// The answer.
        response: Response,
    },
    /// A message for a receiver opened by this mailbox. Boxed, because it is the largest variant.
    Delivery(Box<Delivery>),
    /// Candidates for a receiver with a selector: the owner answers with [`Command::Examined`], which says which of them
    /// match. Messages that can't be read are left out.
    Examine {
        /// The receiver.
        receiver: ReceiverId,
        /// The messages, in order of their numbers, without locks.
        messages: Vec<Received>,
    },
    /// A drain has ended: no further delivery for this receiver follows, except for credit set after the drain.
    Drained {
        /// The receiver.
        receiver: ReceiverId,
    },
    /// The partition closed the receiver or watcher by itself.
    ReceiverClosed {
        /// The receiver or watcher.
        receiver: ReceiverId,
        /// The reason.
        refusal: Refusal,
    },
}

impl Output {
    /// Number of messages in it.
    #[must_use]
    pub fn messages(&self) -> usize {
        match self {
            Self::Delivery(_) => 1,
            Self::Examine { messages, .. }
            | Self::Response { response: Response::Received(Ok(messages)), .. } => messages.len(),
            Self::Response { .. } | Self::Drained { .. } | Self::ReceiverClosed { .. } => 0,
        }
    }
}

/// Replies for the front end: messages include their bodies.
pub type Response = Reply<Received>;

/// The sending half of a connection's inbox; cheap to clone.
#[derive(Debug, Clone)]
pub struct Mailbox(Arc<Sending>);

#[derive(Debug)]
struct Sending {
    /// Bounded by the owner's outstanding requests and credit, so the channel itself needs no bound.
    parcels: mpsc::UnboundedSender<Vec<Output>>,
    account: Arc<Account>,
}

/// Memory accounting shared by a mailbox's owner and its senders.
#[derive(Debug, Default)]
pub struct Account {
    is_full: AtomicBool,
    kept: Mutex<Vec<Share>>,
}

impl Account {
    /// Sets whether the owner is over its memory limit and accepts no further messages. Read for each delivery, so the
    /// owner updates it once per turn.
    pub fn set_full(&self, is_full: bool) {
        if self.is_full.load(Ordering::Relaxed) != is_full {
            self.is_full.store(is_full, Ordering::Relaxed);
        }
    }

    /// Keeps a share until the last request of this mailbox is answered: the bytes of sent requests are held even after the
    /// owner is gone.
    pub fn keep(&self, share: Share) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(share);
    }
}

/// The receiving half: outputs arrive in the order in which they were sent.
#[derive(Debug)]
pub struct MailboxReceiver {
    parcels: mpsc::UnboundedReceiver<Vec<Output>>,
    /// The rest of the current parcel.
    opened: vec::IntoIter<Output>,
}

impl MailboxReceiver {
    /// Waits for the next output; `None` when the channel is closed and empty.
    pub async fn recv(&mut self) -> Option<Output> {
        if poll_fn(|context| self.poll_ready(context)).await { self.opened.next() } else { None }
    }

    /// Waits for outputs and appends at most `limit` available ones to `outputs`; returns their number, 0 when the channel
    /// is closed and empty.
    pub async fn recv_many(&mut self, outputs: &mut Vec<Output>, limit: usize) -> usize {
        let before = outputs.len();
        poll_fn(|context| self.poll_ready(context)).await;
        outputs.extend(std::iter::from_fn(|| self.try_recv().ok()).take(limit));
        outputs.len() - before
    }

    /// The next output, if one is available.
    ///
    /// # Errors
    /// None is available now, or the channel is closed.
    pub fn try_recv(&mut self) -> Result<Output, TryRecvError> {
        loop {
            if let Some(output) = self.opened.next() {
                return Ok(output);
            }
            self.opened = self.parcels.try_recv()?.into_iter();
        }
    }

    /// Ready with true when an output is available, with false when the channel is closed and empty.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        while self.opened.as_slice().is_empty() {
            match ready!(self.parcels.poll_recv(context)) {
                Some(parcel) => self.opened = parcel.into_iter(),
                None => return Poll::Ready(false),
            }
        }
        Poll::Ready(true)
    }

    /// Accepts no further outputs; those sent before can still be received.
    pub fn close(&mut self) {
        self.parcels.close();
    }
}

impl Mailbox {
    /// A connected pair.
    #[must_use]
    pub fn new() -> (Self, MailboxReceiver) {
        let (sender, parcels) = mpsc::unbounded_channel();
        let sending = Sending { parcels: sender, account: Arc::default() };
        (Self(Arc::new(sending)), MailboxReceiver { parcels, opened: Vec::new().into_iter() })
    }

    /// The memory accounting shared with senders.
    #[must_use]
    pub fn account(&self) -> Arc<Account> {
        Arc::clone(&self.0.account)
    }

    /// Whether the owner accepts no further messages at present.
    pub(super) fn is_full(&self) -> bool {
        self.0.account.is_full.load(Ordering::Relaxed)
    }

    /// Sends an output; it is dropped if the owner is gone.
    pub fn put(&self, output: Output) {
        let _ = self.put_all(vec![output]);
    }

    /// Sends outputs in order, or returns them if the owner is gone.
    pub(super) fn put_all(&self, outputs: Vec<Output>) -> Result<(), Vec<Output>> {
        self.0.parcels.send(outputs).map_err(|refused| refused.0)
    }
}

impl Addressee for Mailbox {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A command with its reply address.
#[derive(Debug)]
pub struct Request {
    /// Receives the answer and, for `OpenReceiver`, the deliveries.
    pub mailbox: Mailbox,
    /// Returned in [`Output::Response`]; `None` if no answer is needed. `Watch`, `Credit`, `CloseReceiver` and `Tick` have
    /// no answer, so their tag is ignored.
    pub tag: Option<u64>,
    /// The command.
    pub command: Command,
}

/// A request of a parcel without the reply address, which all requests of the parcel share.
#[derive(Debug)]
pub struct TaggedCommand {
    /// See [`Request::tag`].
    pub tag: Option<u64>,
    /// The command.
    pub command: Command,
}
