//! The performatives of part 2.7, the terminus types of part 3.5, delivery states of part 3.4 and 4.5, SASL frames
//! of part 5.3, as plain data. Defaults are the specification's.

mod decode;
mod encode;
mod state;
mod terminus;

use bytes::Bytes;
use smallvec::SmallVec;

pub(crate) use decode::unknown;

use super::{Fields, Str, Value};

/// The tag of a delivery. One of at most 32 bytes (part 2.7.5) needs no allocation; the decoder accepts longer ones.
pub type Tag = SmallVec<[u8; 32]>;

/// The role of a link endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sends deliveries (wire value false).
    Sender,
    /// Receives deliveries (wire value true).
    Receiver,
}

/// How a sender settles (part 2.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub enum SenderSettleMode {
    Unsettled,
    Settled,
    #[default]
    Mixed,
}

/// How a receiver settles (part 2.8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReceiverSettleMode {
    /// Spontaneously.
    #[default]
    First,
    /// Only after the sender has settled.
    Second,
}

/// An error on the wire (part 2.8.14); always encoded with all three fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Error {
    /// A symbol such as `amqp:not-found`.
    pub condition: Str,
    /// A human-readable text.
    pub description: Option<Str>,
    /// Additional information.
    pub info: Fields,
}

#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Open {
    pub container_id: Str,
    pub hostname: Option<Str>,
    /// Default 4 294 967 295.
    pub max_frame_size: Option<u32>,
    /// Default 65 535.
    pub channel_max: Option<u16>,
    pub idle_time_out_ms: Option<u32>,
    pub offered_capabilities: Vec<Str>,
    pub desired_capabilities: Vec<Str>,
    pub properties: Fields,
}

#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Begin {
    pub remote_channel: Option<u16>,
    pub next_outgoing_id: u32,
    pub incoming_window: u32,
    pub outgoing_window: u32,
    /// Default 4 294 967 295.
    pub handle_max: Option<u32>,
    pub properties: Fields,
}

/// Source or target of messages (parts 3.5.3 and 3.5.4). Fields that are not interpreted are kept unchanged so that an
/// echo is exact.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Terminus {
    pub address: Option<Str>,
    pub durable: u32,
    pub expiry_policy: Option<Str>,
    pub timeout_s: u32,
    pub dynamic: bool,
    pub dynamic_node_properties: Fields,
    /// Source only.
    pub distribution_mode: Option<Str>,
    /// Source only; keys are symbols, values plain or described.
    pub filter: Fields,
    /// Source only.
    pub default_outcome: Value,
    /// Source only.
    pub outcomes: Vec<Str>,
    pub capabilities: Vec<Str>,
}

/// The target of a link.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A node.
    Node(Terminus),
    /// A transaction coordinator (part 4.5.1) with its capabilities.
    Coordinator(Vec<Str>),
}

#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Attach {
    pub name: Str,
    pub handle: u32,
    /// The role of the peer that sends the frame.
    pub role: Role,
    pub snd_settle_mode: SenderSettleMode,
    pub rcv_settle_mode: ReceiverSettleMode,
    pub source: Option<Terminus>,
    pub target: Option<Target>,
    /// Whether the map of unsettled deliveries is present: the link is resumed (part 2.7.3). Its entries are not kept.
    pub resumes: bool,
    pub initial_delivery_count: Option<u32>,
    pub max_message_size: Option<u64>,
    pub offered_capabilities: Vec<Str>,
    pub desired_capabilities: Vec<Str>,
    pub properties: Fields,
}

#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Flow {
    pub next_incoming_id: Option<u32>,
    pub incoming_window: u32,
    pub next_outgoing_id: u32,
    pub outgoing_window: u32,
    pub handle: Option<u32>,
    pub delivery_count: Option<u32>,
    pub link_credit: Option<u32>,
    pub available: Option<u32>,
    pub drain: bool,
    pub echo: bool,
    pub properties: Fields,
}

#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Transfer {
    pub handle: u32,
    pub delivery_id: Option<u32>,
    pub delivery_tag: Option<Tag>,
    pub message_format: Option<u32>,
    pub settled: Option<bool>,
    pub more: bool,
    pub rcv_settle_mode: Option<ReceiverSettleMode>,
    /// Rarely present (in transactions): boxed, so that a transfer without it is cheap to move.
    pub state: Option<Box<DeliveryState>>,
    pub resume: bool,
    pub aborted: bool,
    pub batchable: bool,
}

#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Disposition {
    /// The role of the peer that sends the frame.
    pub role: Role,
    pub first: u32,
    pub last: Option<u32>,
    pub settled: bool,
    pub state: Option<DeliveryState>,
    pub batchable: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is the specification's of that name
pub struct Detach {
    pub handle: u32,
    pub closed: bool,
    pub error: Option<Error>,
}

/// State of a delivery (parts 3.4 and 4.5).
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the specification's of that name
pub enum DeliveryState {
    Received {
        section_number: u32,
        section_offset: u64,
    },
    Accepted,
    Rejected(Option<Error>),
    Released,
    Modified {
        delivery_failed: bool,
        undeliverable_here: bool,
        message_annotations: Fields,
    },
    /// The coordinator's outcome for a declare, with the transaction id of at most 32 bytes.
    Declared {
        txn_id: Bytes,
    },
    /// A state in a transaction; `outcome` is never [`Self::Declared`] or [`Self::Transactional`].
    Transactional {
        txn_id: Bytes,
        outcome: Option<Box<DeliveryState>>,
    },
}

/// Any frame of an open connection.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the specification's of that name
pub enum Performative {
    Open(Open),
    Begin(Begin),
    Attach(Box<Attach>),
    Flow(Flow),
    Transfer(Transfer),
    Disposition(Disposition),
    Detach(Detach),
    End(Option<Error>),
    Close(Option<Error>),
}

/// SASL frames (part 5.3.3).
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is the specification's of that name
pub enum SaslFrame {
    /// Always written as an array: Python requires it.
    Mechanisms(Vec<Str>),
    Init {
        mechanism: Str,
        initial_response: Option<Bytes>,
        hostname: Option<Str>,
    },
    Challenge(Bytes),
    Response(Bytes),
    /// 0 ok, 1 auth, 2 sys, 3 sys-perm, 4 sys-temp.
    Outcome {
        code: u8,
        additional_data: Option<Bytes>,
    },
}
