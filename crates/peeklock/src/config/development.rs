//! `[development]`: features for testing programs that use the broker, not for production.

use super::table::Table;
use super::{ConfigError, ListenAddress};

/// Settings for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DevelopmentConfig {
    /// Whether every client of the HTTP port may move the broker's clock forward.
    pub(crate) time_travel: bool,
    /// Whether that is allowed even if other machines can connect.
    pub(crate) allow_remote: bool,
}

impl DevelopmentConfig {
    /// Refuses to let other machines move the clock, unless that is explicitly allowed.
    ///
    /// # Errors
    /// [`ConfigError::Combination`] with the first address that is not on loopback.
    pub(super) fn check(self, listeners: &[(&str, &ListenAddress)]) -> Result<(), ConfigError> {
        if !self.time_travel || self.allow_remote {
            return Ok(());
        }
        let Some((what, address)) = listeners.iter().find(|(_, address)| !address.is_loopback()) else {
            return Ok(());
        };
        Err(ConfigError::Combination(format!(
            "time travel is on, so every client that reaches the broker can let its messages expire, and {what} listens on \
             {address}, which other machines may reach; listen on 127.0.0.1, or write allow_remote = true under \
             [development] in the configuration file"
        )))
    }
}

/// Reads the section: whether time travel is enabled, which flags may override, and the rest.
pub(super) fn read(mut table: Table<'_, '_>) -> (Option<bool>, DevelopmentConfig) {
    let default = DevelopmentConfig::default();
    let time_travel = table.boolean_or_none("time_travel", default.time_travel);
    let allow_remote = table.boolean("allow_remote", default.allow_remote);
    table.finish();
    (time_travel, DevelopmentConfig { allow_remote, ..default })
}
