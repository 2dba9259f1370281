//! Spans of messages: the port to whoever takes part in traces. What a trace is, is not known here.

use std::fmt::Debug;

use bytes::Bytes;

use crate::{Refusal, SequenceNumber, Timestamp};

/// Decides which messages have spans. Called by actors between two messages: it must neither block nor take long.
pub trait Spans: Debug + Send + Sync {
    /// The trace that a message takes part in, by its encoded content; `None` if it is not sampled.
    fn trace(&self, content: &Bytes) -> Option<Box<dyn Trace>>;

    /// Nanoseconds since the epoch by the machine's clock. Nothing is decided by it.
    fn now_ns(&self) -> u64;
}

/// The trace of one message.
pub trait Trace: Debug + Send + Sync {
    /// Notes what happened to the message; must not block.
    fn record(&self, span: &Span<'_>);
}

/// What happened to a message of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// What was done.
    pub operation: Operation,
    /// The queue or topic.
    pub entity: &'a str,
    /// The subscription, if it is in one.
    pub subscription: Option<&'a str>,
    /// When it began, in nanoseconds since the epoch.
    pub started_ns: u64,
    /// When it was durable and answered, or handed to the receiver's connection.
    pub ended_ns: u64,
    /// The message's number, once it has one.
    pub sequence_number: Option<SequenceNumber>,
    /// When it was enqueued and how many deliveries failed; of a delivery.
    pub delivery: Option<(Timestamp, u32)>,
    /// Why nothing came of it.
    pub refusal: Option<&'a Refusal>,
}

/// What is done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Stored for its sender.
    Publish,
    /// Handed to a receiver.
    Deliver,
    /// Settled by its receiver.
    Settle(Disposition),
}

/// How a receiver settles a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It is processed.
    Complete,
    /// It failed, and is delivered again.
    Abandon,
    /// It is set aside.
    Defer,
    /// It is moved to the dead-letter queue.
    DeadLetter,
    /// It is given back untouched.
    Release,
}
