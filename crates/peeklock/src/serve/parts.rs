//! Creates the parts of a term from the configuration.

use std::sync::Arc;

use peeklock_access::Access;
use peeklock_admin::{Admin, Limits as AdminLimits};
use peeklock_amqp::server::{Connections, ListenerOptions};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus};
use peeklock_budget::throttle::Throttles;
use peeklock_connections::Register;
use peeklock_console::{About, Console, DiskBytes};
use peeklock_engine::runtime::{ElapsedClock, Namespace, NamespaceOptions, ReadRuleProperties};
use peeklock_storage::StorageBytes;

use super::descriptors::Room;
use super::development::TimeTravel;
use super::memory::{Memory, measure};
use super::metrics::Monitoring;
use crate::config::{AuthorizationConfig, Config};
use crate::logging::LogControl;

/// The server of AMQP.
pub(super) fn amqp_connections(
    bus: ServiceBus,
    namespace: &Namespace,
    config: &Config,
    memory: Memory,
    room: Room,
) -> Connections<ServiceBus> {
    let connections = Connections::new(
        Arc::new(bus),
        // A clock that is never corrected or moved: a jump of an hour must not look like an hour of silence of every
        // client.
        Arc::new(ElapsedClock::default()),
        // Unauthenticated connections are limited in addition, so that any number of them leaves room for authenticated
        // ones.
        listener_options(config, memory, room.connections_max.saturating_add(room.unauthenticated_max)),
    );
    connections.within(namespace.budget().clone())
}

pub(super) fn namespace_options(config: &Config, memory: Memory) -> NamespaceOptions {
    let body_cache_bytes = usize::try_from(config.storage.body_cache_bytes).unwrap_or(usize::MAX);
    let read_rule_properties =
        Some(peeklock_message::rule_properties::read_rule_properties as ReadRuleProperties);
    let rule_limits = config.limits.rules;
    let budget = memory.budget();
    let entities_max = usize::try_from(config.limits.entities_max).ok();
    NamespaceOptions {
        body_cache_bytes,
        read_rule_properties,
        rule_limits,
        budget,
        entities_max,
        when_restored: Some(|budget| {
            measure(budget);
        }),
        series_max: usize::try_from(config.metrics.entities_max).unwrap_or(usize::MAX),
        ..NamespaceOptions::default()
    }
}

pub(super) fn admin(
    namespace: &Namespace,
    access: &Access,
    throttles: Throttles,
    config: &Config,
    (store, memory): (peeklock_storage::Limits, Memory),
) -> Admin {
    let admin = Admin::new(namespace.clone(), access.clone(), admin_limits(config, store, memory));
    admin.named(config.namespace.name.as_deref()).throttled(throttles)
}

/// The HTTP server, once there are entities.
pub(super) fn administer(
    admin: Admin,
    travel: Option<&TimeTravel>,
    log: &LogControl,
    register: Register,
    bytes: Box<dyn Fn() -> Option<StorageBytes> + Send + Sync>,
) -> axum::Router {
    let about = About { version: env!("CARGO_PKG_VERSION") };
    let console = Console::new(admin.clone(), about)
        .moving(travel.map(TimeTravel::mover))
        .logging(log.ring())
        .watching(register)
        .stored_on(Arc::new(move || bytes().map(disk_bytes)));
    console.router().fallback_service(admin.router())
}

const fn disk_bytes(bytes: StorageBytes) -> DiskBytes {
    let StorageBytes { live, dead, allocated, free } = bytes;
    DiskBytes { live, dead, allocated, free }
}

/// The limits for entities created at run time: those for declared ones.
fn admin_limits(config: &Config, store: peeklock_storage::Limits, memory: Memory) -> AdminLimits {
    let store_bytes = store.value_bytes_max.min(store.batch_bytes_max) as u64;
    AdminLimits {
        auto_delete_on_idle_min_ms: config.limits.auto_delete_on_idle_min_ms,
        message_time_to_live_max_ms: config.limits.message_time_to_live_max_ms,
        message_size_max_bytes: store_bytes.min(memory.reassembly_bytes_max),
        tier: config.namespace.tier,
    }
}

pub(super) fn service_bus(
    namespace: &Namespace,
    access: &Access,
    config: &Config,
    throttles: &Throttles,
    monitoring: &Monitoring,
) -> ServiceBus {
    let AuthorizationConfig { plain_enabled, time_out_ms, .. } = config.authorization;
    let transactions = config.transactions.clone();
    let mut dialect = DialectConfig {
        plain_enabled,
        authorization_time_out_ms: time_out_ms,
        transactions,
        idle: config.amqp.idle,
        tier: config.namespace.tier,
        ..DialectConfig::default()
    };
    if let Some(name) = &config.namespace.name {
        dialect.namespace.clone_from(name);
    }
    let bus = ServiceBus::new(Arc::new(namespace.clone()), access.clone(), dialect);
    bus.throttled(throttles.clone()).counted(monitoring.refusals.clone())
}

fn listener_options(config: &Config, memory: Memory, connections_max: u64) -> ListenerOptions {
    ListenerOptions {
        connections_max: usize::try_from(connections_max).unwrap_or(usize::MAX),
        endpoint: config.amqp.endpoint(&config.authorization, memory.reassembly_bytes_max),
        grace_ms: config.amqp.drain_time_out_ms,
    }
}
