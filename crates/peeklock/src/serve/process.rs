//! State that a process has once for all its terms: ports, health, clock, metrics, the current configuration.

use std::sync::Arc;
use std::time::Duration;

use peeklock_engine::runtime::{Clock, Namespace, SystemClock};
use tokio::signal::unix::Signal;
use tokio::task::JoinHandle;

use super::descriptors::Room;
use super::development::TimeTravel;
use super::error::ServeError;
use super::health::{Health, State};
use super::memory::Memory;
use super::metrics::{Monitoring, Readers};
use super::network::{Listening, Network};
use super::ready::{Addresses, ReadyFile};
use super::reload::{InForce, Reload};
use super::routes::{self, Administration, MetricsPage, Offered};
use super::telemetry::Telemetry;
use super::{end, entities, supervisor};
use crate::audit::AuditControl;
use crate::config::{Config, ServeArgs};
use crate::logging::LogControl;

/// State of the process; see the module.
pub(super) struct Process {
    pub(super) in_force: InForce,
    pub(super) health: Health,
    pub(super) memory: Memory,
    pub(super) room: Room,
    /// The clock of all components that make decisions by time.
    pub(super) time: SystemClock,
    pub(super) travel: Option<TimeTravel>,
    pub(super) administration: Administration,
    pub(super) page: MetricsPage,
    pub(super) monitoring: Monitoring,
    pub(super) telemetry: Telemetry,
    pub(super) network: Network,
    pub(super) log: LogControl,
    /// How long clients may continue when the process stops.
    pub(super) grace: Duration,
    audit: AuditControl,
    /// Set until [`Self::begin`].
    beginning: Option<(ServeArgs, Signal)>,
    /// Set by [`Self::begin`].
    tasks: Vec<JoinHandle<()>>,
}

impl Process {
    /// Binds all addresses and starts answering HTTP, mostly with 503.
    ///
    /// # Errors
    /// An address in use, and other errors found before the store is opened.
    pub(super) async fn start(
        config: Config,
        args: ServeArgs,
        hangup: Signal,
        (log, audit): (LogControl, AuditControl),
    ) -> Result<Self, ServeError> {
        prepare_ready_file(&config)?;
        let room = Room::within_limits(config.amqp.connections_max, config.network.unauthenticated_max);
        let listening = Listening::bind(&config).await?;
        let health = Health::default();
        let memory = Memory::of(&config)?;
        let time = SystemClock::new();
        let travel = config.development.time_travel.then(|| TimeTravel::over(time.clone()));
        let administration = Administration::default();
        let page = MetricsPage::new(Monitoring::start(&health, &audit), Readers::new(config.metrics.clone()));
        let monitoring = page.monitoring.clone();
        let telemetry = Telemetry::start(&config.telemetry, &monitoring.registry).await?;
        let offered = Offered { metrics: page.clone(), has_console: config.console.is_enabled };
        let router = routes::router(health.clone(), travel.clone(), &administration, offered);
        let network = Network::start(listening, router, &config, room, &monitoring);
        let grace = Duration::from_millis(config.amqp.drain_time_out_ms);
        if travel.is_some() {
            tracing::warn!(
                "TIME TRAVEL IS ON: every client that reaches HTTP can move the broker's clock forward and let every message \
                 expire; never use this broker for messages that matter"
            );
        }
        let in_force = InForce::new(config);
        Ok(Self {
            in_force,
            health,
            memory,
            room,
            time,
            travel,
            administration,
            page,
            monitoring,
            telemetry,
            network,
            log,
            grace,
            audit,
            beginning: Some((args, hangup)),
            tasks: Vec::new(),
        })
    }

    /// Starts serving TLS, following the wall clock and reloading the configuration; further calls have no effect. The
    /// store of a data directory is opened before, because its time is used for certificates.
    ///
    /// # Errors
    /// TLS can't be served.
    pub(super) fn begin(&mut self, config: &Config) -> Result<(), ServeError> {
        let Some((args, hangup)) = self.beginning.take() else { return Ok(()) };
        self.tasks.push(tokio::spawn(self.time.clone().keep_up()));
        let reload = Reload {
            args,
            in_force: self.in_force.clone(),
            log: self.log.clone(),
            audit: self.audit.clone(),
            tls: self.network.secure(config, &self.time)?,
            pages: self.network.pages(),
            monitoring: self.monitoring.clone(),
        };
        self.tasks.push(tokio::spawn(reload.run(hangup)));
        Ok(())
    }

    /// The clock of messages.
    pub(super) fn entity_clock(&self) -> Arc<dyn Clock> {
        match &self.travel {
            Some(travel) => Arc::new(travel.clock()),
            None => Arc::new(self.time.clone()),
        }
    }

    /// Records whether connections are accepted.
    pub(super) fn set_ready(&self, namespace: Option<&Namespace>) {
        if let Some(travel) = &self.travel {
            travel.set_namespace(namespace.cloned());
        }
        self.health.set_namespace(namespace.cloned());
        self.health.set(if namespace.is_some() { State::Ready } else { State::Draining });
    }

    /// Records that another node serves, as far as known; this one may take over at any time.
    pub(super) fn stand_by(&mut self) {
        self.network.hold_amqp();
        self.health.set(State::Standby);
        supervisor::standby();
        tracing::info!("standing by: another node serves, or this one takes over");
    }

    /// Publishes the addresses: in the log, and in the ready file.
    ///
    /// # Errors
    /// The ready file can't be written.
    pub(super) fn announce(
        &self,
        config: &Config,
        namespace: &Namespace,
    ) -> Result<Option<ReadyFile>, ServeError> {
        let addresses = self.network.addresses();
        let file = config.ready_file.as_deref();
        let written = file.map(|file| {
            ReadyFile::write(file, addresses).map_err(|error| ServeError::ready_file(file, error))
        });
        let written = written.transpose()?;
        let Addresses { amqp, http, connection_string, authority, .. } = addresses;
        let (queues, topics) = entities::count(namespace);
        let authority = authority.as_ref().map(|file| tracing::field::display(file.display()));
        let also = addresses.others();
        tracing::info!(%amqp, %http, also, queues, topics, tls_ca = authority, "ready; connect with {connection_string}");
        Ok(written)
    }

    /// Ends everything that remains.
    pub(super) async fn end(mut self) {
        for task in self.tasks {
            end(task).await;
        }
        self.network.finish(self.grace).await;
        self.network.close().await;
        self.telemetry.finish().await;
    }
}

/// Removes the file of an earlier process; a path that can't be written is refused before serving.
fn prepare_ready_file(config: &Config) -> Result<(), ServeError> {
    let file = config.ready_file.as_deref();
    file.map_or(Ok(()), |file| ReadyFile::prepare(file).map_err(|error| ServeError::ready_file(file, error)))
}
