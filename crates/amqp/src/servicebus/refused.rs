//! SASL exchanges, and answers to failed authentication, which wait so that guessing is slow.

use std::collections::VecDeque;

use super::envelope::Answer;
use super::sasl::{self, Outcome};
use super::{Broker, Fault, ReplyTo};
use crate::endpoint::{Connection, NowMs};
use crate::server::Unanswered;

/// While an answer waits nothing more is read from the peer.
const STOP_READING: Unanswered =
    Unanswered { messages: usize::MAX, bytes: 0, answer_bytes: 0, kept_bytes: 0 };

/// A refused token: the response of `$cbs`, and where it goes.
type RefusedToken = Box<(ReplyTo, Result<Answer, Fault>)>;

/// Answers that wait.
#[derive(Default)]
pub(super) struct Late {
    /// When they are due, and the response of `$cbs`, or the outcome of SASL: no.
    due: VecDeque<(NowMs, Option<RefusedToken>)>,
    /// Of this turn.
    tokens: Vec<RefusedToken>,
}

impl Late {
    /// When the next answer is due.
    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.due.front().map(|(due, _)| *due)
    }

    /// Remembers a refused token until the end of the turn.
    pub(super) fn push(&mut self, reply_to: ReplyTo, result: Result<Answer, Fault>) {
        self.tokens.push(Box::new((reply_to, result)));
    }

    /// What the peer waits for: so much that it is not read from while an answer is delayed.
    pub(super) fn unanswered(&self, others: Unanswered) -> Unanswered {
        if self.due.is_empty() {
            others
        } else {
            Unanswered { kept_bytes: others.kept_bytes, ..STOP_READING }
        }
    }
}

impl Broker {
    /// Whether a SASL exchange lets the peer in.
    pub(super) fn authenticate(&mut self, mechanism: &str, initial_response: Option<&[u8]>) -> bool {
        let (access, certificate) = (self.authorization.access(), self.peer.certificate.as_deref());
        let exchange = (mechanism, initial_response);
        match sasl::outcome(access, self.config.plain_enabled, certificate, exchange) {
            Outcome::Anonymous => true,
            Outcome::Known(grant) => {
                tracing::debug!(mechanism, principal = &*grant.principal, "authenticated");
                self.authorization.identify(grant);
                self.vigil.is_due = true;
                true
            }
            Outcome::Refused => false,
        }
    }

    /// Counts a failure of this peer's address: when its answer is due, if not at once.
    fn failed(&self, now: NowMs) -> Option<NowMs> {
        let delay_ms = self.peer.address.map_or(0, |address| self.failures.delay_ms(address.ip(), now));
        (delay_ms > 0).then(|| now.saturating_add(delay_ms))
    }

    /// Refuses a SASL exchange, perhaps later.
    pub(super) fn refuse_sasl(&mut self, connection: &mut Connection, now: NowMs) {
        match self.failed(now) {
            Some(due) => self.late.due.push_back((due, None)),
            None => connection.sasl_outcome(false),
        }
    }

    /// Answers this turn's refused tokens, or says when they will be.
    pub(super) fn refuse_tokens(&mut self, connection: &mut Connection, now: NowMs) {
        for token in std::mem::take(&mut self.late.tokens) {
            match self.failed(now) {
                Some(due) => self.late.due.push_back((due, Some(token))),
                None => self.respond(&token.0, &token.1, connection),
            }
        }
    }

    /// Answers what is due.
    pub(super) fn answer_late(&mut self, connection: &mut Connection, now: NowMs) {
        while self.late.deadline().is_some_and(|due| due <= now) {
            match self.late.due.pop_front() {
                Some((_, None)) => connection.sasl_outcome(false),
                Some((_, Some(token))) => self.respond(&token.0, &token.1, connection),
                None => {}
            }
        }
    }
}
