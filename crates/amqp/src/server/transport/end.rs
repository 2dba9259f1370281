//! The end of a connection, from our side or the peer's.

use std::future::Future;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use super::super::application::Application;
use super::super::limits::WRITE_STALL_MS_MAX;
use super::super::linger::linger;
use super::{Transport, Woken};
use crate::endpoint::NowMs;
use crate::endpoint::condition::{self, error};
use crate::wire::performative::Error;

/// Resolves when the connection is to end from our side.
pub type StopSignal = Pin<Box<dyn Future<Output = Stop> + Send>>;

/// How a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// In order: the broker is shutting down.
    Close,
    /// At once, as if the socket had failed: the peer's access has ended.
    Cut,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The reason, the peer's or ours; `None` for an orderly close.
    pub error: Option<Error>,
    /// Whether the peer ended it.
    pub by_peer: bool,
}

impl<S, A> Transport<S, A>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    A: Application,
{
    /// Ends the connection if its socket or the stop signal says so.
    pub(super) fn take_end(&mut self, woken: Woken, now: NowMs) {
        let stalled =
            self.output.is_unfinished() && now.saturating_sub(self.last_write) >= WRITE_STALL_MS_MAX;
        if let Some(failure) = woken.failure {
            tracing::debug!(error = %failure, "socket failed");
            self.connection.handle_end_of_input();
        } else if woken.end_of_input || stalled {
            tracing::debug!(stalled, "socket closed by the peer, or not read from");
            self.connection.handle_end_of_input();
        } else if woken.stop == Some(Stop::Cut) {
            tracing::debug!("cut");
            self.cut = true;
            self.connection.handle_end_of_input();
        } else if woken.stop == Some(Stop::Close) {
            let reason = "the broker is shutting down";
            self.connection.close(Some(error(condition::CONNECTION_FORCED, reason)));
        }
    }

    /// Drops the application, and lets the peer read the last output.
    pub(super) async fn leave(self: Box<Self>) {
        let Self { socket, output, timer, application, mailbox, cut, mut memory, .. } = *self;
        drop((application, mailbox));
        memory.end(output.len());
        if !cut {
            linger(socket, output, timer).await;
        }
        memory.leave();
    }
}
