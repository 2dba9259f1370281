//! Runs partitions as actors over a storage shard and a clock; defines the ports for time and randomness.
//!
//! - [`Namespace`] finds and declares entities: `directory` finds them by name, and the `host` of each shard is a failure
//!   scope of its own. Only `catalogue` changes entities (`deletion` removes them); `record` is their form on disk,
//!   `restore` reads partitions back, `entity` is one entity in use.
//! - `administration` has the operations of administrators: create, change, delete, describe; `changes` notifies tasks that
//!   depend on options.
//! - `subscriptions` is a topic's directory, kept by its actor; `topics` has the front ends' queries about it.
//! - `clients` creates entities for clients that attach: temporary entities, subscriptions of clients for JMS.
//! - `actor` runs one partition: turns, commits under way, outgoing deliveries and bodies.
//! - `joint` changes several partitions together: transactions, forwarding.
//! - `forwarder` is the task that moves messages from one entity to another.
//! - [`Mailbox`] and [`PartitionHandle`] connect front ends and actors; they carry [`Parcels`].
//! - [`Tenure`] is the port to the holder of the shard's lease.
//! - [`Spans`] is the port to distributed tracing.
//! - [`Clock`] and `random` are the ports for time and randomness; `catch_up` handles time that is moved forward,
//!   `host::set_back` a backward correction; `body_cache` keeps recent bodies.

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
mod long_work;
mod mailbox;
mod namespace;
mod parcels;
mod partition_handle;
mod random;
mod restore;
mod retry_backoff;
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
pub use mailbox::{Account, Mailbox, MailboxReceiver, Output, Request, Response, TaggedCommand};
pub use namespace::{Namespace, NamespaceOptions};
pub use parcels::{Addressee, Parcels};
pub use partition_handle::{PartitionHandle, Requests};
pub use peeklock_storage::Error as StorageError;
pub use spans::{Disposition, Operation, Span, Spans, Trace};
pub use start_error::StartError;
pub use tenure::Tenure;
