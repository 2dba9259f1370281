//! Deliveries in several frames (part 2.6.14).

use bytes::{Bytes, BytesMut};

use super::limits::DOUBLED_BYTES_MAX;
use crate::wire::performative::{DeliveryState, Error, Tag, Transfer};

/// A partly received delivery.
///
/// Payloads are copied into one buffer: slices would keep whole read buffers alive for a few bytes each. For the same
/// reason the id of a transaction is copied.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) delivery_id: u32,
    tag: Tag,
    message_format: u32,
    settled: bool,
    state: Option<Box<DeliveryState>>,
    payload: BytesMut,
    /// Set if the delivery was given up and its payload is discarded.
    given_up: Option<Box<Error>>,
}

/// A completely received delivery.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) delivery_id: u32,
    pub(super) tag: Tag,
    pub(super) message_format: u32,
    pub(super) settled: bool,
    pub(super) state: Option<Box<DeliveryState>>,
    pub(super) payload: Bytes,
}

impl Complete {
    /// A delivery in a single frame.
    #[inline(always)]
    pub(super) fn single(delivery_id: u32, transfer: Transfer, payload: Bytes) -> Self {
        Self {
            delivery_id,
            tag: transfer.delivery_tag.unwrap_or_default(),
            message_format: transfer.message_format.unwrap_or_default(),
            settled: transfer.settled.unwrap_or_default(),
            state: transfer.state.and_then(transaction_of),
            payload,
        }
    }
}

impl Partial {
    pub(super) fn start(delivery_id: u32, transfer: Transfer, payload: &[u8]) -> Self {
        Self {
            delivery_id,
            tag: transfer.delivery_tag.unwrap_or_default(),
            message_format: transfer.message_format.unwrap_or_default(),
            settled: transfer.settled.unwrap_or_default(),
            state: transfer.state.and_then(transaction_of).map(with_own_id),
            payload: BytesMut::from(payload),
            given_up: None,
        }
    }

    /// Discards the payload, including frames still to come: the delivery is refused with this error after its last
    /// frame.
    pub(super) fn give_up(&mut self, why: Error) {
        self.payload = BytesMut::new();
        self.given_up.get_or_insert_with(|| Box::new(why));
    }

    /// The error with which the delivery is refused after its last frame, if it was given up.
    pub(super) fn given_up(&self) -> Option<&Error> {
        self.given_up.as_deref()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// The id of the transaction that the delivery belongs to.
    pub(super) fn txn_id(&self) -> Option<&Bytes> {
        match self.state.as_deref() {
            Some(DeliveryState::Transactional { txn_id, .. }) => Some(txn_id),
            _ => None,
        }
    }

    /// Adds a frame of a delivery of at most `bytes_max` bytes. Settled on any frame means settled (part 2.7.5); Python
    /// repeats delivery-id and tag on each.
    pub(super) fn append(&mut self, transfer: Transfer, payload: &[u8], bytes_max: usize) {
        self.settled |= transfer.settled.unwrap_or_default();
        if let Some(state) = transfer.state.and_then(transaction_of) {
            self.state = Some(with_own_id(state));
        }
        if self.given_up.is_none() {
            self.make_room(payload.len(), bytes_max);
            self.payload.extend_from_slice(payload);
        }
    }

    /// Grows the buffer. Repeated doubling takes up to three times the memory of a large delivery, so from a certain
    /// size on the buffer gets its maximum size at once: pages that are not written take no memory.
    fn make_room(&mut self, more_bytes: usize, bytes_max: usize) {
        let len = self.payload.len();
        if len >= DOUBLED_BYTES_MAX && self.payload.capacity() - len < more_bytes {
            self.payload.reserve(bytes_max.saturating_sub(len).max(more_bytes));
        }
    }

    /// Payload bytes so far.
    pub(super) fn len(&self) -> usize {
        self.payload.len()
    }

    pub(super) fn complete(self) -> Complete {
        Complete {
            delivery_id: self.delivery_id,
            tag: self.tag,
            message_format: self.message_format,
            settled: self.settled,
            state: self.state,
            payload: self.payload.freeze(),
        }
    }
}

/// The part of a transfer's state that has an effect: the id of the transaction that the delivery belongs to (part
/// 4.4.1). Everything else can take forty times as much memory as on the wire, and is dropped.
fn transaction_of(mut state: Box<DeliveryState>) -> Option<Box<DeliveryState>> {
    let DeliveryState::Transactional { outcome, .. } = &mut *state else { return None };
    *outcome = None;
    Some(state)
}

fn with_own_id(mut state: Box<DeliveryState>) -> Box<DeliveryState> {
    if let DeliveryState::Transactional { txn_id, .. } = &mut *state {
        *txn_id = Bytes::copy_from_slice(txn_id);
    }
    state
}
