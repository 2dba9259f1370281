//! One term of serving: from opening the store to the end of everything that depends on it.
//!
//! A process with a data directory serves one term. A node of a cluster serves a term each time it has the lease of the
//! shard; ports and supervision continue between two terms ([`super::process`]).

use std::time::Duration;

use peeklock_budget::throttle::Throttles;
use peeklock_cluster::{Ended, NodeName};
use peeklock_connections::Register;
use peeklock_engine::runtime::{LostShard, Namespace, NamespaceOptions};
use peeklock_storage::{Error, Pressure};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::access::{self, Following};
use super::error::ServeError;
use super::memory::watch_state;
use super::parts;
use super::process::Process;
use super::ready::ReadyFile;
use super::reload::Served;
use super::signals::Signals;
use super::standby::Held;
use super::store::OpenStore;
use super::{dead_letters, emulator, end, entities, supervisor};
use crate::config::Config;
use crate::control::Control;

/// Time for decided commands to become durable and be answered before the shard is given up anyway.
const FINISH_WITHIN: Duration = Duration::from_secs(5);

/// Time for clients to settle their messages before their connections are closed: an SDK does not retry a settlement.
/// Sends are still accepted.
const SETTLE_WITHIN: Duration = Duration::from_millis(300);

/// Why a term has ended.
#[derive(Debug)]
pub(super) enum TermEnd {
    /// A stop was requested by a signal.
    Stopped,
    /// Nothing more can be stored, or another node has the shard.
    Lost(LostShard),
    /// Another node has the lease, or could have.
    LeaseLost,
    /// The shard is to be handed over to this node.
    Moved(NodeName),
}

/// State of a term; see the module.
pub(super) struct Term {
    namespace: Namespace,
    store: OpenStore,
    held: Option<Held>,
    control: Option<Control>,
    ready_file: Option<ReadyFile>,
    reporting: JoinHandle<()>,
    measuring: JoinHandle<()>,
    watchdog: Option<JoinHandle<()>>,
    /// When dropped, a reload stops waiting for the store.
    lasting: Option<watch::Sender<()>>,
    _following: Following,
}

impl Term {
    /// Restores and declares entities and serves them.
    ///
    /// # Errors
    /// Any error that prevents a start.
    pub(super) async fn start(
        process: &mut Process,
        store: OpenStore,
        held: Option<Held>,
    ) -> Result<Self, ServeError> {
        let limits = store.lease.limits();
        let in_force = process.in_force.clone();
        // A reload waits until entities are served, and then changes them.
        let mut in_force = in_force.lock().await;
        let config = in_force.config.clone();
        let namespace = restore(process, &store, held.as_ref(), &config).await?;
        // The time in the store is known by now.
        process.begin(&config)?;
        let (access, following) = access::start(&namespace, &config.authorization, process.time.clone());
        process.page.show(&store, &access, &namespace);
        let measuring = watch_state(namespace.budget().clone());
        serve_clients(process, &namespace, &store, &config, &access);
        let control = store.control(&config);
        if let Some(damage) = store.scrub_damage() {
            process.health.set_scrub_damage(damage);
        }
        process.set_ready(Some(&namespace));
        // Last: programs that wait for the ready file use all of the above at once.
        let ready_file = process.announce(&config, &namespace)?;
        let watchdog = supervised(&namespace, &store, held.is_some());
        emulator::print_ready_line(&config);
        let (lasting, lasts) = watch::channel(());
        in_force.served = Some(Served { namespace: namespace.clone(), access, limits, lasting: lasts });
        let reporting = tokio::spawn(dead_letters::report(namespace.clone()));
        Ok(Self {
            namespace,
            store,
            held,
            control,
            ready_file,
            reporting,
            measuring,
            watchdog,
            lasting: Some(lasting),
            _following: following,
        })
    }

    /// Serves until the term has to end.
    ///
    /// # Errors
    /// Listening has ended unexpectedly.
    pub(super) async fn serve(
        &self,
        process: &mut Process,
        signals: &mut Signals,
    ) -> Result<TermEnd, ServeError> {
        tokio::select! {
            () = signals.stop() => Ok(TermEnd::Stopped),
            lost = self.namespace.shard_lost() => Ok(TermEnd::Lost(lost)),
            ended = self.lease_ended() => Ok(match ended {
                Ended::Lost => TermEnd::LeaseLost,
                Ended::HandOver(node) => TermEnd::Moved(node),
            }),
            ended = process.network.ended() => Err(ServeError::listener_ended(ended)),
        }
    }

    /// Resolves while the log can't be written for long; never if the shard is lost.
    pub(super) async fn failing(&self) {
        let mut pressure = self.store.lease.pressure();
        if pressure.wait_for(|pressure| *pressure == Pressure::Failing).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn lease_ended(&self) -> Ended {
        match &self.held {
            Some(held) => held.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Lets clients finish, then partitions, and closes the store: this process serves nothing more.
    ///
    /// # Errors
    /// The shard was lost meanwhile. A node with a lease reports only the loss of acknowledged records: another node may
    /// have the shard, or the next start restores it.
    pub(super) async fn drain(mut self, process: &mut Process) -> Result<(), ServeError> {
        supervisor::stopping("clients may finish");
        self.leave(process).await;
        let finish = async {
            process.network.drain(process.grace).await;
            self.finish().await
        };
        let patience = tokio::select! {
            patience = finish => patience,
            lost = self.namespace.shard_lost() => match self.held {
                Some(_) if !has_lost_records(&lost) => {
                    tracing::warn!(%lost, "some requests could not be answered; clients will retry them");
                    process.network.close_amqp();
                    FINISH_WITHIN
                }
                _ => return Err(ServeError::Lost(lost)),
            }
        };
        self.close(process, patience).await
    }

    /// Releases the shard for the next owner as soon as all decisions are durable and answered. Connections are closed,
    /// and requests meanwhile are refused with an error that makes clients retry.
    ///
    /// # Errors
    /// The log lost acknowledged records meanwhile, and [`OpenStore::close`].
    pub(super) async fn hand_over(mut self, process: &mut Process) -> Result<(), ServeError> {
        self.leave(process).await;
        process.network.hold_amqp();
        if let Some(held) = &self.held {
            held.stop_deliveries();
            sleep(SETTLE_WITHIN).await;
        }
        process.administration.set(None);
        let (patience, lost) = tokio::select! {
            patience = self.finish() => (patience, None),
            lost = self.namespace.shard_lost() => (FINISH_WITHIN, Some(lost)),
        };
        process.network.close_amqp();
        self.close(process, patience).await?;
        lost.filter(has_lost_records).map_or(Ok(()), |lost| Err(ServeError::Lost(lost)))
    }

    /// Waits until all decisions are durable and answered. A database may be unreachable for ever, so a node waits for a
    /// limited time. Returns the time that closing the store may still take.
    async fn finish(&self) -> Duration {
        let finish = self.namespace.shutdown();
        if self.held.is_none() {
            finish.await;
        } else if timeout(FINISH_WITHIN, finish).await.is_err() {
            tracing::warn!("some requests could not be answered; clients will retry them");
            return Duration::ZERO;
        }
        FINISH_WITHIN
    }

    /// Ends everything on a shard that is lost, or is about to be. No more messages are delivered.
    ///
    /// # Errors
    /// See [`OpenStore::close`].
    pub(super) async fn abandon(mut self, process: &mut Process) -> Result<(), ServeError> {
        self.leave(process).await;
        process.network.close_amqp();
        self.close(process, FINISH_WITHIN).await
    }

    /// Refuses new work from now on.
    async fn leave(&mut self, process: &Process) {
        self.ready_file = None;
        process.set_ready(None);
        self.lasting = None;
        process.in_force.lock().await.served = None;
        self.reporting.abort();
        self.measuring.abort();
    }

    async fn close(self, process: &Process, patience: Duration) -> Result<(), ServeError> {
        process.administration.set(None);
        process.page.clear();
        drop(self.control);
        end(self.reporting).await;
        end(self.measuring).await;
        if let Some(watchdog) = self.watchdog {
            end(watchdog).await;
        }
        self.store.close(patience).await?;
        if let Some(held) = self.held {
            held.release().await;
        }
        // Actors that may not deliver any more end now, because their shard is lost.
        if timeout(FINISH_WITHIN, self.namespace.shutdown()).await.is_err() {
            tracing::error!("some entities did not stop after their shard was lost");
        }
        Ok(())
    }
}

/// Whether the log lost acknowledged records: a retry would accept that.
pub(super) const fn has_lost_records(lost: &LostShard) -> bool {
    matches!(lost.reason, Error::Corrupt { .. })
}

/// Restores the entities of the store, and declares those of the configuration.
async fn restore(
    process: &Process,
    store: &OpenStore,
    held: Option<&Held>,
    config: &Config,
) -> Result<Namespace, ServeError> {
    let options = NamespaceOptions {
        spans: process.telemetry.spans(),
        tenure: held.map(Held::tenure),
        ..parts::namespace_options(config, process.memory)
    };
    let namespace = Namespace::start(store.lease.clone(), process.entity_clock(), options).await?;
    let declared = entities::declare(&namespace, config, store.lease.limits()).await;
    declared.map_err(|error| namespace.lost_shard().map_or(error, ServeError::Lost))?;
    Ok(namespace)
}

/// Reports readiness to the service manager, and then pings while the store answers. A node of a cluster always pings,
/// because a restart does not repair a database.
fn supervised(namespace: &Namespace, store: &OpenStore, is_node: bool) -> Option<JoinHandle<()>> {
    let (queues, topics) = entities::count(namespace);
    supervisor::ready(queues, topics);
    if is_node { None } else { supervisor::keep_alive(Some(store.lease.clone())) }
}

/// Starts serving AMQP and HTTP.
fn serve_clients(
    process: &Process,
    namespace: &Namespace,
    store: &OpenStore,
    config: &Config,
    access: &peeklock_access::Access,
) {
    let Process { memory, room, travel, monitoring, log, .. } = process;
    let throttles = Throttles::new(config.rates.clone());
    let register = Register::new(access.now().0);
    let bus =
        parts::service_bus(namespace, access, config, &throttles, monitoring).registered(register.clone());
    let connections = parts::amqp_connections(bus, namespace, config, *memory, *room);
    let admin = parts::admin(namespace, access, throttles, config, (store.lease.limits(), *memory));
    let router = parts::administer(admin, travel.as_ref(), log, register, store.bytes());
    process.administration.set(Some(router));
    process.network.serve_amqp(connections);
}
