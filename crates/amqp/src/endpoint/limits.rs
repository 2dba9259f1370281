//! Limits of the state machine that are not configurable.

/// Queued events for the upper layer beyond which no further input is handled: so few that the driver can look at the
/// time between them.
pub(super) const EVENTS_MAX: usize = 64;

/// Deliveries visited for the peer's dispositions after which the rest of the input waits for the next call: a disposition
/// of 26 bytes may name all unsettled deliveries, again and again.
pub(super) const VISITS_MAX: usize = 16 * 1024;

/// Bytes of frames waiting for the socket (transfers excluded) beyond which no further input is handled: a peer that
/// sends requests and never reads must not fill memory.
pub(super) const OUTBOX_BYTES_MAX: usize = 256 * 1024;

/// Payload slices from this size on are passed to the socket without copying; smaller ones are copied next to their
/// frame, which is cheaper than another element of a vectored write.
pub(super) const PAYLOAD_COPY_BYTES_MAX: usize = 4 * 1024;

/// Bytes that one link may send before the next one has its turn.
pub(super) const LINK_TURN_BYTES: usize = 16 * 1024;

/// Size in bytes up to which the buffer of a partly received delivery is doubled when it is full.
pub(super) const DOUBLED_BYTES_MAX: usize = 8 << 20;

/// Upper bound of the bytes that one turn of a link adds to the outbox: its last message may exceed
/// [`LINK_TURN_BYTES`].
pub(super) const LINK_TURN_ROOM_BYTES: usize =
    LINK_TURN_BYTES + PAYLOAD_COPY_BYTES_MAX + TRANSFER_OVERHEAD_BYTES;

/// Frames are written into blocks of up to this size, because a growing block is copied.
pub(super) const OUTBOX_BLOCK_BYTES: usize = 64 * 1024;

/// Upper bound of a frame header and the longest transfer performative that we write.
pub(super) const TRANSFER_OVERHEAD_BYTES: usize = 80;

/// Upper bound of the delivery state of a transfer in a transaction.
pub(super) const TRANSFER_STATE_BYTES: usize = 64;

/// Upper bound of an attach frame without termini, excluding the link name.
pub(super) const NULL_ATTACH_OVERHEAD_BYTES: usize = 64;

/// The smallest frame size a peer may ask for (part 2.7.1).
pub(super) const FRAME_SIZE_FLOOR: u32 = 512;

/// Unsettled outgoing deliveries per session beyond which nothing more is sent on it.
pub(super) const UNSETTLED_OUTGOING_MAX: usize = 65_536;

/// Settlements waiting to be joined, per session and direction, before they are written out anyway.
pub(super) const SETTLEMENTS_MAX: usize = 4_096;

/// The outgoing-window we announce; no peer uses it.
pub(super) const OUTGOING_WINDOW: u32 = i32::MAX as u32;

/// Refused links that still wait for the peer's detach, beyond the connection's limit of links, before the
/// connection itself is closed.
pub(super) const REFUSED_LINKS_MAX: usize = 1_024;

/// How long we wait for the answer to our close, in milliseconds.
pub(super) const CLOSE_TIME_OUT_MS: u64 = 5_000;

/// The shortest idle time-out we announce: .NET refuses anything below, in milliseconds.
pub(super) const IDLE_TIME_OUT_MS_MIN: u64 = 5_000;

/// Heartbeats are not sent more often than this; a peer whose idle-time-out needs more is refused, in milliseconds.
pub(super) const HEARTBEAT_INTERVAL_MS_MIN: u64 = 250;

/// Links of an unauthenticated connection, and as many more whose detach the peer has not answered: SDKs attach only
/// two, to `$cbs`, before their token is accepted.
pub(super) const UNAUTHENTICATED_LINKS_MAX: usize = 16;

/// Sessions of an unauthenticated connection: Java begins one for every sender and receiver before its token is accepted.
pub(super) const UNAUTHENTICATED_SESSIONS_MAX: usize = 256;

/// Largest transfer frame of an unauthenticated connection, in bytes: the longest token that can come in one frame.
pub(super) const UNAUTHENTICATED_FRAME_BYTES_MAX: u32 = 128 * 1024;

/// Largest other frame of an unauthenticated connection, in bytes: `open` with its properties, `attach`.
pub(super) const UNAUTHENTICATED_CONTROL_BYTES_MAX: u32 = 8 * 1024;

/// Partly received deliveries of an unauthenticated connection, in bytes: the longest token in several frames.
pub(super) const UNAUTHENTICATED_REASSEMBLY_BYTES_MAX: usize = 128 * 1024;

/// Bytes of frames waiting for the socket of an unauthenticated connection beyond which no further input is handled.
pub(super) const UNAUTHENTICATED_OUTBOX_BYTES_MAX: usize = 16 * 1024;

/// Longest name or address of a link of an unauthenticated connection, in bytes.
pub(super) const UNAUTHENTICATED_NAME_BYTES_MAX: usize = 1_024;

/// Longest name of a link, in bytes: it is kept as long as the link. Those of SDKs have a few hundred.
pub(super) const NAME_BYTES_MAX: usize = 4_096;

/// Estimated memory of a session, in bytes.
pub(super) const SESSION_BYTES: usize = 1_024;

/// Estimated memory of a link with its names, in bytes.
pub(super) const LINK_BYTES: usize = 2_048;
