//! Changes of rules are administrative: each is logged for the audit, whether made or refused.

use std::net::SocketAddr;

use super::{Arguments, Finish, Operation, Prepared};
use crate::servicebus::authorization::Authorization;
use crate::servicebus::entities::Entity;
use crate::servicebus::errors::Fault;
use crate::wire::loggable;

/// A requested change.
pub(crate) struct Change {
    operation: &'static str,
    entity: String,
    /// The peer's principal; `None` if it has no valid credential for the entity.
    principal: Option<Box<str>>,
    peer: Option<SocketAddr>,
}

impl Change {
    /// The change that a request would make, and its principal; `None` if it only reads.
    pub(crate) fn asked(
        operation: Operation,
        entity: &Entity,
        authorization: &Authorization,
        peer: Option<SocketAddr>,
    ) -> Option<Self> {
        let name = operation.change()?;
        let principal = authorization.principal(&entity.resource, operation.right()).map(Box::from);
        Some(Self { operation: name, entity: entity.address.key(), principal, peer })
    }

    /// Sets the rule's name, if the request gives it.
    pub(crate) fn set_rule(&mut self, arguments: &Arguments) {
        if let Ok(Some(rule)) = arguments.text("rule-name") {
            self.entity = format!("{}/rules/{rule}", self.entity);
        }
    }

    /// Logs the outcome: at once if the change was refused, otherwise when the engine has answered.
    pub(crate) fn follow(self, prepared: Result<Prepared, Fault>) -> Result<Prepared, Fault> {
        let Prepared { command, finish, answer_bytes } =
            prepared.inspect_err(|fault| self.note(&fault.to_string()))?;
        let finish: Finish = Box::new(move |response, encoder| {
            let answer = finish(response, encoder);
            self.note(&answer.as_ref().map_or_else(ToString::to_string, |_| "ok".to_owned()));
            answer
        });
        Ok(Prepared { command, finish, answer_bytes })
    }

    /// Logs an administrative change under its own target; the process decides where such events are stored.
    fn note(&self, outcome: &str) {
        let Self { operation, .. } = self;
        let (entity, outcome) = (&*loggable(&self.entity), &*loggable(outcome));
        let (principal, peer) =
            (self.principal.as_deref().map(loggable), self.peer.map(tracing::field::display));
        tracing::info!(target: "peeklock::audit", protocol = "amqp", principal = principal.as_deref(), peer, operation, entity, outcome);
    }
}
