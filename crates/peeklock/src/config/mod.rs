//! The broker's configuration: flags override variables, variables override the file, the file overrides defaults.

mod amqp;
mod args;
mod asked;
mod authorization;
mod authorization_rule;
mod cluster;
mod console;
mod convert;
mod database;
mod development;
mod duration;
mod emulator;
mod entity;
mod file;
mod forwarding;
mod json_web;
mod known;
mod limits;
mod listen;
mod metrics;
mod names;
mod namespace;
mod network;
mod options;
mod problem;
mod queue;
mod rule;
mod size;
mod sql;
mod storage;
mod subscription;
mod table;
mod telemetry;
#[cfg(test)]
mod tests;
mod throttling;
mod tls;
mod topic;
mod transactions;
mod values;
mod within;

use std::path::PathBuf;

use peeklock_amqp::servicebus::TransactionLimits;
use peeklock_budget::throttle::Rates;
use peeklock_engine::Tier;

use crate::audit::AuditTarget;
use crate::exit::Exit;
use crate::logging::{LogFilter, LogFormat};
use authorization::AuthorizationFlags;
use entity::Bounds;

pub(crate) use amqp::AmqpConfig;
pub(crate) use args::ServeArgs;
pub(crate) use asked::AskedTopic;
pub(crate) use authorization::AuthorizationConfig;
pub(crate) use cluster::ClusterConfig;
pub(crate) use console::ConsoleConfig;
pub(crate) use convert::{
    ambiguous_parameters, correlation_fields, quoted, shown as option_text, to_toml, value_text,
};
pub(crate) use database::{DatabaseUrl, Durability, StorageEngine};
pub(crate) use development::DevelopmentConfig;
pub(crate) use duration::{iso as duration_text, parse_in as parse_duration_ms};
#[cfg(test)]
pub(crate) use file::parse;
pub(crate) use file::{FileConfig, load, load_for, parse_for};
pub(crate) use known::{Findings, Reach, examine};
pub(crate) use limits::{LARGEST_PARTS_OF_MEMORY, LimitsConfig};
pub(crate) use listen::ListenAddress;
pub(crate) use metrics::MetricsConfig;
pub(crate) use namespace::NamespaceConfig;
pub(crate) use network::NetworkConfig;
pub(crate) use problem::Problems;
pub(crate) use queue::QueueConfig;
pub(crate) use size::parse_in as parse_size_bytes;
pub(crate) use storage::StorageConfig;
pub(crate) use subscription::SubscriptionConfig;
pub(crate) use telemetry::TelemetryConfig;
#[cfg(feature = "otlp")]
pub(crate) use telemetry::endpoint as otlp_endpoint;
pub(crate) use tls::TlsConfig;
pub(crate) use topic::TopicConfig;

/// Default address of AMQP.
pub(crate) const AMQP_LISTEN_DEFAULT: &str = "127.0.0.1:5672";
/// Default address of HTTP; 5300 is the Service Bus emulator's port.
pub(crate) const HTTP_LISTEN_DEFAULT: &str = "127.0.0.1:5300";
/// Default data directory, relative to the working directory.
pub(crate) const DATA_DIR_DEFAULT: &str = "./data";
/// The queue created if neither flags, variables nor a file declare any entity.
pub(crate) const QUEUE_DEFAULT: &str = "queue";

/// The settings of `serve`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// The address of AMQP.
    pub(crate) amqp_listen: ListenAddress,
    /// Settings of AMQP.
    pub(crate) amqp: AmqpConfig,
    /// Settings of authorization.
    pub(crate) authorization: AuthorizationConfig,
    /// The address of HTTP.
    pub(crate) http_listen: ListenAddress,
    /// Settings common to all addresses.
    pub(crate) network: NetworkConfig,
    /// Settings of the console.
    pub(crate) console: ConsoleConfig,
    /// Settings of TLS.
    pub(crate) tls: TlsConfig,
    /// The data directory.
    pub(crate) data_dir: PathBuf,
    /// Settings of the store.
    pub(crate) storage: StorageConfig,
    /// This node among others that share a replicated store.
    pub(crate) cluster: ClusterConfig,
    /// The filter of the log.
    pub(crate) log_filter: LogFilter,
    /// The format of the log.
    pub(crate) log_format: LogFormat,
    /// The destination of the audit log.
    pub(crate) audit: AuditTarget,
    /// Settings of metrics.
    pub(crate) metrics: MetricsConfig,
    /// Settings of the export to an OpenTelemetry collector.
    pub(crate) telemetry: TelemetryConfig,
    /// Settings for tests.
    pub(crate) development: DevelopmentConfig,
    /// Limits that apply to all entities.
    pub(crate) limits: LimitsConfig,
    /// Rate limits of messages.
    pub(crate) rates: Rates,
    /// Limits of transactions.
    pub(crate) transactions: TransactionLimits,
    /// The file to which the addresses in use are written once connections are accepted.
    pub(crate) ready_file: Option<PathBuf>,
    /// Queues declared in the file: created, or their options updated.
    pub(crate) queues: Vec<QueueConfig>,
    /// Queues requested by flag: created with default options if they don't exist, otherwise unchanged.
    pub(crate) queues_if_missing: Vec<String>,
    /// Topics declared in the file: created, or their options updated, with their subscriptions.
    pub(crate) topics: Vec<TopicConfig>,
    /// Topics and subscriptions requested by flag: created with default options if they don't exist, otherwise
    /// unchanged.
    pub(crate) topics_if_missing: Vec<AskedTopic>,
    /// Whether neither a file nor a flag declares entities.
    pub(crate) undeclared: bool,
    /// Settings of the namespace.
    pub(crate) namespace: NamespaceConfig,
    /// Whether this broker replaces the Service Bus emulator.
    pub(crate) replaces_emulator: bool,
    /// Settings in a file without effect, each with its position.
    pub(crate) notes: Vec<String>,
}

/// Why the configuration is unusable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// Errors in the file.
    #[error(transparent)]
    File(#[from] Problems),
    /// Values that are valid each but not together.
    #[error("{0}")]
    Combination(String),
}

impl ConfigError {
    /// The exit code of the process.
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Self::File(problems) => problems.exit,
            Self::Combination(_) => Exit::Usage,
        }
    }
}

impl Config {
    /// Reads the file that the arguments name and overrides it with flags and variables.
    ///
    /// # Errors
    /// [`ConfigError`], ready to be printed.
    pub(crate) fn resolve(args: ServeArgs) -> Result<Self, ConfigError> {
        let file = args.config.as_deref().map(load).transpose()?;
        let asks = !args.queues.is_empty() || !args.topics.is_empty();
        let is_told = file.is_some() || asks;
        let replaces_emulator = args.emulator.replaces_emulator();
        let file = file.unwrap_or_default();
        let bounds = Bounds::of(&file);
        let emulators = match args.emulator.file() {
            Some(path) => Some(emulator::load(path, bounds)?),
            None if replaces_emulator && !is_told => {
                Some(emulator::parse(emulator::SAMPLE_NAME, emulator::SAMPLE, bounds)?)
            }
            None => None,
        };
        let undeclared = !is_told && emulators.is_none();
        let file = match emulators {
            Some(emulators) => file.with_emulators(emulators).map_err(ConfigError::Combination)?,
            None => file,
        };
        Self::merge(args, file, undeclared)
    }

    /// Combines flags and variables with the file: the former take precedence.
    fn merge(args: ServeArgs, file: FileConfig, undeclared: bool) -> Result<Self, ConfigError> {
        let flags = AuthorizationFlags {
            required: args.authorization_required,
            allow_default_key: args.allow_default_key,
        };
        let topics_if_missing = asked::topics(args.topics, &file.topics, &file.queues, &args.queues)
            .map_err(ConfigError::Combination)?;
        let queues_if_missing =
            asked::queues(args.queues, &file.queues, &file.topics).map_err(ConfigError::Combination)?;
        let replaces_emulator = file.is_emulators || args.emulator.replaces_emulator();
        let tier = file.namespace.tier;
        check_topics(tier, &topics_if_missing)?;
        let config = Self {
            amqp_listen: listen_address(args.amqp.or(file.amqp_listen), AMQP_LISTEN_DEFAULT)?,
            http_listen: http_address(args.http.or(file.http_listen), args.emulator.emulator_http_port)?,
            network: NetworkConfig {
                also_listen: args.also_listen.or(file.also_listen).unwrap_or_default(),
                allowed_origins: args.allowed_origins.unwrap_or(file.network.allowed_origins),
                allowed_hosts: args.allowed_hosts.unwrap_or(file.network.allowed_hosts),
                ..file.network
            },
            console: file.console,
            tls: file.tls,
            data_dir: args.data_dir.or(file.data_dir).unwrap_or_else(|| DATA_DIR_DEFAULT.into()),
            amqp: file.amqp,
            storage: file.storage.at(args.storage_url),
            cluster: file.cluster.called(args.node, args.advertise),
            log_filter: args.log_level.or(file.log_filter).unwrap_or_default(),
            log_format: args.log_format.or(file.log_format).unwrap_or_default(),
            audit: file.audit.unwrap_or_default(),
            metrics: file.metrics,
            telemetry: file.telemetry,
            development: DevelopmentConfig {
                time_travel: args.time_travel.or(file.time_travel).unwrap_or(file.development.time_travel),
                ..file.development
            },
            authorization: flags.over(file.authorization_flags, file.authorization),
            limits: file.limits,
            rates: file.rates,
            transactions: file.transactions,
            ready_file: args.ready_file,
            queues: file.queues.into_iter().map(|queue| queue.complete(tier)).collect(),
            queues_if_missing,
            topics: file.topics.into_iter().map(|topic| topic.complete(tier)).collect(),
            topics_if_missing,
            undeclared,
            namespace: file.namespace,
            replaces_emulator,
            notes: file.notes,
        };
        config.check_combinations()?;
        Ok(config)
    }

    /// Checks for values that can't be used together; the message has one line for each pair.
    fn check_combinations(&self) -> Result<(), ConfigError> {
        let addresses = self.addresses();
        let checks = [
            self.check_data_dir().map_err(ConfigError::Combination),
            self.storage.check().map_err(ConfigError::Combination),
            self.limits.check(self.amqp.reassembly_bytes_max).map_err(ConfigError::Combination),
            self.tls.check(),
            self.development.check(&addresses),
            self.authorization.check(&addresses),
        ];
        let wrong: Vec<String> =
            checks.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
        if wrong.is_empty() { Ok(()) } else { Err(ConfigError::Combination(wrong.join("\n"))) }
    }

    /// A URL would be a directory of that name, and its messages would not be in the database. It may contain a password.
    fn check_data_dir(&self) -> Result<(), String> {
        if !DatabaseUrl::is_like(&self.data_dir.to_string_lossy()) {
            return Ok(());
        }
        Err("--data-dir is the URL of a database; write it as --storage-url".to_owned())
    }

    /// Every address to listen on, each once, with its setting's name.
    pub(crate) fn addresses(&self) -> Vec<(&'static str, &ListenAddress)> {
        let more = self.network.also_listen.iter().map(|address| ("also_listen", address));
        let all = [("AMQP", &self.amqp_listen), ("HTTP", &self.http_listen)].into_iter().chain(more);
        let mut once: Vec<(&'static str, &ListenAddress)> = Vec::new();
        for (what, address) in all {
            if !once.iter().any(|(_, known)| known.collides_with(address)) {
                once.push((what, address));
            }
        }
        once
    }
}

/// A configured address to listen on, or the default.
fn listen_address(configured: Option<ListenAddress>, default: &str) -> Result<ListenAddress, ConfigError> {
    configured.map_or_else(|| default.parse().map_err(ConfigError::Combination), Ok)
}

/// The address of HTTP: as configured or the default, on the emulator's port if that is set.
fn http_address(
    configured: Option<ListenAddress>,
    emulator_port: Option<u16>,
) -> Result<ListenAddress, ConfigError> {
    let address = listen_address(configured, HTTP_LISTEN_DEFAULT)?;
    Ok(match emulator_port {
        Some(port) => address.with_port(port),
        None => address,
    })
}

/// Checks that the tier has topics, if any are requested.
fn check_topics(tier: Tier, requested: &[AskedTopic]) -> Result<(), ConfigError> {
    match requested.first() {
        Some(AskedTopic { topic, .. }) if !tier.has_topics() => Err(ConfigError::Combination(format!(
            "the topic \"{topic}\" is requested, but the tier basic in [namespace] has no topics"
        ))),
        _ => Ok(()),
    }
}
