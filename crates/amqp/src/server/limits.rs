//! Bounds of a connection's driver that are not configuration.

/// Outputs of the engine handed to the application per turn.
pub(super) const OUTPUTS_PER_TURN: usize = 128;

/// How often a turn goes back to input that is there already, before others have theirs.
pub(super) const INPUT_ROUNDS_PER_TURN: usize = 4;

/// Bytes of frames prepared per turn; one vectored write each.
pub(super) const TRANSMIT_BYTES_PER_TURN: usize = 128 * 1024;

/// Bytes that wait for the socket beyond which nothing more is prepared and nothing more is read.
pub(super) const UNWRITTEN_BYTES_MAX: usize = 512 * 1024;

/// Slices per vectored write; the system takes 1 024 at most.
pub(super) const WRITE_SLICES_MAX: usize = 64;

/// What a read asks for on an idle connection, in bytes.
pub(super) const READ_BYTES_MIN: usize = 1024;

/// What a read asks for on a busy connection, in bytes.
pub(super) const READ_BYTES_MAX: usize = 128 * 1024;

/// A read that fills a buffer of so many bytes and more is handed over before the next: partitions and the log work on it
/// meanwhile.
pub(super) const LARGE_READ_BYTES_MIN: usize = 32 * 1024;

/// Reads that come back nearly empty before a connection counts as quiet.
pub(super) const QUIET_READS: u32 = 4;

/// Messages of a peer waiting for the engine beyond which it is not read from.
pub(super) const UNANSWERED_MESSAGES_MAX: usize = 4_096;

/// Bytes of them.
pub(super) const UNANSWERED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A peer that takes nothing from us for this long is cut off, in milliseconds.
pub(super) const WRITE_STALL_MS_MAX: u64 = 120_000;

/// How long a connection that is over waits for its last bytes to be taken and for the peer to hang up, in
/// milliseconds: a socket closed with unread input would be reset, and the peer lose our last words.
pub(super) const LINGER_MS: u64 = 2_000;

/// What is read and thrown away in that time, in bytes.
pub(super) const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// How long connections have to take leave when the listener stops, after its grace, in milliseconds.
pub(super) const LEAVE_MS: u64 = 8_000;

/// Pause after a failed accept (no more file descriptors), in milliseconds.
pub(super) const ACCEPT_RETRY_MS: u64 = 100;

/// How long a connection that holds its allowance of memory may go without sending or taking [`PROGRESS_BYTES_MIN`] before
/// what it holds idly is given up, in milliseconds.
pub(super) const MEMORY_PATIENCE_MS: u64 = 2_000;

/// Connections differ in their patience by so much, in milliseconds: they must not all give up at once.
pub(super) const MEMORY_PATIENCE_STEP_MS: u64 = 250;

/// In so many steps.
pub(super) const MEMORY_PATIENCE_STEPS: u64 = 8;

/// Bytes that count as progress of a peer.
pub(super) const PROGRESS_BYTES_MIN: u64 = 64 * 1024;

/// Bytes by which a connection must get on during its turn, each time, so that those behind it go on waiting: at a slower
/// pace a turn takes longer than they should wait.
pub(super) const TURN_PROGRESS_BYTES_MIN: u64 = 1 << 20;

/// How often a connection that waits for memory looks again, in milliseconds.
pub(super) const MEMORY_LOOK_MS: u64 = 50;

/// What a connection may hold before its peer has authenticated without a share of the budget, in bytes: enough for the
/// SDKs' sessions, links and usual tokens.
pub(super) const UNAUTHENTICATED_OWN_BYTES: usize = 16 * 1024;

/// What one connection may hold before its peer has authenticated, in bytes: a long token in one frame and another half
/// received, with the room that buffers grow by.
pub(super) const UNAUTHENTICATED_BYTES_MAX: usize = 512 * 1024;

/// What all connections whose peers have not authenticated may hold together beyond that, in bytes.
pub(super) const UNAUTHENTICATED_BUDGET_BYTES: usize = 16 * 1024 * 1024;

/// What a read asks for at most before the peer has authenticated, in bytes.
pub(super) const UNAUTHENTICATED_READ_BYTES_MAX: usize = 8 * 1024;

/// Bytes that wait for the socket of a peer that has not authenticated beyond which nothing more is prepared or read.
pub(super) const UNAUTHENTICATED_UNWRITTEN_BYTES_MAX: usize = 16 * 1024;
