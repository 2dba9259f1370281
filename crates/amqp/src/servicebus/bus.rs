//! State shared by all connections to one broker.

use std::sync::Arc;

use peeklock_access::{Access, Failures};
use peeklock_budget::throttle::Throttles;
use peeklock_connections::Register;
use peeklock_engine::runtime::Mailbox;

use super::{ConnectionHandler, DialectConfig, Entities};
use crate::RefusalMetrics;
use crate::server::{ApplicationFactory, Peer};

/// Creates the handlers of connections to one broker.
#[derive(Clone)]
pub struct ServiceBus {
    pub(super) entities: Arc<dyn Entities>,
    pub(super) access: Access,
    pub(super) config: Arc<DialectConfig>,
    pub(super) failures: Arc<Failures>,
    pub(super) throttles: Throttles,
    pub(super) register: Register,
    pub(super) metrics: RefusalMetrics,
}

impl ServiceBus {
    /// The dialect over these entities; `access` authorizes clients.
    #[must_use]
    pub fn new(entities: Arc<dyn Entities>, access: Access, config: DialectConfig) -> Self {
        let (config, failures, throttles) = (Arc::new(config), Arc::default(), Throttles::default());
        let (register, metrics) = (Register::default(), RefusalMetrics::default());
        Self { entities, access, config, failures, throttles, register, metrics }
    }

    /// Adds rate limits.
    #[must_use]
    pub fn throttled(self, throttles: Throttles) -> Self {
        Self { throttles, ..self }
    }

    /// Adds counters of refusals.
    #[must_use]
    pub fn counted(self, metrics: RefusalMetrics) -> Self {
        Self { metrics, ..self }
    }

    /// Adds a register in which connections are entered while they are open.
    #[must_use]
    pub fn registered(self, register: Register) -> Self {
        Self { register, ..self }
    }
}

impl ApplicationFactory for ServiceBus {
    type Application = ConnectionHandler;

    fn accept(&self, peer: &Peer, mailbox: Mailbox) -> ConnectionHandler {
        ConnectionHandler::new(self, peer.clone(), mailbox)
    }
}
