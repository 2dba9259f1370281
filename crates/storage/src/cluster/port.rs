//! What the store asks of its surroundings: tasks, pauses and randomness.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Runs the tasks of a store. A test steps them in an order of its own.
pub trait Surroundings: fmt::Debug + Send + Sync + 'static {
    /// Runs `task` until it ends.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Resolves after `duration`.
    fn pause(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// A random number.
    fn draw(&self) -> u64;
}
