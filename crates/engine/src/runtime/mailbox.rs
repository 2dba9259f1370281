//! How connections and partitions talk: requests in, outputs out, both in batches. `partition_handle` is where requests go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use peeklock_budget::Share;
use tokio::sync::mpsc;

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
