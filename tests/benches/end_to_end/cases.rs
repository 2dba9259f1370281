//! What is measured, by name.

use crate::load::{Load, Through};
use crate::paced::Beside;

/// One situation.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) work: Work,
}

/// What happens in it.
pub(crate) enum Work {
    /// Everything is sent, then everything is received and completed, on a warm store.
    InTurn(Load),
    /// Both at the same time.
    Together(Load),
    /// The first messages on an empty directory, against the same on a warm store.
    Empty(Load),
    /// A backlog that only grows, against the rate on a warm store; so many messages.
    Backlog(Load, u32),
    /// Sends at half of the rate that saturates, beside something else.
    Paced(Load, Beside),
    /// From the start of the process to the first open connection.
    Start,
    /// A million waiting messages.
    Memory,
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

pub(crate) const CASES: &[Case] = &[
    Case { name: "1KB-16-queues", work: Work::InTurn(sixteen(16, 400_000)) },
    Case { name: "1KB-one-queue", work: Work::InTurn(sixteen(1, 400_000)) },
    Case { name: "1KB-one-connection", work: Work::InTurn(one_connection(1024, 200_000, 500)) },
    Case { name: "100B-16-queues", work: Work::InTurn(Load { body_bytes: 100, ..sixteen(16, 400_000) }) },
    Case { name: "64KB-one-connection", work: Work::InTurn(one_connection(65_536, 10_000, 100)) },
    Case { name: "one-at-a-time", work: Work::InTurn(one_connection(1024, 3_000, 1)) },
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
];
