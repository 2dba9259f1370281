//! The store's port to its environment: tasks, timers and randomness.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

/// Runs the tasks of a store. Tests replace it to control the order of execution.
pub trait Environment: fmt::Debug + Send + Sync + 'static {
    /// Runs `task` until it ends.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// Resolves after `duration`.
    fn pause(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// A random number.
    fn draw(&self) -> u64;
}
