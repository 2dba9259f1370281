//! `[console]`: the console for browsers.

use super::table::Table;

/// Settings of the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConsoleConfig {
    /// Whether `/console` is served. The management API is always served: it requires a key.
    pub(crate) is_enabled: bool,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self { is_enabled: true }
    }
}

/// Reads the section.
pub(super) fn read(mut table: Table<'_, '_>) -> ConsoleConfig {
    let is_enabled = table.boolean("enabled", ConsoleConfig::default().is_enabled);
    table.finish();
    ConsoleConfig { is_enabled }
}
