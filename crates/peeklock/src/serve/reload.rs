//! SIGHUP: reads the configuration again. Settings that can change at run time are applied; others are named in the
//! log; an invalid configuration changes nothing. Flags and variables override the file, as at start.

use std::sync::Arc;

use peeklock_access::Access;
use peeklock_engine::runtime::Namespace;
use peeklock_net::Certificates;
use peeklock_storage::Limits;
use tokio::signal::unix::Signal;
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::task::spawn_blocking;

use super::entities;
use super::error::ServeError;
use super::metrics::Monitoring;
use super::pages::Pages;
use super::reread::{self, Reread};
use super::supervisor;
use crate::audit::{self, AuditControl};
use crate::config::{AuthorizationConfig, Config, ServeArgs};
use crate::logging::LogControl;

/// The current configuration and the entities served with it; cheap to clone. Changes to either require the lock.
#[derive(Clone)]
pub(super) struct InForce(Arc<Mutex<Current>>);

/// The state behind [`InForce`].
pub(super) struct Current {
    pub(super) config: Config,
    /// `None` while no entities are served.
    pub(super) served: Option<Served>,
}

/// The served entities, as needed for a reload.
pub(super) struct Served {
    /// The entities.
    pub(super) namespace: Namespace,
    /// Authorization.
    pub(super) access: Access,
    /// The store's limits.
    pub(super) limits: Limits,
    /// Its sender is dropped when serving ends.
    pub(super) lasting: watch::Receiver<()>,
}

impl Served {
    /// Declares the entities of a configuration and logs what that changes. Returns the number of changes.
    async fn declare_changes(&self, next: &Config) -> Result<usize, ServeError> {
        let changes = changes(&self.namespace, next);
        if !self.declare(next).await? {
            tracing::info!("changes of entities take effect when this node serves again");
            return Ok(0);
        }
        for change in &changes {
            tracing::info!(target: audit::TARGET, protocol = "config", operation = "declare", outcome = "ok", changed = &**change);
            tracing::info!("{change}");
        }
        Ok(changes.len())
    }

    /// Declares the entities of a configuration. False when serving ends before that is done, so that an unresponsive
    /// store does not block the end of a term: the next term declares them.
    async fn declare(&self, next: &Config) -> Result<bool, ServeError> {
        let mut lasting = self.lasting.clone();
        tokio::select! {
            biased;
            declared = entities::declare(&self.namespace, next, self.limits) => declared.map(|()| true),
            // No value is ever sent.
            _ = lasting.changed() => Ok(false),
        }
    }
}

impl InForce {
    /// The configuration at start, with no entities served.
    pub(super) fn new(config: Config) -> Self {
        Self(Arc::new(Mutex::new(Current { config, served: None })))
    }

    /// Waits for the lock.
    pub(super) async fn lock(&self) -> MutexGuard<'_, Current> {
        self.0.lock().await
    }
}

/// Applies a reload to the components that can change.
pub(super) struct Reload {
    /// The flags and variables of this process.
    pub(super) args: ServeArgs,
    /// The current configuration.
    pub(super) in_force: InForce,
    /// The log.
    pub(super) log: LogControl,
    /// The certificates.
    pub(super) tls: Arc<Certificates>,
    /// The check of requests from web pages.
    pub(super) pages: Arc<Pages>,
    /// The audit log.
    pub(super) audit: AuditControl,
    /// Counts reloads.
    pub(super) monitoring: Monitoring,
}

impl Reload {
    /// Reads the configuration again at each signal, until dropped.
    pub(super) async fn run(self, mut hangup: Signal) {
        while hangup.recv().await.is_some() {
            tracing::info!("SIGHUP: reading the configuration again");
            supervisor::reloading();
            self.audit.reopen();
            let outcome = self.reload().await;
            self.monitoring.reloaded(outcome.is_ok());
            match &outcome {
                Ok(changes) => {
                    tracing::info!(target: audit::TARGET, protocol = "config", operation = "reload", outcome = "ok", changes);
                    tracing::info!("reloaded; changes: {changes}");
                }
                Err(error) => {
                    tracing::info!(target: audit::TARGET, protocol = "config", operation = "reload", outcome = %error);
                    tracing::error!("reload refused, the running configuration is unchanged: {error}");
                }
            }
            self.reload_certificates().await;
            let is_serving = self.in_force.lock().await.served.is_some();
            supervisor::reloaded(&outcome, is_serving);
        }
    }

    /// Reads the certificates. Outside the runtime's threads: file systems may block.
    async fn reload_certificates(&self) {
        let tls = Arc::clone(&self.tls);
        let read = spawn_blocking(move || tls.reload().map_err(|error| error.to_string())).await;
        match read.map_err(|error| error.to_string()).flatten() {
            Ok(()) => {
                self.pages.set_certificate_names(self.tls.names());
                tracing::info!("the TLS certificates were read again");
            }
            Err(error) => tracing::error!("{error}; the previous TLS certificates stay in use"),
        }
    }

    /// Reads the configuration and applies what can change at run time. Returns the number of changes.
    async fn reload(&self) -> Result<usize, String> {
        let Reread { config: next, doubt } = reread::configuration(self.args.clone()).await?;
        let Current { config, served } = &mut *self.in_force.lock().await;
        if let Some(doubt) = doubt.filter(|_| next.authorization != config.authorization) {
            return Err(doubt);
        }
        // Addresses can't change at run time, so those at start are checked.
        next.authorization.check(&config.addresses()).map_err(|error| error.to_string())?;
        // First, because only this may fail: entities may refuse a change.
        let declared = match served {
            Some(served) => served.declare_changes(&next).await.map_err(|error| error.to_string())?,
            None => 0,
        };
        let changed = declared + self.apply_settings(config, &next, served.as_ref());
        for note in next.notes.iter().filter(|note| !config.notes.contains(note)) {
            tracing::warn!("{note}");
        }
        for what in fixed(config, &next) {
            tracing::warn!("{what} has changed in the configuration; that needs a restart");
        }
        keep_applied(config, next);
        Ok(changed)
    }

    /// Applies the changed settings, apart from entities, that can change at run time. Returns their number.
    fn apply_settings(&self, config: &Config, next: &Config, served: Option<&Served>) -> usize {
        let mut count = 0;
        if next.log_filter != config.log_filter {
            self.log.set(&next.log_filter);
            tracing::info!("the log level is now {}", next.log_filter);
            count += 1;
        }
        if next.authorization != config.authorization {
            if let Some(Served { access, .. }) = served {
                access.replace(next.authorization.policy());
            }
            self.pages.set_authorization(&next.authorization);
            tracing::info!("the changed [authorization] is in force");
            count += 1;
        }
        count
    }
}

/// Records what was applied. Settings that need a restart keep their old values, so that the next reload reports them
/// again.
fn keep_applied(config: &mut Config, next: Config) {
    (config.log_filter, config.notes) = (next.log_filter, next.notes);
    config.authorization = AuthorizationConfig {
        plain_enabled: config.authorization.plain_enabled,
        time_out_ms: config.authorization.time_out_ms,
        ..next.authorization
    };
    // A later term declares the entities of the file at that time.
    (config.queues, config.queues_if_missing) = (next.queues, next.queues_if_missing);
    (config.topics, config.topics_if_missing) = (next.topics, next.topics_if_missing);
    config.undeclared = next.undeclared;
}

/// Lists the entities that declaring a configuration creates and changes.
fn changes(namespace: &Namespace, next: &Config) -> Vec<String> {
    let mut changes = Vec::new();
    let mut compare = |what: String, before: Option<bool>| match before {
        None => changes.push(format!("{what} was created")),
        Some(false) => changes.push(format!("the properties of {what} were changed")),
        Some(true) => {}
    };
    for queue in &next.queues {
        let before = namespace.options(&queue.name).map(|before| *before == queue.options.clone().into());
        compare(format!("queue \"{}\"", queue.name), before);
    }
    for topic in &next.topics {
        let before = namespace.options(&topic.name).map(|before| *before == topic.options.clone().into());
        compare(format!("topic \"{}\"", topic.name), before);
        for subscription in &topic.subscriptions {
            let before = namespace.subscription(&topic.name, &subscription.name);
            let before = before.map(|before| *before.options == subscription.options);
            compare(format!("subscription \"{}\" of topic \"{}\"", subscription.name, topic.name), before);
        }
    }
    changes
}

/// The keys of changed settings that can't change at run time.
fn fixed(current: &Config, next: &Config) -> Vec<&'static str> {
    let differs = [
        ("amqp.listen", current.amqp_listen != next.amqp_listen),
        ("[amqp]", current.amqp != next.amqp),
        (
            "authorization.plain_enabled",
            current.authorization.plain_enabled != next.authorization.plain_enabled,
        ),
        ("authorization.time_out", current.authorization.time_out_ms != next.authorization.time_out_ms),
        ("http.listen", current.http_listen != next.http_listen),
        ("[console]", current.console != next.console),
        ("[namespace]", current.namespace != next.namespace),
        ("[network]", current.network != next.network),
        ("[tls]", current.tls != next.tls),
        ("storage.data_dir", current.data_dir != next.data_dir),
        ("[storage]", current.storage != next.storage),
        ("[cluster]", current.cluster != next.cluster),
        // Declared entities are checked against the new limits, those of clients against the limits at start.
        ("[limits]", current.limits != next.limits),
        ("[throttling]", current.rates != next.rates),
        ("[transactions]", current.transactions != next.transactions),
        ("[metrics]", current.metrics != next.metrics),
        ("[telemetry]", current.telemetry != next.telemetry),
        ("log.audit", current.audit != next.audit),
        ("log.format", current.log_format != next.log_format),
        ("[development]", current.development != next.development),
    ];
    differs.into_iter().filter_map(|(what, differs)| differs.then_some(what)).collect()
}
