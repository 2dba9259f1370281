//! Serves as a node of a cluster: waits for the lease, serves a term, and repeats, in one process.

use std::time::Duration;

use peeklock_engine::runtime::StartError;
use peeklock_postgres::DatabaseWatch;
use peeklock_storage::Error;
use tokio::time::sleep;

use super::error::ServeError;
use super::process::Process;
use super::signals::Signals;
use super::standby::{Held, Standby};
use super::store::{Cluster, OpenStore, SHARD, Shards};
use super::term::{Term, TermEnd, has_lost_records};
use super::{end, supervisor};
use crate::config::Config;

/// Pause after a take-over that failed for a temporary reason.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Pause between two checks whether this node can connect, while the log can't be written.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// State that is the same for all terms.
struct Node<'a> {
    shards: &'a Shards,
    cluster: &'a Cluster,
    standby: Standby,
}

/// Serves whenever this node has the lease, until a signal.
///
/// # Errors
/// A permanent error: in the configuration, or a damaged store.
pub(super) async fn serve_as_node(
    process: &mut Process,
    signals: &mut Signals,
    config: &Config,
    shards: &Shards,
    cluster: &Cluster,
) -> Result<(), ServeError> {
    process.begin(config)?;
    let node = Node { shards, cluster, standby: Standby::start(cluster) };
    node.show(process);
    let watchdog = supervisor::keep_alive(None);
    let outcome = node.serve_terms(process, signals).await;
    node.standby.leave().await;
    if let Some(watchdog) = watchdog {
        end(watchdog).await;
    }
    outcome
}

impl Node<'_> {
    /// Adds the cluster's metrics, for all terms.
    fn show(&self, process: &Process) {
        let registry = &process.monitoring.registry;
        registry.register(self.cluster.database.metrics().clone());
        registry.register(DatabaseWatch::start(self.cluster.database.clone()));
        registry.register(self.cluster.store.figures(SHARD));
        registry.register(self.standby.figures());
    }

    async fn serve_terms(&self, process: &mut Process, signals: &mut Signals) -> Result<(), ServeError> {
        loop {
            process.stand_by();
            let term = tokio::select! {
                term = self.next_term(process) => term?,
                () = signals.stop() => {
                    self.cluster.store.abandon(SHARD);
                    return Ok(());
                }
            };
            let end = tokio::select! {
                end = term.serve(process, signals) => end?,
                () = self.cut_off(&term) => {
                    tracing::warn!("this node can't connect to the database, and another one waits: handing over");
                    term.hand_over(process).await?;
                    continue;
                }
            };
            match end {
                TermEnd::Stopped if self.standby.has_relief().await => {
                    supervisor::stopping("another node takes over");
                    tracing::info!("another node takes over");
                    return term.hand_over(process).await;
                }
                TermEnd::Stopped => return term.drain(process).await,
                TermEnd::Moved(to) => {
                    tracing::info!(%to, "handing over");
                    term.hand_over(process).await?;
                }
                TermEnd::Lost(lost) if has_lost_records(&lost) => {
                    term.abandon(process).await?;
                    return Err(ServeError::Lost(lost));
                }
                TermEnd::Lost(lost) => {
                    tracing::warn!(%lost, "this node stands by");
                    term.abandon(process).await?;
                }
                TermEnd::LeaseLost => {
                    tracing::warn!("another node may have the shard; this one stands by");
                    term.abandon(process).await?;
                }
            }
        }
    }

    /// Resolves when the log can't be written for long because this node can't connect to the database, and another node
    /// waits. The cause may be of this node only, as an old password or an expired certificate; its lease is renewed
    /// nevertheless if the session for that is still open.
    async fn cut_off(&self, term: &Term) {
        loop {
            term.failing().await;
            if self.standby.is_another_waiting() && self.cluster.database.connect("check").await.is_err() {
                return;
            }
            sleep(CHECK_EVERY).await;
        }
    }

    /// Waits for the lease, and takes over; retries while that fails for a temporary reason.
    async fn next_term(&self, process: &mut Process) -> Result<Term, ServeError> {
        loop {
            let held = self.standby.held().await;
            tracing::info!(shard = SHARD.0, "this node has the lease: taking over");
            let taken = tokio::select! {
                taken = self.take_over(process, &held) => taken,
                _ = held.ended() => {
                    self.cluster.store.abandon(SHARD);
                    // A shard that is to be handed over stays with this node until it is released.
                    held.release().await;
                    continue;
                }
            };
            match taken {
                Err(error) if is_transient(&error) => {
                    tracing::warn!(%error, "taking over failed; trying again");
                    self.cluster.store.abandon(SHARD);
                    // The cause may be of this node only: an old password, an expired certificate.
                    if self.standby.is_another_waiting() {
                        held.release().await;
                    }
                    sleep(RETRY_AFTER).await;
                }
                taken => return taken,
            }
        }
    }

    async fn take_over(&self, process: &mut Process, held: &Held) -> Result<Term, ServeError> {
        let config = process.in_force.lock().await.config.clone();
        let store = OpenStore::open(&config, self.shards).await?;
        Term::start(process, store, Some(held.clone())).await
    }
}

/// Whether a retry may succeed: the database could not be reached, or another node was faster.
fn is_transient(error: &ServeError) -> bool {
    match error {
        ServeError::Cluster(error) | ServeError::Start(StartError::Storage(error)) => {
            !matches!(error, Error::Corrupt { .. } | Error::TooLarge { .. })
        }
        ServeError::Lost(_) => true,
        _ => false,
    }
}
