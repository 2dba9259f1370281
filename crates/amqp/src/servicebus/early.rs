//! Management requests that arrive before the link for their responses: they wait for it for a short time.

use std::collections::VecDeque;

use super::errors::Fault;
use super::sending::Transfer;
use super::transactions::ManagementTarget;
use super::{ConnectionHandler, ReplyTo};
use crate::endpoint::{Connection, NowMs};

/// Maximum number of waiting requests per connection.
const REQUESTS_MAX: usize = 64;

/// Their maximum total size in bytes.
const BYTES_MAX: usize = 1024 * 1024;

/// How long each waits, in milliseconds: clients attach both links at once.
const WAIT_MS: NowMs = 5_000;

/// A request without a link for its response.
pub(super) struct EarlyRequest {
    pub(super) reply_to: ReplyTo,
    pub(super) target: ManagementTarget,
    pub(super) transfer: Transfer,
}

/// The waiting requests of one connection, oldest first, each with the end of its wait.
#[derive(Default)]
pub(super) struct EarlyRequests {
    waiting: VecDeque<(NowMs, EarlyRequest)>,
    bytes: usize,
}

impl EarlyRequests {
    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.waiting.front().map(|(due, _)| *due)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn take(&mut self) -> VecDeque<(NowMs, EarlyRequest)> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    fn push(&mut self, due: NowMs, request: EarlyRequest) {
        self.bytes += request.transfer.payload.len();
        self.waiting.push_back((due, request));
    }

    fn pop_due(&mut self, now: NowMs) -> Option<EarlyRequest> {
        self.waiting.front().filter(|(due, _)| *due <= now)?;
        let (_, request) = self.waiting.pop_front()?;
        self.bytes -= request.transfer.payload.len();
        Some(request)
    }
}

impl ConnectionHandler {
    /// Keeps a request until the link for its response is attached.
    ///
    /// # Errors
    /// If too many wait: the request is refused at once.
    pub(super) fn keep_early(&mut self, request: EarlyRequest) -> Result<(), Fault> {
        let bytes = request.transfer.payload.len();
        if self.early.waiting.len() >= REQUESTS_MAX || self.early.bytes + bytes > BYTES_MAX {
            return Err(no_response_link());
        }
        if request.transfer.delivery.is_none() {
            self.request_started(bytes);
        }
        self.transactions.work_kept(request.transfer.txn_id());
        self.early.push(self.now.saturating_add(WAIT_MS), request);
        Ok(())
    }

    /// Carries out the requests whose link has been attached.
    pub(super) fn carry_out_early(&mut self, connection: &mut Connection) {
        for (due, request) in self.early.take() {
            if self.response_link(&request.reply_to).is_none() {
                self.early.push(due, request);
                continue;
            }
            let EarlyRequest { reply_to, target, transfer } = request;
            self.forget_early(&transfer);
            let result = self.management_request(reply_to.session, &target, &transfer, connection);
            if let Err(fault) = result {
                self.refuse(&transfer, &fault, connection);
            }
        }
    }

    /// Refuses requests that have waited too long.
    pub(super) fn refuse_early(&mut self, connection: &mut Connection, now: NowMs) {
        while let Some(EarlyRequest { reply_to, transfer, .. }) = self.early.pop_due(now) {
            tracing::debug!(node = %reply_to.node, "a request was refused: no link to respond on");
            self.forget_early(&transfer);
            self.refuse(&transfer, &no_response_link(), connection);
        }
    }

    fn forget_early(&mut self, transfer: &Transfer) {
        self.transactions.kept_work_taken(transfer.txn_id());
        if transfer.delivery.is_none() {
            self.request_finished(transfer.payload.len());
        }
    }
}

fn no_response_link() -> Fault {
    Fault::NotAllowed(
        "A request needs a link for its response: attach a receiver to the same node on the same session.",
    )
}
