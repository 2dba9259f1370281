//! Spans of messages: the port to tracing. The engine does not know the format of traces.

use std::fmt::Debug;

use bytes::Bytes;

use crate::{Refusal, SequenceNumber, Timestamp};

/// Decides which messages have spans. Called by actors between two messages, so it must be fast and must not block.
pub trait Spans: Debug + Send + Sync {
    /// The trace of a message, found in its encoded body; `None` if it is not sampled.
    fn trace(&self, content: &Bytes) -> Option<Box<dyn Trace>>;

    /// Nanoseconds since the epoch by the machine's clock. Not used for decisions.
    fn now_ns(&self) -> u64;
}

/// The trace of one message.
pub trait Trace: Debug + Send + Sync {
    /// Records an operation on the message; must not block.
    fn record(&self, span: &Span<'_>);
}

/// An operation on a traced message.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// The kind of operation.
    pub operation: Operation,
    /// The queue or topic.
    pub entity: &'a str,
    /// The subscription, if the message is in one.
    pub subscription: Option<&'a str>,
    /// Start time in nanoseconds since the epoch.
    pub started_ns: u64,
    /// End time: the operation was durable and answered, or the message was sent to the receiver's connection.
    pub ended_ns: u64,
    /// The message's sequence number, if it has one.
    pub sequence_number: Option<SequenceNumber>,
    /// For a delivery: when the message was enqueued, and its delivery count.
    pub delivery: Option<(Timestamp, u32)>,
    /// The reason, if the operation failed.
    pub refusal: Option<&'a Refusal>,
}

/// Kind of operation on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Stored for its sender.
    Publish,
    /// Sent to a receiver.
    Deliver,
    /// Settled by its receiver.
    Settle(Disposition),
}

/// A receiver's settlement of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Processed.
    Complete,
    /// Failed; the message is delivered again.
    Abandon,
    /// Deferred.
    Defer,
    /// Moved to the dead-letter queue.
    DeadLetter,
    /// Released without counting the delivery.
    Release,
}
