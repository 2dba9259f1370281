//! Whether anything may be handed out now: the port to whoever holds the lease of the shard.
//!
//! What is stored is safe without it, since the store takes writes of the owner only. But deliveries, locks and what is read
//! rest on memory, which goes on when its owner was stopped for a while and another has the shard by now.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// The right to hand out what a shard holds. It may be away for a while and return; when the shard is lost, the store says so.
pub trait Tenure: Debug + Send + Sync {
    /// Whether anything may be handed out at this moment. Asked in every turn of every actor: it must be cheap.
    fn holds(&self) -> bool;

    /// Whether messages may be delivered. Once it is false it stays so: the shard is about to be given away, and clients may still settle
    /// what they have. What is not delivered then goes to the next owner, uncounted.
    fn delivers(&self) -> bool {
        true
    }

    /// Resolves when anything may be handed out.
    fn returns(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
