//! `peeklock serve`: joins store, engine and front ends, and takes them apart again in order.
//!
//! Starting: bind all addresses (a taken port is reported before anything is touched), answer 503 on `/health`, open
//! the store, read or make certificates, restore and declare entities, serve AMQP, answer 200. Stopping: answer 503, serve
//! no new AMQP connections, let connections finish, stop the partitions, close the store.

mod access;
mod dead_letters;
mod descriptors;
mod development;
mod emulator;
mod entities;
mod error;
mod front_ends;
mod health;
mod http;
mod memory;
mod metrics;
mod network;
mod openid;
mod pages;
mod patient;
mod ready;
mod reload;
mod routes;
mod signals;
mod store;
mod subscriptions;
mod supervisor;
#[cfg(feature = "otlp")]
mod telemetry;
#[cfg(not(feature = "otlp"))]
#[path = "telemetry_absent.rs"]
mod telemetry;

use std::sync::Arc;
use std::time::Duration;

use peeklock_access::Access;
use peeklock_admin::{Admin, Limits as AdminLimits};
use peeklock_amqp::server::{Connections, ListenerOptions};
use peeklock_amqp::servicebus::{DialectConfig, ServiceBus};
use peeklock_budget::throttle::Throttles;
use peeklock_connections::Register;
use peeklock_console::{About, Console, DiskBytes};
use peeklock_engine::runtime::{
    Clock, ElapsedClock, LostShard, Namespace, NamespaceOptions, ReadRuleProperties, SystemClock,
};
use peeklock_storage::{StorageBytes, StorageFigures};
use tokio::task::JoinHandle;

use crate::audit::AuditControl;
use crate::config::{AuthorizationConfig, Config, ServeArgs};
use crate::exit::Exit;
use crate::logging::{self, LogControl};
use descriptors::Room;
use development::TimeTravel;
use error::ServeError;
use health::{Health, State};
use memory::Memory;
use metrics::{Monitoring, Readers};
use network::{Listening, Network};
use ready::{Addresses, ReadyFile};
use reload::Reload;
use routes::{Administration, MetricsPage, Offered};
use signals::Signals;
pub(crate) use store::local_options;
use store::{OpenStore, Shards};
use telemetry::Telemetry;

/// Serves until a signal, or until nothing can be served any more. `args` is what the configuration was resolved from, and is again on SIGHUP.
pub(crate) fn run(config: Config, args: ServeArgs) -> Exit {
    let opened = AuditControl::open(&config.audit);
    let audit = opened.as_ref().cloned().unwrap_or_default();
    let log = logging::start(&config.log_filter, config.log_format, &audit);
    let control = audit.clone();
    let outcome = opened.map_err(ServeError::Audit).and_then(|_| run_runtime(config, args, log, control));
    audit.flush();
    match outcome {
        Ok(()) => {
            tracing::info!("stopped");
            Exit::Success
        }
        Err(error) => {
            tracing::error!("{error}");
            error.exit()
        }
    }
}

fn run_runtime(
    config: Config,
    args: ServeArgs,
    log: LogControl,
    audit: AuditControl,
) -> Result<(), ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("peeklock")
        .build()
        .map_err(ServeError::System)
        .and_then(|runtime| runtime.block_on(serve(config, args, log, audit)))
}

async fn serve(
    config: Config,
    args: ServeArgs,
    log: LogControl,
    audit: AuditControl,
) -> Result<(), ServeError> {
    log.report_left_out();
    emulator::explain(&config);
    supervisor::starting();
    let (mut signals, hangup) = Signals::install().map_err(ServeError::System)?;
    clear_ready_file(&config)?;
    let room = Room::within_limits(config.amqp.connections_max, config.network.unauthenticated_max);
    let listening = Listening::bind(&config).await?;
    let health = Health::default();
    let memory = Memory::of(&config)?;
    // The one clock of all that decides.
    let time = SystemClock::new();
    let travel = config.development.time_travel.then(|| TimeTravel::over(time.clone()));
    let administration = Administration::default();
    let page = MetricsPage::new(Monitoring::start(&health, &audit), Readers::new(config.metrics.clone()));
    let monitoring = page.monitoring.clone();
    let telemetry = Telemetry::start(&config.telemetry, &monitoring.registry).await?;
    let offered = Offered { metrics: page.clone(), has_console: config.console.is_enabled };
    let router = routes::router(health.clone(), travel.clone(), Arc::clone(&administration), offered);
    let mut network = Network::start(listening, router, &config, room, &monitoring);

    let store = OpenStore::open(&config, &Shards::of(&config)?).await?;
    let limits = store.lease.limits();
    let clock = entity_clock(travel.as_ref(), &time);
    let options = NamespaceOptions { spans: telemetry.spans(), ..namespace_options(&config, memory) };
    let namespace = Namespace::start(store.lease.clone(), clock, options).await?;
    entities::declare(&namespace, &config, limits).await?;
    // Whatever the store says of the time is known by now.
    let following = tokio::spawn(time.clone().keep_up());
    let tls = network.secure(&config, &time)?;
    let access = access::start(&namespace, &config.authorization, time);
    page.show(&store, &access, &namespace);
    let throttles = Throttles::new(config.rates.clone());
    let register = Register::new(access.now().0);
    let bus = service_bus(&namespace, &access, &config, &throttles, &monitoring).registered(register.clone());
    let connections = amqp_connections(bus, &namespace, &config, memory, room);
    let admin = admin(&namespace, &access, throttles, &config, (limits, memory));
    // Nobody else sets it.
    let _ = administration.set(administer(admin, travel.as_ref(), &log, register, store.figures()));
    let control = store.control(&config);
    network.serve_amqp(connections);
    let ready_file = announce(&config, network.addresses(), &namespace)?;
    if let Some(damage) = store.scrub_damage() {
        health.set_scrub_damage(damage);
    }
    set_ready(&health, travel.as_ref(), Some(&namespace));
    let watchdog = supervised(&namespace, &store);
    emulator::greet(&config);
    let grace = Duration::from_millis(config.amqp.drain_time_out_ms);
    let (pages, entities) = (network.pages(), namespace.clone());
    let reload =
        Reload { args, config, namespace: entities, access, limits, log, audit, tls, pages, monitoring };
    let reloading = tokio::spawn(reload.run(hangup));
    let reporting = tokio::spawn(dead_letters::report(namespace.clone()));
    tokio::select! {
        () = signals.stop() => {}
        lost = namespace.shard_lost() => return Err(exit_without(lost)),
        ended = network.ended() => return Err(ServeError::listener_ended(ended)),
    }
    drop(ready_file);
    supervisor::stopping("clients may finish");
    set_ready(&health, travel.as_ref(), None);
    end(reloading).await;
    end(reporting).await;
    end(following).await;
    tokio::select! {
        () = drain(network, grace, &namespace) => {}
        lost = namespace.shard_lost() => return Err(exit_without(lost)),
    }
    drop((namespace, control));
    telemetry.finish().await;
    if let Some(watchdog) = watchdog {
        end(watchdog).await;
    }
    store.close().await
}

/// Reports readiness to the service manager, and from now on that the store answers.
fn supervised(namespace: &Namespace, store: &OpenStore) -> Option<JoinHandle<()>> {
    let (queues, topics) = entities::count(namespace);
    supervisor::ready(queues, topics);
    supervisor::keep_alive(store.lease.clone())
}

/// What serves AMQP.
fn amqp_connections(
    bus: ServiceBus,
    namespace: &Namespace,
    config: &Config,
    memory: Memory,
    room: Room,
) -> Connections<ServiceBus> {
    let connections = Connections::new(
        Arc::new(bus),
        // Nothing corrects or moves it: an hour's jump must not look like an hour's silence of every client.
        Arc::new(ElapsedClock::default()),
        // Unauthenticated connections are limited beside, so that authenticated ones find a place however many there are.
        listener_options(config, memory, room.connections_max.saturating_add(room.unauthenticated_max)),
    );
    connections.within(namespace.budget().clone())
}

/// What messages live by.
fn entity_clock(travel: Option<&TimeTravel>, time: &SystemClock) -> Arc<dyn Clock> {
    let Some(travel) = travel else { return Arc::new(time.clone()) };
    tracing::warn!(
        "TIME TRAVEL IS ON: whoever reaches HTTP can move the broker's clock forward and let every message expire; \
         never use this broker for messages that matter"
    );
    Arc::new(travel.clock())
}

/// Connections are accepted from now on, or not any more.
fn set_ready(health: &Health, travel: Option<&TimeTravel>, namespace: Option<&Namespace>) {
    if let Some(travel) = travel {
        travel.set_namespace(namespace.cloned());
    }
    health.set_namespace(namespace.cloned());
    health.set(if namespace.is_some() { State::Ready } else { State::Draining });
}

/// Lets connections finish, then partitions; then nothing is listened to any more.
async fn drain(network: Network, grace: Duration, namespace: &Namespace) {
    network.drain(grace).await;
    namespace.shutdown().await;
    network.close().await;
}

/// Ends a task; whatever it held is free then.
async fn end(task: JoinHandle<()>) {
    task.abort();
    let _ = task.await;
}

/// What the loss of a shard means for this process: it has no other, so it exits and leaves it to its supervisor to start it
/// anew, which decides what of the last writes is durable. Until then `/health/ready` says so, and clients are told to retry.
fn exit_without(lost: LostShard) -> ServeError {
    supervisor::stopping("nothing more can be stored");
    ServeError::Lost(lost)
}

fn namespace_options(config: &Config, memory: Memory) -> NamespaceOptions {
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
        series_max: usize::try_from(config.metrics.entities_max).unwrap_or(usize::MAX),
        ..NamespaceOptions::default()
    }
}

fn admin(
    namespace: &Namespace,
    access: &Access,
    throttles: Throttles,
    config: &Config,
    (store, memory): (peeklock_storage::Limits, Memory),
) -> Admin {
    let admin = Admin::new(namespace.clone(), access.clone(), admin_limits(config, store, memory));
    admin.named(config.namespace.name.as_deref()).throttled(throttles)
}

/// What answers over HTTP once there are entities.
fn administer(
    admin: Admin,
    travel: Option<&TimeTravel>,
    log: &LogControl,
    register: Register,
    figures: Option<StorageFigures>,
) -> axum::Router {
    let about = About { version: env!("CARGO_PKG_VERSION") };
    let mut console = Console::new(admin.clone(), about)
        .moving(travel.map(TimeTravel::mover))
        .logging(log.ring())
        .watching(register);
    if let Some(figures) = figures {
        console = console.stored_on(Arc::new(move || figures.bytes().map(disk_bytes)));
    }
    console.router().fallback_service(admin.router())
}

const fn disk_bytes(bytes: StorageBytes) -> DiskBytes {
    let StorageBytes { live, dead, allocated, free } = bytes;
    DiskBytes { live, dead, allocated, free }
}

/// What the file's entities must keep to, those made at run time must as well.
fn admin_limits(config: &Config, store: peeklock_storage::Limits, memory: Memory) -> AdminLimits {
    let store_bytes = store.value_bytes_max.min(store.batch_bytes_max) as u64;
    AdminLimits {
        auto_delete_on_idle_min_ms: config.limits.auto_delete_on_idle_min_ms,
        message_time_to_live_max_ms: config.limits.message_time_to_live_max_ms,
        message_size_max_bytes: store_bytes.min(memory.reassembly_bytes_max),
        tier: config.namespace.tier,
    }
}

fn service_bus(
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

/// An earlier process may have left one.
fn clear_ready_file(config: &Config) -> Result<(), ServeError> {
    let file = config.ready_file.as_deref();
    file.map_or(Ok(()), |file| ReadyFile::clear(file).map_err(|error| ServeError::ready_file(file, error)))
}

/// Says where to connect: to people in the log, to programs in the ready file.
fn announce(
    config: &Config,
    addresses: &Addresses,
    namespace: &Namespace,
) -> Result<Option<ReadyFile>, ServeError> {
    let Addresses { amqp, http, connection_string, authority, .. } = addresses;
    let (queues, topics) = entities::count(namespace);
    let authority = authority.as_ref().map(|file| tracing::field::display(file.display()));
    let also = addresses.others();
    tracing::info!(%amqp, %http, also, queues, topics, tls_ca = authority, "ready; connect with {connection_string}");
    let file = config.ready_file.as_deref();
    file.map(|file| ReadyFile::write(file, addresses).map_err(|error| ServeError::ready_file(file, error)))
        .transpose()
}
