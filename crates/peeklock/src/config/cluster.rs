//! `[cluster]`: this node among the nodes that share a replicated store.

use std::ops::RangeInclusive;

use super::storage::StorageConfig;
use super::table::Table;
use super::{StorageEngine, problem::Collector};

const LEASE_TIME_MS: RangeInclusive<u64> = 3_000..=300_000;
const LEASE_TIME_MS_DEFAULT: u64 = 6_000;
const NAME_CHARS_MAX: usize = 100;
const ADDRESS_CHARS_MAX: usize = 300;

/// Settings of this node; see the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterConfig {
    /// The node's name; `None` for the machine's name.
    pub(crate) node: Option<String>,
    /// The address of the node, for operators.
    pub(crate) advertise: Option<String>,
    /// Another node may take over from a node that does not renew for this long.
    pub(crate) lease_time_ms: u64,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self { node: None, advertise: None, lease_time_ms: LEASE_TIME_MS_DEFAULT }
    }
}

impl ClusterConfig {
    /// Overrides name and address where they are given.
    pub(super) fn called(self, node: Option<String>, advertise: Option<String>) -> Self {
        Self { node: node.or(self.node), advertise: advertise.or(self.advertise), ..self }
    }

    /// The name of this node.
    pub(crate) fn node_name(&self) -> String {
        let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.node.clone().unwrap_or_else(machine)
    }
}

/// Reads the section; without a replicated store, its settings are noted as having no effect.
pub(super) fn read(
    mut table: Table<'_, '_>,
    storage: &StorageConfig,
    notes: &Collector<'_>,
) -> ClusterConfig {
    let default = ClusterConfig::default();
    let node = table.text("node", "\"a\"", |text| optional(text, node)).flatten();
    let advertise =
        table.text("advertise", "\"amqps://broker-a:5671\"", |text| optional(text, address)).flatten();
    let lease_time_ms = table.duration_ms("lease_time", default.lease_time_ms, &LEASE_TIME_MS);
    let config = ClusterConfig { node, advertise, lease_time_ms };
    if storage.engine == StorageEngine::Local && config != default {
        let said = ["node", "advertise", "lease_time"].into_iter().find_map(|key| table.value(key));
        let place = said.map_or(0..0, |(_, place)| place);
        let message = "[cluster] has no effect unless [storage] engine = \"postgres\", or --storage-url or PEEKLOCK_STORAGE_URL is set";
        notes.report(&place, message);
    }
    table.finish();
    config
}

fn optional(text: &str, parse: impl Fn(&str) -> Result<String, String>) -> Result<Option<String>, String> {
    if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
}

/// Checks the name of a node.
///
/// # Errors
/// The reason.
pub(super) fn node(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.len() <= NAME_CHARS_MAX && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "\"{}\" is not a valid name of a node; write 1 to {NAME_CHARS_MAX} of A-Z, a-z, 0-9, - . _",
            text.escape_debug()
        )),
    }
}

/// Checks the address of a node.
///
/// # Errors
/// The reason.
pub(super) fn address(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_graphic();
    match !text.is_empty() && text.len() <= ADDRESS_CHARS_MAX && text.bytes().all(fits) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "\"{}\" is not an address; write \"amqps://broker-a:5671\" or the like",
            text.escape_debug()
        )),
    }
}
