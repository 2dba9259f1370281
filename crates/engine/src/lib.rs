//! What a message may do: entities, messages, locks, timers; no protocol, no clock, no files.
//!
//! [`partition`] is pure: state, command, now, random → events, effects. [`runtime`] runs partitions as actors
//! over a storage shard and a clock.

mod command;
mod effect;
mod event;
mod ids;
mod message;
mod options;
pub mod partition;
pub mod runtime;

pub use command::{Command, CreditLimit, ReceiverOptions, Settlement};
pub use effect::{Effect, Reply, SettleFailure};
pub use event::{Change, Durability, Event, Removal};
pub use ids::{LockToken, ReceiveMode, ReceiverId, RequestId, SequenceNumber, SubQueue, Timestamp};
pub use message::{
    BodyRef, DeadLetter, Delivery, Lock, MessageState, MessageView, NewMessage, Properties, Property,
    Received,
};
pub use options::{QueueOptions, Refusal};
