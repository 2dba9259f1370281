//! Lists of a queue's receivers, locks and sessions for administrators, in pages.

use std::sync::Arc;

use bytes::Bytes;

use crate::{LockToken, ReceiveMode, ReceiverId, SequenceNumber, SessionId, Timestamp};

/// The kind of list, and the last element of the previous page; `None` for the first page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// Receivers, in the order in which they were opened.
    Receivers(Option<ReceiverId>),
    /// Locks of messages in the order of their expiry; those of forwarders, which never expire, are last. Locks under a
    /// session lock are in [`Self::SessionLocks`].
    Locks(Option<(Timestamp, SequenceNumber, LockToken)>),
    /// Locks of messages of sessions, in the order of session keys and message numbers.
    SessionLocks(Option<(Arc<str>, SequenceNumber)>),
    /// Sessions with messages, a holder or a state, in the order of their keys.
    Sessions(Option<Arc<str>>),
    /// One session, if it has messages, a holder or a state.
    Session(SessionId),
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The rows of the page.
    pub rows: Vec<ListedRow>,
    /// The start of the next page; `None` on the last one. A page may be empty although there are more, because the work for
    /// each page is bounded.
    pub next: Option<Listing>,
}

/// A row of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedRow {
    /// A receiver.
    Receiver {
        /// Its id.
        id: ReceiverId,
        /// Its mode.
        mode: ReceiveMode,
        /// Whether it has a selector.
        selects: bool,
        /// The session it holds.
        session: Option<Arc<str>>,
        /// Remaining message credit.
        credit: u64,
    },
    /// A lock of a message.
    Lock {
        /// The message's client-visible number.
        number: SequenceNumber,
        /// The token of the lock.
        token: LockToken,
        /// When it expires unless renewed.
        until: Timestamp,
        /// The session of the message.
        session: Option<Arc<str>>,
        /// The receiver of the message or the holder of its session; `None` if the message was received by number.
        receiver: Option<ReceiverId>,
    },
    /// A session.
    Session {
        /// Its id, in the first spelling.
        id: Arc<str>,
        /// Number of its active messages, locked or not.
        messages: u64,
        /// The holder, and when its lock expires unless renewed.
        holder: Option<(ReceiverId, Timestamp)>,
        /// Its state.
        state: Option<Bytes>,
    },
}
