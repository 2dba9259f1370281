//! All limits of an actor's queues and loops.

/// Requests handled in one turn, and approximately the number handled before other tasks may run.
pub(super) const TURN_REQUESTS_MAX: usize = 512;

/// A turn that would begin with at most this many requests lets the tasks run first that are ready, so that their requests
/// join it. Otherwise each of 500 connections with one message would cause a turn of its own.
pub(super) const FEW_REQUESTS_MAX: usize = 16;

/// Events of one turn after which the remaining requests wait for the next turn: each request may first expire a thousand
/// messages, and the events of a turn are one batch.
pub(in crate::runtime) const TURN_EVENTS_MAX: usize = 8 * 1024;

/// Visited entries (see `Outputs::visits`, each of some ten to a hundred nanoseconds) after which the remaining requests of a
/// turn wait for the next one: requests that only read cause no events, but may each look up ten thousand messages.
pub(in crate::runtime) const TURN_VISITS_MAX: usize = 16 * 1024;

/// Capacity that an idle actor's buffers keep, in elements.
pub(super) const IDLE_CAPACITY_MAX: usize = 16;

/// Batches submitted and not yet durable; at this number the actor accepts no new requests.
pub(super) const COMMITS_IN_FLIGHT_MAX: usize = 64;

/// Batches submitted and not yet durable at which timers wait, so that a million messages that expire at once do not delay
/// other queues. Requests fire due timers regardless.
pub(super) const TIMER_COMMITS_IN_FLIGHT_MAX: usize = 2;

/// Bytes submitted and not yet durable; beyond this the actor accepts no new requests.
pub(super) const COMMIT_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;

/// Bytes of bodies in one batch, unless the store's limit is lower.
pub(in crate::runtime) const BATCH_BYTES_MAX: usize = 1 << 20;

/// Estimated size in bytes of a message's stored record without its body. It keeps batches below the store's limit; a batch
/// that exceeds the limit nevertheless is split between commands. The writes of one command or tick must fit: a few MB at
/// most, unless all its messages carry large changed properties.
pub(super) const RECORD_BYTES_ESTIMATE: usize = 256;

/// Maximum size in bytes of the record of one copy of a topic's message (a copy that is dead-lettered at once, with its
/// reason), without the message's own variable parts.
pub(super) const COPY_BYTES_MAX_ESTIMATE: usize = 192;

/// Size in bytes of the forwarding information in a forwarded message.
pub(super) const FORWARDED_BYTES_ESTIMATE: usize = 64;

/// Size in bytes of the deletion of one of many messages: the keys of its record and its body.
pub(super) const DELETION_BYTES_ESTIMATE: usize = 64;

/// Estimated size in bytes of a subscription's stored rules: usually smaller, at most a megabyte. A batch that exceeds the
/// store's limit nevertheless is split between commands.
pub(super) const RULES_BYTES_ESTIMATE: usize = 64 << 10;

/// Bodies in one read.
pub(super) const READ_KEYS_MAX: usize = 128;

/// Maximum bytes of bodies being read at a time.
pub(super) const READ_BYTES_AHEAD_MAX: usize = 8 << 20;

/// Bytes of bodies per turn that the store may return synchronously: copying them delays other tasks.
pub(super) const READ_AT_ONCE_BYTES_MAX: usize = 512 << 10;

/// Minimum that each synchronous read counts as, in bytes: it also reads the gaps between the bodies.
pub(super) const READ_AT_ONCE_BYTES_MIN: usize = 64 << 10;

/// Bodies smaller than this, in bytes, wait for the allowance instead of queueing for the memory budget.
pub(super) const TURN_CONTENT_BYTES_MIN: usize = 1 << 20;

/// Interval in milliseconds at which an actor that found no memory for bodies checks again.
pub(super) const MEMORY_LOOK_MS: u64 = 50;

/// Answers with bodies (browsing, deferred messages) being read at a time.
pub(super) const BROWSES_READING_MAX: usize = 4;
