//! A broker in memory behind its real driver.

use std::future::pending;
use std::sync::Arc;

use bytes::BytesMut;
use peeklock_access::Access;
use peeklock_amqp::endpoint::Config;
use peeklock_amqp::server::{Connections, ListenerOptions, Peer as PeerAddress};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus};
use peeklock_connections::Register;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::{Namespace, NamespaceOptions};
use peeklock_message::rule_properties;
use peeklock_storage::{MemoryStore, ShardId, Store};
use tokio::io::DuplexStream;

use super::clock::LateClock;

/// Bytes between client and broker, each way.
const PIPE_BYTES: usize = 64 * 1024;
/// The time at the start.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

pub(crate) struct Broker {
    store: MemoryStore,
    pub(crate) clock: LateClock,
    pub(crate) namespace: Namespace,
    pub(crate) register: Register,
    bus: ServiceBus,
}

impl Broker {
    pub(crate) async fn start() -> Self {
        Self::open(MemoryStore::new(), LateClock::new(Timestamp(START_MS))).await
    }

    /// Ends it, in order or not, and starts it with what it has stored.
    pub(crate) async fn restart(&mut self, in_order: bool) {
        if in_order {
            self.namespace.shutdown().await;
        }
        *self = Self::open(self.store.clone(), self.clock.clone()).await;
    }

    async fn open(store: MemoryStore, clock: LateClock) -> Self {
        let shard = store.acquire(ShardId(0)).await.expect("a shard");
        let options = NamespaceOptions {
            body_cache_bytes: 1 << 16,
            seed: Some(1),
            read_rule_properties: Some(rule_properties::read_rule_properties),
            series_max: 100,
            ..NamespaceOptions::default()
        };
        let namespace = Namespace::start(shard, Arc::new(clock.clone()), options).await.expect("a namespace");
        let register = Register::default();
        let config = DialectConfig { seed: Some(1), ..DialectConfig::default() };
        let bus = ServiceBus::new(Arc::new(namespace.clone()), Access::open(), config);
        let bus = bus.registered(register.clone());
        Self { store, clock, namespace, register, bus }
    }

    /// Opens a connection; returns the client's end.
    pub(crate) fn connect(&self) -> DuplexStream {
        let endpoint = Config { sasl_optional: true, idle_time_out_ms: None, ..Config::default() };
        let options = ListenerOptions { connections_max: 1, endpoint, grace_ms: 0 };
        let connections = Connections::new(Arc::new(self.bus.clone()), Arc::new(self.clock.clone()), options);
        let (socket, other) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(async move {
            connections.serve(other, BytesMut::new(), PeerAddress::default(), pending()).await;
        });
        socket
    }
}
