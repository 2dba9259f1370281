//! Tasks, pauses and randomness for a store on a tokio runtime.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use peeklock_storage::cluster::Environment;

/// Tasks and timers of the tokio runtime that the store is used in, and the system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioEnvironment;

impl Environment for TokioEnvironment {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        tokio::spawn(task);
    }

    fn pause(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }

    fn draw(&self) -> u64 {
        rand::random()
    }
}
