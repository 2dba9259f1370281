//! The cases measured, by name.

use crate::carried::Carrier;
use crate::load::{Load, Through};
use crate::many::Idle;
use crate::paced::Beside;

/// A case.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
}

impl Case {
    /// Whether it runs only when named explicitly: it takes a quarter of an hour and more memory than most machines
    /// have.
    pub(crate) const fn is_experiment(&self) -> bool {
        matches!(self.work, Work::Waiting(Load { messages: 10_000_001.., .. }))
    }
}

/// The work of a case.
pub(crate) enum Work {
    /// All messages are sent, then all are received and completed, on a warm store.
    InTurn(Load),
    /// Sending and receiving at the same time.
    Together(Load),
    /// The first messages in an empty directory, compared with the same on a warm store.
    Empty(Load),
    /// A backlog of this many messages that only grows, compared with the rate on a warm store.
    Backlog(Load, u32),
    /// Sends at half of the saturating rate, concurrent with other work.
    Paced(Load, Beside),
    /// From the start of the process to the first open connection.
    Start,
    /// A million waiting messages.
    Memory,
    /// Ten thousand idle connections with a session and a link each.
    IdleConnections(Idle),
    /// Ten thousand unused entities.
    Entities,
    /// A very large number of messages wait, half of them are completed after a kill.
    Waiting(Load),
    /// Sends to many sessions, compared with few.
    Sessions(Load),
    /// All messages are sent, then all are received, compared with the log alone.
    Large(Load),
    /// The same over a carrier, compared with plain TCP.
    Carried(Load, Carrier),
}

impl Work {
    /// Number of runs beyond which the gain is not worth the time.
    pub(crate) const fn runs_max(&self) -> usize {
        match self {
            Self::Waiting(_) => 1,
            _ => usize::MAX,
        }
    }
}

/// 1 KB messages over 16 connections with 100 under way each.
const fn sixteen(queues: u32, messages: u32) -> Load {
    Load { body_bytes: 1024, connections: 16, through: Through::Queues(queues), messages, window: 100 }
}

const fn topic(through: Through, messages: u32) -> Load {
    Load { body_bytes: 1024, connections: 4, through, messages, window: 100 }
}

const fn one_connection(body_bytes: usize, messages: u32, window: u32) -> Load {
    Load { body_bytes, connections: 1, through: Through::Queues(1), messages, window }
}

/// 1 KB messages over many connections with one under way each.
const fn one_each(connections: u32, messages: u32) -> Load {
    Load { body_bytes: 1024, connections, through: Through::Queues(16), messages, window: 1 }
}

const SESSIONS: Load = Load {
    body_bytes: 1024,
    connections: 4,
    through: Through::Sessions(100_000),
    messages: 200_000,
    window: 100,
};

pub(crate) const CASES: &[Case] = &[
    Case { name: "1KB-16-queues", work: Work::InTurn(sixteen(16, 400_000)) },
    Case { name: "1KB-one-queue", work: Work::InTurn(sixteen(1, 400_000)) },
    Case { name: "1KB-one-connection", work: Work::InTurn(one_connection(1024, 200_000, 500)) },
    Case { name: "100B-16-queues", work: Work::InTurn(Load { body_bytes: 100, ..sixteen(16, 400_000) }) },
    Case { name: "64KB-one-connection", work: Work::Large(one_connection(65_536, 10_000, 100)) },
    Case {
        name: "64KB-4-queues",
        work: Work::Large(Load { body_bytes: 65_536, connections: 4, ..sixteen(4, 20_000) }),
    },
    Case { name: "tls", work: Work::Carried(sixteen(16, 200_000), Carrier::Tls) },
    Case { name: "websocket", work: Work::Carried(sixteen(16, 200_000), Carrier::WebSocket) },
    Case { name: "one-at-a-time", work: Work::InTurn(one_connection(1024, 3_000, 1)) },
    Case { name: "500-one-at-a-time", work: Work::InTurn(one_each(500, 100_000)) },
    Case { name: "together", work: Work::Together(sixteen(16, 400_000)) },
    Case { name: "empty-directory", work: Work::Empty(sixteen(16, 300_000)) },
    Case { name: "backlog", work: Work::Backlog(sixteen(16, 300_000), 1_800_000) },
    Case { name: "half-rate", work: Work::Paced(sixteen(16, 300_000), Beside::Nothing) },
    Case { name: "half-rate-cleaning", work: Work::Paced(sixteen(16, 300_000), Beside::Cleaning) },
    Case { name: "half-rate-expiry", work: Work::Paced(sixteen(16, 300_000), Beside::Expiry) },
    Case { name: "half-rate-backup", work: Work::Paced(sixteen(16, 300_000), Beside::Backup) },
    Case { name: "topic-100-copies", work: Work::InTurn(topic(Through::Copies(100), 10_000)) },
    Case { name: "topic-1-subject", work: Work::InTurn(topic(Through::Subjects(1), 100_000)) },
    Case { name: "topic-2000-subjects", work: Work::InTurn(topic(Through::Subjects(2_000), 100_000)) },
    Case { name: "start", work: Work::Start },
    Case { name: "memory", work: Work::Memory },
    Case { name: "idle-senders", work: Work::IdleConnections(Idle::Sender) },
    Case { name: "idle-receivers", work: Work::IdleConnections(Idle::Receiver) },
    Case { name: "10000-entities", work: Work::Entities },
    // 2 GB on disk, and 12 GB.
    Case {
        name: "10M-100B-waiting",
        work: Work::Waiting(Load { body_bytes: 100, ..sixteen(16, 10_000_000) }),
    },
    Case { name: "10M-1KB-waiting", work: Work::Waiting(sixteen(16, 10_000_000)) },
    // 20 GB on disk, 8 GB of memory.
    Case {
        name: "100M-100B-waiting",
        work: Work::Waiting(Load { body_bytes: 100, ..sixteen(16, 100_000_000) }),
    },
    Case { name: "100000-sessions", work: Work::Sessions(SESSIONS) },
];
