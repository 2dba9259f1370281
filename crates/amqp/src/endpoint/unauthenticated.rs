//! Limits of an unauthenticated connection: enough to send a token to `$cbs`, with little memory.

use bytes::Bytes;

use super::condition::{self, Fault};
use super::connection::{Connection, Phase};
use super::limits::{
    FRAME_SIZE_FLOOR, LINK_BYTES, SESSION_BYTES, UNAUTHENTICATED_CONTROL_BYTES_MAX,
    UNAUTHENTICATED_FRAME_BYTES_MAX, UNAUTHENTICATED_LINKS_MAX, UNAUTHENTICATED_NAME_BYTES_MAX,
    UNAUTHENTICATED_OUTBOX_BYTES_MAX, UNAUTHENTICATED_REASSEMBLY_BYTES_MAX, UNAUTHENTICATED_SESSIONS_MAX,
};
use super::limits::{OUTBOX_BYTES_MAX, REFUSED_LINKS_MAX};
use crate::wire::performative::{Attach, Target};

/// Estimated memory of a channel whose session the peer has ended, in bytes.
const CHANNEL_ENDED_BYTES: usize = 64;
/// How the body of a transfer frame begins: its descriptor as every known client encodes it, and in the longest
/// encoding.
const TRANSFER_STARTS: [&[u8]; 2] = [b"\x00\x53\x14", b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x14"];

impl Connection {
    /// Applies the limits of an unauthenticated connection, from now until [`Self::authenticated`].
    pub fn limit_unauthenticated(&mut self) {
        self.is_limited = true;
    }

    /// Ends the limits of an unauthenticated connection: only those of [`super::Config`] apply.
    pub fn authenticated(&mut self) {
        self.is_limited = false;
    }

    /// An estimate of the memory that the peer makes this connection hold, in bytes: sessions, links, partly received
    /// deliveries and frames that the peer has not read.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.sessions.len() * SESSION_BYTES
            + self.links.total() * LINK_BYTES
            + self.channels_ended.len() * CHANNEL_ENDED_BYTES
            + self.reassembly_bytes
            + self.pending_bytes
            + self.outbox.len()
    }

    /// Largest frame accepted now, in bytes. No large frame is expected before the connection is open.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        let configured = self.config.max_frame_size.max(FRAME_SIZE_FLOOR);
        match (self.is_limited, self.phase) {
            (false, _) => configured,
            (true, Phase::Open | Phase::Closing) => configured.min(UNAUTHENTICATED_FRAME_BYTES_MAX),
            (true, _) => configured.min(UNAUTHENTICATED_CONTROL_BYTES_MAX),
        }
    }

    /// Whether a frame is too large for an unauthenticated peer: only transfers with tokens may be large.
    pub(super) fn is_too_long_unauthenticated(&self, body: &Bytes) -> bool {
        self.is_limited
            && body.len() > UNAUTHENTICATED_CONTROL_BYTES_MAX as usize
            && !TRANSFER_STARTS.iter().any(|start| body.starts_with(start))
    }

    pub(super) fn links_max(&self) -> usize {
        self.limited(self.config.links_max, UNAUTHENTICATED_LINKS_MAX)
    }

    /// Maximum number of links that wait for the peer's detach.
    pub(super) fn detaching_max(&self) -> usize {
        self.limited(REFUSED_LINKS_MAX.max(self.config.links_max), UNAUTHENTICATED_LINKS_MAX)
    }

    pub(super) fn sessions_max(&self) -> usize {
        self.limited(self.config.sessions_max, UNAUTHENTICATED_SESSIONS_MAX)
    }

    pub(super) fn reassembly_bytes_max(&self) -> usize {
        self.limited(self.config.reassembly_bytes_max, UNAUTHENTICATED_REASSEMBLY_BYTES_MAX)
    }

    pub(super) fn outbox_bytes_max(&self) -> usize {
        self.limited(OUTBOX_BYTES_MAX, UNAUTHENTICATED_OUTBOX_BYTES_MAX)
    }

    fn limited(&self, configured: usize, unauthenticated: usize) -> usize {
        if self.is_limited { configured.min(unauthenticated) } else { configured }
    }

    /// Refuses long names and addresses of links of an unauthenticated peer.
    pub(super) fn check_names(&self, attach: &Attach) -> Result<(), Fault> {
        let target = match &attach.target {
            Some(Target::Node(terminus)) => terminus.address.as_deref(),
            _ => None,
        };
        let source = attach.source.as_ref().and_then(|source| source.address.as_deref());
        let texts = [Some(&*attach.name), source, target];
        let longest = texts.into_iter().flatten().map(str::len).max().unwrap_or(0);
        if !self.is_limited || longest <= UNAUTHENTICATED_NAME_BYTES_MAX {
            return Ok(());
        }
        let reason = format!(
            "before authentication, names and addresses of links have at most {UNAUTHENTICATED_NAME_BYTES_MAX} bytes"
        );
        Err(Fault::connection(condition::RESOURCE_LIMIT_EXCEEDED, reason))
    }
}
