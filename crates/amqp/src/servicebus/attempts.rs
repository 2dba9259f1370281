//! Authentication attempts: SASL exchanges and tokens. After failures, the result of an attempt is delayed, so that
//! guessing is slow.

use std::collections::VecDeque;

use peeklock_access::{Attempts, Grant};

use super::authorization::Verified;
use super::envelope::Answer;
use super::sasl::{self, Outcome};
use super::{ConnectionHandler, Fault, ReplyTo};
use crate::endpoint::{Connection, NowMs};
use crate::server::Unanswered;
use crate::wire::Value;

/// The result of an attempt.
enum Attempt {
    /// A SASL exchange with the peer's identity.
    Sasl(Result<Option<Grant>, ()>),
    /// A token put to `$cbs`.
    Token(Box<TokenAttempt>),
}

/// A token put to `$cbs`.
struct TokenAttempt {
    /// The destination of the response.
    reply_to: ReplyTo,
    result: Result<Verified, Fault>,
    /// The error returned instead of success although the token is valid, because its entity does not exist.
    missing: Option<Fault>,
}

/// Delayed attempts, and the failures of the connection.
#[derive(Default)]
pub(super) struct PendingAttempts {
    failures: Attempts,
    due: VecDeque<(NowMs, Attempt)>,
}

impl PendingAttempts {
    /// When the next attempt is concluded.
    pub(super) fn deadline(&self) -> Option<NowMs> {
        self.due.front().map(|(due, _)| *due)
    }

    /// The outstanding requests: while an attempt is delayed, so many that nothing more is read from the peer.
    pub(super) fn unanswered(&self, others: Unanswered) -> Unanswered {
        if self.due.is_empty() { others } else { Unanswered { messages: usize::MAX, ..others } }
    }
}

impl ConnectionHandler {
    /// Handles a SASL exchange.
    pub(super) fn authenticate(
        &mut self,
        mechanism: &str,
        initial_response: Option<&[u8]>,
        connection: &mut Connection,
    ) {
        let (access, certificate) = (self.authorization.access(), self.peer.certificate.as_deref());
        let exchange = (mechanism, initial_response);
        let outcome = match sasl::outcome(access, self.config.plain_enabled, certificate, exchange) {
            Outcome::Anonymous => return connection.sasl_outcome(true),
            Outcome::Known(grant) => {
                tracing::debug!(mechanism, principal = &*grant.principal, "authenticated");
                Ok(Some(grant))
            }
            Outcome::Refused => Err(()),
        };
        let has_failed = outcome.is_err();
        self.attempt(Attempt::Sasl(outcome), has_failed, connection);
    }

    /// Handles a token, valid or not; `missing` is the answer to a valid one whose entity does not exist.
    pub(super) fn handle_token(
        &mut self,
        reply_to: ReplyTo,
        result: Result<Verified, Fault>,
        missing: Option<Fault>,
        connection: &mut Connection,
    ) {
        let has_failed = matches!(&result, Err(Fault::Denied(denied)) if denied.may_be_guess());
        let attempt = Attempt::Token(Box::new(TokenAttempt { reply_to, result, missing }));
        self.attempt(attempt, has_failed, connection);
    }

    /// Concludes an attempt, after a delay if earlier attempts from the peer's address failed.
    fn attempt(&mut self, attempt: Attempt, has_failed: bool, connection: &mut Connection) {
        let (now, mut wait_ms) = (self.now, 0);
        if let Some(address) = self.peer.address {
            let is_authenticated = !self.authorization.is_unauthenticated();
            wait_ms = self.attempts.failures.wait_ms(&self.failures, address.ip(), is_authenticated, now);
            if has_failed {
                self.attempts.failures.failed(&self.failures, address.ip(), now);
            }
        }
        match wait_ms {
            0 => self.conclude_attempt(attempt, connection),
            _ => {
                let due = now.saturating_add(wait_ms);
                let before = self.attempts.due.back().map_or(now, |(before, _)| *before);
                self.revocation.extend(due.saturating_sub(before));
                self.attempts.due.push_back((due, attempt));
            }
        }
    }

    /// Concludes attempts whose delay has passed.
    pub(super) fn conclude_due_attempts(&mut self, connection: &mut Connection, now: NowMs) {
        while self.attempts.deadline().is_some_and(|due| due <= now) {
            if let Some((_, attempt)) = self.attempts.due.pop_front() {
                self.conclude_attempt(attempt, connection);
            }
        }
    }

    /// The peer's identity, unless its basis has ended while the attempt was delayed.
    fn confirmed(&self, grant: Option<Grant>) -> Result<Option<Grant>, ()> {
        let is_valid = |grant: &Grant| self.authorization.access().confirm(grant).is_ok();
        if grant.as_ref().is_none_or(is_valid) { Ok(grant) } else { Err(()) }
    }

    fn conclude_attempt(&mut self, attempt: Attempt, connection: &mut Connection) {
        self.revocation.is_due = true;
        match attempt {
            Attempt::Sasl(outcome) => {
                let outcome = outcome.and_then(|grant| self.confirmed(grant));
                connection.sasl_outcome(outcome.is_ok());
                if let Ok(Some(grant)) = outcome {
                    self.authorization.identify(grant);
                }
            }
            Attempt::Token(token) => {
                let TokenAttempt { reply_to, result, missing } = *token;
                let answer = result.and_then(|verified| {
                    // Kept although its entity is missing: the peer has authenticated.
                    self.authorization.keep(verified)?;
                    // The status that every SDK accepts.
                    let accepted = Answer { status: 202, condition: None, body: Value::Null };
                    missing.map_or(Ok(accepted), Err)
                });
                self.respond(&reply_to, &answer, connection);
                self.attach_awaited(connection);
            }
        }
    }
}
