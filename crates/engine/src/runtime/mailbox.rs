//! How connections and partitions talk: requests in, outputs out, both in parcels. `partition_handle` is where requests go.
//!
//! A parcel is what one turn of the sender has for one receiver (`parcels` collects it). Each hand-over wakes the receiver's task and
//! writes to memory that two processors share, so it is done for a parcel and not for each item.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::vec;

use peeklock_budget::Share;
use tokio::sync::mpsc::{self, error::TryRecvError};

use super::parcels::Addressee;
use crate::{Command, Delivery, Received, ReceiverId, Refusal, Reply};

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

/// Answers as they reach the front end: messages have their contents.
pub type Response = Reply<Received>;

/// The sending half of a connection's inbox; cheap to clone.
#[derive(Debug, Clone)]
pub struct Mailbox(Arc<Sending>);

#[derive(Debug)]
struct Sending {
    /// Bounded by the requests and credit the owner has outstanding, so the channel itself needs no bound.
    parcels: mpsc::UnboundedSender<Vec<Output>>,
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

/// The receiving half: outputs come in the order in which they were sent.
#[derive(Debug)]
pub struct MailboxReceiver {
    parcels: mpsc::UnboundedReceiver<Vec<Output>>,
    /// What is left of the parcel that came last.
    opened: vec::IntoIter<Output>,
}

impl MailboxReceiver {
    /// Waits for the next output; `None` once there will be none.
    pub async fn recv(&mut self) -> Option<Output> {
        if poll_fn(|context| self.poll_ready(context)).await { self.opened.next() } else { None }
    }

    /// Waits until there are outputs and adds at most `limit` of those that are there to `outputs`; returns how many, 0
    /// once there will be none.
    pub async fn recv_many(&mut self, outputs: &mut Vec<Output>, limit: usize) -> usize {
        let before = outputs.len();
        poll_fn(|context| self.poll_ready(context)).await;
        outputs.extend(std::iter::from_fn(|| self.try_recv().ok()).take(limit));
        outputs.len() - before
    }

    /// The next output, if there is one.
    ///
    /// # Errors
    /// There is none now, or there will be none.
    pub fn try_recv(&mut self) -> Result<Output, TryRecvError> {
        loop {
            if let Some(output) = self.opened.next() {
                return Ok(output);
            }
            self.opened = self.parcels.try_recv()?.into_iter();
        }
    }

    /// Ready when there is an output to take, with false once there will be none.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        while self.opened.as_slice().is_empty() {
            match ready!(self.parcels.poll_recv(context)) {
                Some(parcel) => self.opened = parcel.into_iter(),
                None => return Poll::Ready(false),
            }
        }
        Poll::Ready(true)
    }

    /// Takes no further outputs; what was sent before can still be received.
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
        let _ = self.put_all(vec![output]);
    }

    /// Delivers outputs in their order, or hands them back when the owner is gone.
    pub(super) fn put_all(&self, outputs: Vec<Output>) -> Result<(), Vec<Output>> {
        self.0.parcels.send(outputs).map_err(|refused| refused.0)
    }
}

impl Addressee for Mailbox {
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

/// A request of a parcel, whose return address all have in common.
#[derive(Debug)]
pub struct Asked {
    /// As that of [`Request`].
    pub tag: Option<u64>,
    /// What to do.
    pub command: Command,
}
