//! Partitions as actors over a storage shard and a clock; the doors for time and randomness.

mod actor;
mod answer;
mod body_cache;
mod catalogue;
mod clock;
mod entity;
mod fatal;
mod mailbox;
mod names;
mod namespace;
mod random;
mod record;
mod restore;

pub use clock::{Clock, ManualClock, SystemClock};
pub use mailbox::{Mailbox, MailboxReceiver, Output, PartitionHandle, Request, Response};
pub use namespace::{Namespace, NamespaceOptions, StartError};
