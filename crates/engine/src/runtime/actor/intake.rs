//! Intake of requests from the namespace and from front ends.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::limits::FEW_REQUESTS_MAX;
use super::{Actor, Control};
use crate::Command;
use crate::runtime::Request;

impl Actor {
    /// Whether a turn would begin with requests, but few. One that sends or settles many messages counts as many.
    pub(super) fn has_few_requests(&self) -> bool {
        let weight = |request: &Request| match &request.command {
            Command::SendEach { messages } => messages.len(),
            Command::Settle { tokens, .. } => tokens.len(),
            _ => 1,
        };
        let requests: usize = self.requests.iter().map(weight).sum();
        requests > 0 && requests + self.inbox.waiting() <= FEW_REQUESTS_MAX
    }

    /// Receives requests of the namespace; true if a turn has to process them.
    pub(super) fn poll_control(&mut self, context: &mut Context<'_>) -> bool {
        let mut work = false;
        while !self.stopping && !self.is_lost {
            match self.control.poll_recv(context) {
                Poll::Ready(Some(Control::ChangeOptions(options))) => {
                    // A state that is read back before the command is carried out starts with the new options.
                    self.owned.options = Arc::clone(&options);
                    self.internal.push_back(Command::ChangeOptions { options });
                    work = true;
                }
                Poll::Ready(Some(Control::Confirm(answer))) => {
                    self.confirmations.push(answer);
                    work = true;
                }
                Poll::Ready(Some(Control::CatchUp(requested))) => {
                    let was_due = self.is_due(requested.until);
                    self.catch_ups.push(requested, was_due);
                }
                Poll::Ready(Some(Control::CheckSetBack)) => work = true,
                Poll::Ready(Some(Control::Lose)) => self.is_lost = true,
                // A namespace dropped without `Stop` stops its actors as well.
                Poll::Ready(Some(Control::Stop) | None) => {
                    self.stopping = true;
                    self.inbox.close();
                }
                Poll::Pending => break,
            }
        }
        work
    }

    /// Receives requests, unless too much is on its way to the disk: then the next commit wakes the actor.
    pub(super) fn poll_requests(&mut self, context: &mut Context<'_>) -> bool {
        if !self.commits.has_room() {
            return false;
        }
        if !self.requests.is_empty() {
            return true;
        }
        if self.inbox_ended {
            return false;
        }
        // The turn receives further requests one by one, so that none is moved twice.
        match self.inbox.poll_next(context) {
            Poll::Ready(None) => {
                self.inbox_ended = true;
                false
            }
            Poll::Ready(Some(request)) => {
                self.requests.push(request);
                true
            }
            Poll::Pending => false,
        }
    }
}
