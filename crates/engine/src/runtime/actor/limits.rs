//! Every bound of an actor's queues and loops.

/// Requests handled in one turn, and about the most handled before other tasks may run.
pub(super) const TURN_REQUESTS_MAX: usize = 512;

/// Events of one turn after which the remaining requests wait for the next: each request may let a thousand messages expire
/// before it is carried out, and what a turn decides is one batch.
pub(super) const TURN_EVENTS_MAX: usize = 8 * 1024;

/// Elements that an idle actor's buffers keep room for.
pub(super) const IDLE_CAPACITY_MAX: usize = 16;

/// Batches submitted and not yet durable; beyond it the actor takes no new requests.
pub(super) const COMMITS_IN_FLIGHT_MAX: usize = 64;

/// Batches submitted and not yet durable beyond which timers wait: a million messages that expire at once must not make
/// other queues wait for the log. Requests fire what is due all the same.
pub(super) const TIMER_COMMITS_IN_FLIGHT_MAX: usize = 2;

/// Bytes submitted and not yet durable; beyond it the actor takes no new requests.
pub(super) const COMMIT_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;

/// Bytes of contents taken into one batch, if the store does not allow less.
pub(in crate::runtime) const BATCH_BYTES_MAX: usize = 1 << 20;

/// What a message's stored record may add to its content, in bytes: an estimate that keeps batches below the
/// store's limit; a batch that exceeds it all the same is split
/// between commands. What one command or tick writes must fit: a few MB at most, unless all its messages carry large
/// changed properties.
pub(super) const RECORD_BYTES_ESTIMATE: usize = 256;

/// What the record of a copy of a topic's message takes in one subscription at most, in bytes: of one that goes to the dead
/// letters at once, with the reason; what it has of its own apart.
pub(super) const COPY_BYTES_MAX_ESTIMATE: usize = 192;

/// What stands in place of a message that went to another entity, and what a forwarded message remembers of its way, in
/// bytes.
pub(super) const TRACE_BYTES_ESTIMATE: usize = 64;

/// What the deletion of one of many messages writes, in bytes: the keys of its record and its body.
pub(super) const DELETION_BYTES_ESTIMATE: usize = 64;

/// What a subscription's stored rules are counted as, in bytes: they usually take less, and at most a megabyte. A batch that
/// exceeds the store's limit all the same is split between commands.
pub(super) const RULES_BYTES_ESTIMATE: usize = 64 << 10;

/// Contents asked for in one read.
pub(super) const READ_KEYS_MAX: usize = 128;

/// Contents being read at a time, as far as their usual size is known.
pub(super) const READ_BYTES_AHEAD_MAX: usize = 8 << 20;

/// Contents of one turn that the store gave at once, in bytes: to copy them took time that others wait for.
pub(super) const READ_AT_ONCE_BYTES_MAX: usize = 512 << 10;

/// What each of these reads counts as, at least, in bytes: it takes what lies between the contents as well.
pub(super) const READ_AT_ONCE_BYTES_MIN: usize = 64 << 10;

/// Smaller contents wait for the allowance instead of taking a turn of the memory budget, in bytes.
pub(super) const TURN_CONTENT_BYTES_MIN: usize = 1 << 20;

/// How soon an actor looks again that found no memory for contents, in milliseconds.
pub(super) const MEMORY_LOOK_MS: u64 = 50;

/// Answers with cold contents (browsing, deferred messages) being read at a time.
pub(super) const BROWSES_READING_MAX: usize = 4;
