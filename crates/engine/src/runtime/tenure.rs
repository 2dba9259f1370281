//! The port to the holder of the shard's lease: says whether output is allowed now.
//!
//! Stored data is safe without it, since the store accepts writes of the owner only. But deliveries, locks and reads are
//! decided from memory, and a process that was paused may act on it although another owner has the shard by now.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// The right to send output for a shard. It may be away for a while and return; the loss of the shard is reported by the
/// store.
pub trait Tenure: Debug + Send + Sync {
    /// Whether output is allowed now. Called in every turn of every actor, so it must be cheap.
    fn holds(&self) -> bool;

    /// Whether messages may be delivered. Once false, it stays false: the shard is about to be handed to another owner, and
    /// clients may still settle the messages they have. Undelivered messages are delivered by the next owner; their
    /// delivery count is unchanged.
    fn delivers(&self) -> bool {
        true
    }

    /// Resolves when output is allowed.
    fn returns(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
