//! Reports to a waiting request that its client has gone.

use std::fmt;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::Extensions;

type PollEnd = dyn Fn(&mut Context<'_>) -> Poll<()> + Send + Sync;

/// Watches the connection of a request; an extension of the request. Optional.
#[derive(Clone)]
pub struct Departure(Arc<PollEnd>);

impl Departure {
    /// `poll` is ready once the client has closed the connection.
    pub fn new(poll: impl Fn(&mut Context<'_>) -> Poll<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(poll))
    }

    /// Resolves when the client has gone; never if nothing watches the connection.
    pub(crate) async fn wait(extensions: &Extensions) {
        match extensions.get::<Self>() {
            Some(Self(poll)) => poll_fn(|context| poll(context)).await,
            None => pending().await,
        }
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Departure").finish_non_exhaustive()
    }
}
