//! What administrators see of the receivers, locks and sessions of a queue, a page at a time.

use std::sync::Arc;

use bytes::Bytes;

use crate::{LockToken, ReceiveMode, ReceiverId, SequenceNumber, SessionId, Timestamp};

/// What is listed, and behind what the page begins; from the beginning without that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// Receivers, in the order in which they were opened.
    Receivers(Option<ReceiverId>),
    /// Locks of messages that end by themselves, in the order in which they do; those of forwarders last. Locks under the lock of
    /// a session are [`Self::SessionLocks`].
    Locks(Option<(Timestamp, SequenceNumber, LockToken)>),
    /// Locks of messages of sessions, in the order of the sessions' keys and of their numbers.
    SessionLocks(Option<(Arc<str>, SequenceNumber)>),
    /// Sessions with messages, a holder or a state, in the order of their keys.
    Sessions(Option<Arc<str>>),
    /// One session, if it has any of these.
    Session(SessionId),
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What is on it.
    pub rows: Vec<ListedRow>,
    /// Behind what the next page begins; `None` on the last one. A page may be empty although there are more: the work for
    /// one is bounded.
    pub next: Option<Listing>,
}

/// A row of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedRow {
    /// A receiver.
    Receiver {
        /// Which.
        id: ReceiverId,
        /// How it takes messages.
        mode: ReceiveMode,
        /// Whether it has a selector.
        selects: bool,
        /// The session that it holds.
        session: Option<Arc<str>>,
        /// Messages for which it has credit left.
        credit: u64,
    },
    /// A lock of a message.
    Lock {
        /// The message, by the number that clients see.
        number: SequenceNumber,
        /// Names the lock.
        token: LockToken,
        /// When it ends unless renewed.
        until: Timestamp,
        /// The session of the message.
        session: Option<Arc<str>>,
        /// Who was given the message, or holds its session; none if it was received by its number.
        receiver: Option<ReceiverId>,
    },
    /// A session.
    Session {
        /// Its id, as it was spelled first.
        id: Arc<str>,
        /// Its active messages, locked or not.
        messages: u64,
        /// Who holds it, and until when unless renewed.
        holder: Option<(ReceiverId, Timestamp)>,
        /// Its state.
        state: Option<Bytes>,
    },
}
