//! The door for time.

use std::future::Future;
use std::pin::Pin;

use crate::Timestamp;

/// Where the broker's time comes from. It never goes back.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;

    /// Resolves at or after `deadline`.
    fn sleep_until(&self, deadline: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's wall clock, kept from going back.
#[derive(Debug, Default)]
pub struct SystemClock {}
