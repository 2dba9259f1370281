//! The configuration file: its sections and keys.

use std::fs;
use std::path::{Path, PathBuf};

use peeklock_amqp::servicebus::TransactionLimits;
use peeklock_budget::throttle::Rates;
use peeklock_engine::{Tier, same_name};
use toml::de::DeTable;

use super::ListenAddress;
use super::amqp::{self, AmqpConfig};
use super::authorization::{self, AuthorizationConfig, AuthorizationFlags};
use super::cluster::{self, ClusterConfig};
use super::console::{self, ConsoleConfig};
use super::development::{self, DevelopmentConfig};
use super::emulator;
use super::entity::Bounds;
use super::limits::{self, LimitsConfig};
use super::metrics::{self, MetricsConfig};
use super::names::Names;
use super::namespace::{self, NamespaceConfig};
use super::network::{self, NetworkConfig};
use super::problem::{Collector, Problems};
use super::queue::{self, QueueConfig};
use super::storage::{self, StorageConfig};
use super::table::Table;
use super::telemetry::{self, TelemetryConfig};
use super::throttling;
use super::tls::{self, TlsConfig};
use super::topic::{self, TopicConfig};
use super::transactions;
use crate::audit::AuditTarget;
use crate::logging::{LogFilter, LogFormat};

/// The settings in a file. `None` where flags, variables and defaults decide.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FileConfig {
    /// `amqp.listen`
    pub(crate) amqp_listen: Option<ListenAddress>,
    /// The rest of `[amqp]`.
    pub(crate) amqp: AmqpConfig,
    /// `http.listen`
    pub(crate) http_listen: Option<ListenAddress>,
    /// `network.also_listen`
    pub(crate) also_listen: Option<Vec<ListenAddress>>,
    /// The rest of `[network]`.
    pub(crate) network: NetworkConfig,
    /// `[console]`
    pub(crate) console: ConsoleConfig,
    /// `[tls]`
    pub(crate) tls: TlsConfig,
    /// `storage.data_dir`
    pub(crate) data_dir: Option<PathBuf>,
    /// The rest of `[storage]`.
    pub(crate) storage: StorageConfig,
    /// `[cluster]`
    pub(crate) cluster: ClusterConfig,
    /// `log.level`
    pub(crate) log_filter: Option<LogFilter>,
    /// `log.format`
    pub(crate) log_format: Option<LogFormat>,
    /// `log.audit`
    pub(crate) audit: Option<AuditTarget>,
    /// `[metrics]`
    pub(crate) metrics: MetricsConfig,
    /// `[telemetry]`
    pub(crate) telemetry: TelemetryConfig,
    /// `development.time_travel`
    pub(crate) time_travel: Option<bool>,
    /// The rest of `[development]`.
    pub(crate) development: DevelopmentConfig,
    /// The settings in `[authorization]` that flags may override.
    pub(crate) authorization_flags: AuthorizationFlags,
    /// The rest of `[authorization]`.
    pub(crate) authorization: AuthorizationConfig,
    /// `[limits]`
    pub(crate) limits: LimitsConfig,
    /// `[throttling]`
    pub(crate) rates: Rates,
    /// `[transactions]`
    pub(crate) transactions: TransactionLimits,
    /// `[[queues]]`, in file order.
    pub(crate) queues: Vec<QueueConfig>,
    /// `[[topics]]`, in file order.
    pub(crate) topics: Vec<TopicConfig>,
    /// `[namespace]`
    pub(crate) namespace: NamespaceConfig,
    /// Whether this is the emulator's file.
    pub(crate) is_emulators: bool,
    /// Settings without effect, each with its position.
    pub(crate) notes: Vec<String>,
}

impl FileConfig {
    /// This file with the entities of the emulator's file.
    ///
    /// # Errors
    /// A message about an entity that both declare.
    pub(super) fn with_emulators(mut self, emulators: Self) -> Result<Self, String> {
        let names = |file: &Self| {
            let queues = file.queues.iter().map(|queue| queue.name.clone());
            queues.chain(file.topics.iter().map(|topic| topic.name.clone())).collect::<Vec<_>>()
        };
        let own = names(&self);
        if let Some(name) = names(&emulators).iter().find(|name| own.iter().any(|own| same_name(own, name))) {
            return Err(format!("both configuration files declare \"{name}\"; remove it from one"));
        }
        self.queues.extend(emulators.queues);
        self.topics.extend(emulators.topics);
        self.notes.extend(emulators.notes);
        self.namespace.name = self.namespace.name.or(emulators.namespace.name);
        self.is_emulators = true;
        Ok(self)
    }
}

/// Reads a file of either kind: the emulator's if its name ends with `.json`, else TOML.
///
/// # Errors
/// [`Problems`] with every error; an unreadable file is an error in line 1.
pub(crate) fn load(path: &Path) -> Result<FileConfig, Problems> {
    load_for(path, Tier::default())
}

/// As [`load`], for a namespace of this tier unless the file names one.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_for(path: &Path, tier: Tier) -> Result<FileConfig, Problems> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        let mut config = emulator::load(path, Bounds { tier, ..Bounds::default() })?;
        config.namespace.tier = tier;
        return Ok(config);
    }
    let file = path.display().to_string();
    match fs::read_to_string(path) {
        Ok(text) => parse_for(&file, &text, tier),
        Err(error) => Err(Problems::unreadable(file, &error)),
    }
}

/// As [`parse_for`], for the default tier.
#[cfg(test)]
pub(crate) fn parse(file: &str, text: &str) -> Result<FileConfig, Problems> {
    parse_for(file, text, Tier::default())
}

/// Parses a file's text, for a namespace of this tier unless the text names one; `file` names it in messages.
///
/// # Errors
/// [`Problems`] with every error.
pub(crate) fn parse_for(file: &str, text: &str, tier: Tier) -> Result<FileConfig, Problems> {
    let problems = Collector::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        problems.report(&error.span().unwrap_or_default(), format!("not TOML: {}", error.message()));
    }
    let mut config = FileConfig::default();
    if errors.is_empty() {
        let notes = Collector::new(text);
        config = read(document.get_ref(), tier, &problems, &notes);
        config.notes = Problems::mistakes(file.to_owned(), notes.into_list()).lines().collect();
    }
    problems.into_result(file, config)
}

fn read<'i>(
    document: &DeTable<'i>,
    tier: Tier,
    problems: &Collector<'i>,
    notes: &Collector<'_>,
) -> FileConfig {
    let mut root = Table::new("", Some(document), problems);
    let mut config = FileConfig::default();
    (config.amqp_listen, config.amqp) = amqp::read(root.section("amqp"));
    read_http(root.section("http"), &mut config);
    (config.also_listen, config.network) = network::read(root.section("network"));
    config.console = console::read(root.section("console"));
    config.tls = tls::read(root.section("tls"));
    (config.data_dir, config.storage) = storage::read(root.section("storage"), notes);
    config.cluster = cluster::read(root.section("cluster"), &config.storage, notes);
    read_log(root.section("log"), &mut config);
    config.metrics = metrics::read(root.section("metrics"));
    config.telemetry = telemetry::read(root.section("telemetry"));
    (config.time_travel, config.development) = development::read(root.section("development"));
    (config.authorization_flags, config.authorization) = authorization::read(root.section("authorization"));
    config.namespace = namespace::read(root.section("namespace"), tier);
    config.limits = limits::read(root.section("limits")).within(config.namespace.tier);
    config.rates = throttling::read(root.section("throttling"));
    config.transactions = transactions::read(root.section("transactions"));
    read_entities(&mut root, &mut config);
    root.finish();
    config
}

fn read_http(mut http: Table<'_, '_>, config: &mut FileConfig) {
    config.http_listen = http.text("listen", "\"127.0.0.1:5300\"", str::parse);
    http.finish();
}

fn read_log(mut log: Table<'_, '_>, config: &mut FileConfig) {
    config.log_filter = log.text("level", "\"info\"", str::parse);
    config.log_format = log.text("format", "\"text\"", str::parse);
    config.audit = log.text("audit", "\"stderr\"", str::parse);
    log.finish();
}

/// Reads queues and topics, which share one set of names.
fn read_entities(root: &mut Table<'_, '_>, config: &mut FileConfig) {
    let bounds = Bounds::of(config);
    let mut names = Names::default();
    for (table, place) in root.array("queues", "queues") {
        let Some((queue, place)) = queue::read(table, &place, bounds) else { continue };
        if root.take_name(&mut names, "queue", &queue.name, &place) {
            config.queues.push(queue);
        }
    }
    for (table, place) in root.array("topics", "topics") {
        let Some((topic, place)) = topic::read(table, &place, bounds) else { continue };
        if root.take_name(&mut names, "topic", &topic.name, &place) {
            config.topics.push(topic);
        }
    }
}
