//! Partitions as actors over a storage shard and a clock; the doors for time and randomness.

mod clock;
mod mailbox;
mod namespace;

pub use clock::{Clock, SystemClock};
pub use mailbox::{Mailbox, MailboxReceiver, Output, PartitionHandle, Request, Response};
pub use namespace::{Namespace, NamespaceOptions, StartError};
