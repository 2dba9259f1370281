//! Partitions as actors over a storage shard and a clock; the ports for time and randomness.
//!
//! - [`Namespace`] finds and declares entities: a `directory` of them, and the `host` of each shard, which is a failure scope of
//!   its own. `catalogue` alone changes them (its `deletion` when they end), `record` is their form on disk, `restore` reads
//!   partitions back, `entity` is one of them in use.
//! - `administration` is what administrators ask: create, change, delete, describe; `changes` tells
//!   those who hang on it.
//! - `subscriptions` is a topic's directory, kept by its actor; `topics` is what front ends ask about it.
//! - `clients` is what clients create by attaching: temporary entities, subscriptions of clients for JMS.
//! - `actor` runs one partition: turns, commits under way, deliveries and contents on their way out.
//! - `joint` is how several partitions change together: transactions, forwarding.
//! - `forwarder` is the task that takes messages from one entity to another.
//! - [`Mailbox`] and [`PartitionHandle`] are how front ends talk to it, in [`Parcels`].
//! - [`Tenure`] is the port to whoever holds the lease of the shard.
//! - [`Spans`] is the port to whoever takes part in traces.
//! - [`Clock`] and `random` are the ports; `catch_up` is what follows when time is moved, `host::set_back` when it was
//!   corrected; `body_cache` keeps recent contents.

mod accessed;
mod actor;
mod administration;
mod answer;
mod body_cache;
mod catalogue;
mod catch_up;
mod change_error;
mod changes;
mod clients;
mod clock;
mod damage;
mod directory;
mod entity;
mod figures;
mod forwarder;
mod growth;
mod host;
pub mod inspect;
mod joint;
mod mailbox;
mod namespace;
mod parcels;
mod partition_handle;
mod patience;
mod random;
mod restore;
mod spans;
mod start_error;
mod subscriptions;
mod tenure;
mod topics;

pub use crate::layout::is_entity;
pub use administration::{EntityDescription, EntityKind, SubscriptionDescription, Sums, TreeNode};
pub use change_error::ChangeError;
pub use clients::{ClientSubscription, SubscriberHold, Temporary, TemporaryHold};
pub use clock::{
    Clock, ElapsedClock, Machine, ManualClock, ScriptedMachine, SetBack, SetBacks, SystemClock, TooFarAhead,
    Travel, TravelClock,
};
pub use damage::Damage;
pub use entity::{EntityRef, SubscriptionRef};
pub use figures::NamespaceFigures;
pub use forwarder::ReadRuleProperties;
pub use growth::Shortage;
pub use host::LostShard;
pub use joint::Transaction;
pub use mailbox::{Account, Asked, Mailbox, MailboxReceiver, Output, Request, Response};
pub use namespace::{Namespace, NamespaceOptions};
pub use parcels::{Addressee, Parcels};
pub use partition_handle::{PartitionHandle, Requests};
pub use peeklock_storage::Error as StorageError;
pub use spans::{Disposition, Operation, Span, Spans, Trace};
pub use start_error::StartError;
pub use tenure::Tenure;
