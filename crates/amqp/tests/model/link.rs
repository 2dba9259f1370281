//! Sessions and links as the client sees them.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::messages::{DeliveryNumber, Verdict};

pub(crate) struct Session {
    pub(crate) channel: u16,
    /// Whether our end is sent.
    pub(crate) is_ended: bool,
    pub(crate) next_incoming_id: Option<u32>,
    pub(crate) next_outgoing_id: u32,
    pub(crate) next_delivery_id: u32,
    /// Transfer frames that the broker may send, and may have been allowed to send when it sent what is under way.
    pub(crate) window: u32,
    pub(crate) window_max: u32,
    /// The delivery-id that the broker uses next.
    pub(crate) next_from_broker: Option<u32>,
    pub(crate) unsettled: BTreeMap<u32, Delivery>,
    pub(crate) sent: BTreeMap<u32, Sent>,
}

/// A delivery received and not settled.
pub(crate) struct Delivery {
    pub(crate) link: usize,
    pub(crate) message: u32,
    pub(crate) number: DeliveryNumber,
    /// Verdicts of ours that the broker has not answered, in order.
    pub(crate) verdicts: VecDeque<Expected>,
    /// The transaction in which it is settled.
    pub(crate) work: Option<usize>,
    /// Whether that transaction is committed.
    pub(crate) is_committed: bool,
}

impl Delivery {
    /// Whether it can be settled: an outcome in a transaction that was rolled back may still be unanswered.
    pub(crate) fn is_open(&self) -> bool {
        self.work.is_none() && self.verdicts.iter().all(|expected| expected.work.is_some())
    }
}

/// A verdict that the broker has not answered.
pub(crate) struct Expected {
    pub(crate) verdict: Verdict,
    /// Its transaction, which may have ended.
    pub(crate) work: Option<usize>,
    /// Whether the lock was valid: the broker's answer must agree.
    pub(crate) is_accepted: bool,
}

/// A delivery sent and not answered.
pub(crate) struct Sent {
    pub(crate) link: usize,
    /// Messages that are stored when it is answered.
    pub(crate) messages: Vec<u32>,
    pub(crate) is_valid: bool,
    pub(crate) purpose: Purpose,
}

/// What a delivery is for, with the number of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Message,
    /// A message in a transaction.
    Work(usize),
    Declare(usize),
    Discharge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The attach is not answered.
    Asked,
    Attached,
    /// Our detach is not answered.
    Detached,
    Gone,
}

pub(crate) struct Link {
    pub(crate) session: usize,
    pub(crate) name: String,
    pub(crate) handle: u32,
    pub(crate) is_answered: bool,
    pub(crate) their_handle: Option<u32>,
    pub(crate) phase: Phase,
    pub(crate) side: Side,
}

pub(crate) enum Side {
    Receives(Receives),
    Sends(Sends),
}

#[derive(Default)]
pub(crate) struct Receives {
    pub(crate) deletes: bool,
    pub(crate) delivery_count: u32,
    pub(crate) credit: u32,
    /// The most that the broker may have been allowed to send when it sent what is under way.
    pub(crate) credit_max: u32,
    /// Drains requested since the last rest, how many were answered, and whether the last one is to be answered.
    pub(crate) drains: u32,
    pub(crate) drains_answered: u32,
    pub(crate) is_draining: bool,
    pub(crate) partial: Option<Partial>,
}

pub(crate) struct Partial {
    pub(crate) delivery_id: u32,
    pub(crate) settled: bool,
    pub(crate) payload: BytesMut,
}

pub(crate) struct Sends {
    pub(crate) delivery_count: u32,
    pub(crate) credit: u32,
    /// Whether the broker ends the link, because of a settled message that is too large: later ones are ignored.
    pub(crate) is_doomed: bool,
    /// Whether it is a link to the coordinator.
    pub(crate) coordinates: bool,
    /// The rest of a delivery of which some frames are sent.
    pub(crate) partial: Option<Rest>,
}

pub(crate) struct Rest {
    pub(crate) payload: Bytes,
    pub(crate) delivery_id: u32,
    pub(crate) settled: bool,
    pub(crate) messages: Vec<u32>,
    pub(crate) is_valid: bool,
    /// The transaction it belongs to, with the number of the transaction.
    pub(crate) work: Option<(usize, Bytes)>,
}

impl Link {
    pub(crate) fn receives(&mut self) -> Option<&mut Receives> {
        match &mut self.side {
            Side::Receives(side) => Some(side),
            Side::Sends(_) => None,
        }
    }

    /// The state of a link on which we send messages.
    pub(crate) fn sends(&mut self) -> Option<&mut Sends> {
        match &mut self.side {
            Side::Sends(side) if !side.coordinates => Some(side),
            _ => None,
        }
    }

    /// The state of a link to the coordinator.
    pub(crate) fn coordinates(&mut self) -> Option<&mut Sends> {
        match &mut self.side {
            Side::Sends(side) if side.coordinates => Some(side),
            _ => None,
        }
    }

    /// Whether we may use it: attached, or asked for.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.phase, Phase::Asked | Phase::Attached)
    }
}

/// How far `to` is ahead of `from`; 0 when it is behind.
pub(crate) fn distance(from: u32, to: u32) -> u32 {
    let distance = to.wrapping_sub(from);
    if distance > u32::MAX / 2 { 0 } else { distance }
}
