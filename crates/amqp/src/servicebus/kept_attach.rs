//! Attaches that wait: for a session, for an entity to be created, for a token.

use bytes::{Bytes, BytesMut};
use peeklock_engine::Refusal;

use super::ConnectionHandler;
use super::errors::Fault;
use crate::wire::frame::{decode_body, encode_body};
use crate::wire::performative::{Attach, Performative};

/// Size of an attach that counts as usual, in bytes; those of SDKs are shorter.
const USUAL_BYTES: usize = 1_024;

/// Maximum size of all attaches of one connection that wait for the engine, in bytes beyond the usual size of each.
const EXCESS_BYTES_MAX: usize = 4 << 20;

/// An attach as bytes: decoded it could take forty times as much memory as on the wire.
#[derive(Debug)]
pub(super) struct KeptAttach(Bytes);

impl KeptAttach {
    pub(super) fn new(attach: Attach) -> Self {
        let mut body = BytesMut::new();
        encode_body(&Performative::Attach(Box::new(attach)), &mut body);
        Self(body.freeze())
    }

    /// Its size, in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn excess_bytes(&self) -> usize {
        self.len().saturating_sub(USUAL_BYTES)
    }

    /// `None` never occurs: it was encoded from an attach.
    pub(super) fn decode(self) -> Option<Attach> {
        match decode_body(self.0) {
            Ok(Some((Performative::Attach(attach), _))) => Some(*attach),
            _ => None,
        }
    }
}

impl ConnectionHandler {
    /// Keeps an attach, or the answer to it, until [`Self::release_attach`].
    ///
    /// # Errors
    /// [`Refusal::MemoryShort`] if large ones of this connection take too much memory.
    pub(super) fn keep_attach(&mut self, attach: Attach) -> Result<KeptAttach, Fault> {
        let kept = KeptAttach::new(attach);
        let excess_bytes = self.kept_excess_bytes + kept.excess_bytes();
        if kept.excess_bytes() > 0 && excess_bytes > EXCESS_BYTES_MAX {
            return Err(Fault::Refused(Refusal::MemoryShort));
        }
        self.kept_excess_bytes = excess_bytes;
        Ok(kept)
    }

    /// An attach that waits no longer.
    pub(super) fn release_attach(&mut self, kept: KeptAttach) -> Option<Attach> {
        self.kept_excess_bytes = self.kept_excess_bytes.saturating_sub(kept.excess_bytes());
        kept.decode()
    }
}
