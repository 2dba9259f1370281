//! Limits of a connection's driver that are not configurable.

use std::time::Duration;

/// Engine outputs passed to the application per turn. An answer to browsing has hundreds of messages, each as much work
/// as a delivery, and counts as that many.
pub(super) const OUTPUTS_PER_TURN: usize = 128;

/// Time after which a turn leaves further input to the next one, in milliseconds: other connections of the thread wait
/// meanwhile. An attach or a request to `$management` takes several times as long as a message.
pub(super) const INPUT_MS_PER_TURN: u64 = 1;

/// How often a turn continues with input that has already arrived, within that time.
pub(super) const INPUT_ROUNDS_PER_TURN: usize = 64;

/// Bytes of frames prepared per turn; one vectored write each.
pub(super) const TRANSMIT_BYTES_PER_TURN: usize = 128 * 1024;

/// Bytes that wait for the socket beyond which nothing more is prepared or read.
pub(super) const UNWRITTEN_BYTES_MAX: usize = 512 * 1024;

/// Slices per vectored write; the system accepts 1 024 at most.
pub(super) const WRITE_SLICES_MAX: usize = 64;

/// Size of a read on an idle connection, in bytes.
pub(super) const READ_BYTES_MIN: usize = 1024;

/// Size of a read on a busy connection, in bytes.
pub(super) const READ_BYTES_MAX: usize = 128 * 1024;

/// A read that fills a buffer of at least this many bytes is passed to the engine before the next read, so that
/// partitions and the log work on it meanwhile.
pub(super) const LARGE_READ_BYTES_MIN: usize = 32 * 1024;

/// Nearly empty reads before a connection counts as quiet.
pub(super) const QUIET_READS: u32 = 4;

/// Messages of a peer waiting for the engine beyond which the connection stops reading.
pub(super) const UNANSWERED_MESSAGES_MAX: usize = 4_096;

/// Bytes of messages waiting for the engine beyond which the connection stops reading.
pub(super) const UNANSWERED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A peer that reads nothing from us for this long is disconnected, in milliseconds.
pub(super) const WRITE_STALL_MS_MAX: u64 = 120_000;

/// How long an ended connection waits for its last bytes to be read and for the peer to close the socket, in
/// milliseconds: a socket closed with unread input would be reset, and the peer would lose our last frames.
pub(super) const LINGER_MS: u64 = 2_000;

/// Maximum number of bytes that are read and discarded in that time.
pub(super) const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// How long connections have for the closing handshake when the listener stops, after its grace period, in
/// milliseconds.
pub(super) const LEAVE_MS: u64 = 8_000;

/// Pause after a failed accept (no more file descriptors), in milliseconds.
pub(super) const ACCEPT_RETRY_MS: u64 = 100;

/// How long a connection that holds its allowance of memory may go without sending or reading [`PROGRESS_BYTES_MIN`]
/// before the memory it holds idly is given up, in milliseconds.
pub(super) const MEMORY_PATIENCE_MS: u64 = 2_000;

/// Connections differ in their patience by this much, in milliseconds, so that they do not all give up at once.
pub(super) const MEMORY_PATIENCE_STEP_MS: u64 = 250;

/// Number of different values of the patience.
pub(super) const MEMORY_PATIENCE_STEPS: u64 = 8;

/// Bytes that count as progress of a peer.
pub(super) const PROGRESS_BYTES_MIN: u64 = 64 * 1024;

/// Progress in bytes, each time, that a connection must make during its turn so that those behind it continue waiting:
/// at a slower pace a turn takes longer than they should wait.
pub(super) const TURN_PROGRESS_BYTES_MIN: u64 = 1 << 20;

/// How often a connection that waits for memory checks again, in milliseconds.
pub(super) const MEMORY_LOOK_MS: u64 = 50;

/// Bytes that a connection may hold before its peer has authenticated without a share of the budget: enough for the
/// SDKs' sessions, links and usual tokens.
pub(super) const UNAUTHENTICATED_OWN_BYTES: usize = 16 * 1024;

/// Maximum number of bytes that one connection may hold before its peer has authenticated: a long token in one frame
/// and another one partly received, with the spare capacity of growing buffers.
pub(super) const UNAUTHENTICATED_BYTES_MAX: usize = 512 * 1024;

/// Bytes that all connections whose peers have not authenticated may hold together beyond that.
pub(super) const UNAUTHENTICATED_BUDGET_BYTES: usize = 16 * 1024 * 1024;

/// Maximum size of a read before the peer has authenticated, in bytes.
pub(super) const UNAUTHENTICATED_READ_BYTES_MAX: usize = 8 * 1024;

/// Bytes that wait for the socket of a peer that has not authenticated beyond which nothing more is prepared or read.
pub(super) const UNAUTHENTICATED_UNWRITTEN_BYTES_MAX: usize = 16 * 1024;

/// Pause after a turn that worked as long as one may. A yield would not do: the runtime looks for arrived bytes and due
/// timers only once a thread has nothing else to do, or after 61 turns of tasks.
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(1);
