//! Flags and variables of `peeklock serve`, which override the file.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;

use super::asked::queue_name;
use super::emulator;
use super::network::{host_pattern, origin};
use super::{AskedTopic, DatabaseUrl, ListenAddress, cluster};
use crate::logging::{LogFilter, LogFormat};

/// How to run the broker.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file in TOML; config/peeklock.toml in the source tree documents every key. A file whose name ends
    /// with .json is read as --emulator-config reads it.
    #[arg(long, value_name = "FILE", env = "PEEKLOCK_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) emulator: EmulatorArgs,

    /// Directory for messages, created if missing, owned by one broker at a time [default: ./data].
    #[arg(long, value_name = "DIR", env = "PEEKLOCK_DATA_DIR", hide_env_values = true)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Keep messages in this PostgreSQL database instead of a directory; several nodes may share it. If the URL has a
    /// password, use the variable, or url_file in the file: other users of the machine can see the command line.
    #[arg(long, value_name = "URL", env = "PEEKLOCK_STORAGE_URL", hide_env_values = true)]
    pub(crate) storage_url: Option<DatabaseUrl>,

    /// Name of this node among those that share a database [default: the machine's name].
    #[arg(long, value_name = "NAME", env = "PEEKLOCK_NODE", hide_env_values = true, value_parser = cluster::node)]
    pub(crate) node: Option<String>,

    /// Address of this node, shown to operators with its name, such as amqps://broker-a:5671.
    #[arg(long, value_name = "ADDRESS", env = "PEEKLOCK_ADVERTISE", hide_env_values = true)]
    #[arg(value_parser = cluster::address)]
    pub(crate) advertise: Option<String>,

    /// Where AMQP clients connect; 0.0.0.0 for every interface, port 0 for a free port [default: 127.0.0.1:5672].
    #[arg(long, value_name = "ADDR:PORT", env = "PEEKLOCK_AMQP", hide_env_values = true)]
    pub(crate) amqp: Option<ListenAddress>,

    /// Where HTTP is served: health, administration, messages [default: 127.0.0.1:5300].
    #[arg(long, value_name = "ADDR:PORT", env = "PEEKLOCK_HTTP", hide_env_values = true)]
    pub(crate) http: Option<ListenAddress>,

    /// Listen on more addresses, such as ports 5671 and 443 for clients with fixed ports; every address serves every
    /// protocol. May be repeated or comma-separated.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "PEEKLOCK_ALSO_LISTEN",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) also_listen: Option<Vec<ListenAddress>>,

    /// Origins (scheme, host and port) whose web pages may use the broker. May be repeated or comma-separated.
    #[arg(
        long,
        value_name = "ORIGIN",
        env = "PEEKLOCK_ALLOWED_ORIGINS",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = origin
    )]
    pub(crate) allowed_origins: Option<Vec<String>>,

    /// More host names that HTTP clients may use for the broker, such as broker.example. May be repeated or
    /// comma-separated.
    #[arg(
        long,
        value_name = "HOST",
        env = "PEEKLOCK_ALLOWED_HOSTS",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = host_pattern
    )]
    pub(crate) allowed_hosts: Option<Vec<String>>,

    /// Create a queue with default options if it doesn't exist; may be repeated or comma-separated.
    /// With none of --queue, --topic and --config, an empty data directory gets one queue named `queue`.
    #[arg(
        long = "queue",
        value_name = "NAME",
        env = "PEEKLOCK_QUEUES",
        hide_env_values = true,
        value_delimiter = ','
    )]
    #[arg(value_parser = queue_name)]
    pub(crate) queues: Vec<String>,

    /// Create a topic, or a topic and a subscription that gets every message, with default options if it doesn't
    /// exist; may be repeated or comma-separated. If the topic's name has a "/" itself: NAME/Subscriptions/NAME.
    #[arg(
        long = "topic",
        value_name = "NAME[/SUBSCRIPTION]",
        env = "PEEKLOCK_TOPICS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub(crate) topics: Vec<AskedTopic>,

    /// Whether clients must present a token, key or certificate; with --authorization-required=false every client may
    /// do everything, which is refused unless AMQP and HTTP listen on loopback [default: true].
    #[arg(long, value_name = "BOOL", env = "PEEKLOCK_AUTHORIZATION_REQUIRED", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new())]
    pub(crate) authorization_required: Option<bool>,

    /// Accept the emulator's key, which is public, although AMQP or HTTP listen on other addresses than loopback.
    #[arg(long, value_name = "BOOL", env = "PEEKLOCK_ALLOW_DEFAULT_KEY", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new())]
    pub(crate) allow_default_key: Option<bool>,

    /// What to log to standard error: off, error, warn, info, debug, trace, or levels by module such as
    /// "info,peeklock_amqp=debug" [default: info].
    #[arg(long, value_name = "LEVEL", env = "PEEKLOCK_LOG_LEVEL", hide_env_values = true)]
    pub(crate) log_level: Option<LogFilter>,

    /// Format of log lines [default: text].
    #[arg(long, value_name = "FORMAT", env = "PEEKLOCK_LOG_FORMAT", hide_env_values = true, value_enum)]
    pub(crate) log_format: Option<LogFormat>,

    /// Let tests move the broker's clock forward: POST /development/clock with {"advance":"PT1H"}. Refused
    /// unless AMQP and HTTP listen on loopback.
    #[arg(long, value_name = "BOOL", env = "PEEKLOCK_TIME_TRAVEL", hide_env_values = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new())]
    pub(crate) time_travel: Option<bool>,

    /// Once connections are accepted, write the addresses in use and a connection string to this file, as JSON.
    #[arg(long, value_name = "FILE", env = "PEEKLOCK_READY_FILE", hide_env_values = true)]
    pub(crate) ready_file: Option<PathBuf>,
}

/// What makes the broker stand in for the Service Bus emulator.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EmulatorArgs {
    /// Config.json of the Service Bus emulator, whose queues, topics and subscriptions are declared
    /// [default: /ServiceBus_Emulator/ConfigFiles/Config.json, if there is one].
    #[arg(long, value_name = "FILE", env = "PEEKLOCK_EMULATOR_CONFIG", hide_env_values = true)]
    pub(crate) emulator_config: Option<PathBuf>,

    /// The emulator's variable: HTTP is served on this port.
    #[arg(long, env = "EMULATOR_HTTP_PORT", hide = true, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) emulator_http_port: Option<u16>,

    /// The emulator's variable: with the next one it shows that this broker replaces the emulator.
    #[arg(long, env = "ACCEPT_EULA", hide = true, hide_env_values = true)]
    pub(crate) accept_eula: Option<String>,

    /// The emulator's variable.
    #[arg(long, env = "SQL_SERVER", hide = true, hide_env_values = true)]
    pub(crate) sql_server: Option<String>,
}

impl EmulatorArgs {
    /// The file to read, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        let default = || Some(Path::new(emulator::FILE_DEFAULT)).filter(|path| path.exists());
        self.emulator_config.as_deref().or_else(default)
    }

    /// Whether the variables that the emulator requires are set.
    pub(super) const fn replaces_emulator(&self) -> bool {
        self.accept_eula.is_some() && self.sql_server.is_some()
    }
}
