//! Behaviour of a broker that replaces the Service Bus emulator.

use std::env;

use crate::cli::output;
use crate::config::Config;

/// The line that the emulator prints on standard output when it is ready; Testcontainers' modules and many scripts wait
/// for it.
const UP: &str = "Emulator Service is Successfully Up!";

/// The emulator's variables without effect here: there is no SQL server, and no licence to accept.
const WITHOUT_EFFECT: [&str; 5] =
    ["ACCEPT_EULA", "CONFIG_PATH", "MSSQL_SA_PASSWORD", "SQL_SERVER", "SQL_WAIT_INTERVAL"];

/// Logs which of the emulator's settings have no effect.
pub(super) fn explain(config: &Config) {
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    if !config.replaces_emulator {
        return;
    }
    for name in WITHOUT_EFFECT.iter().filter(|name| env::var_os(name).is_some()) {
        tracing::debug!("the variable {name} is the emulator's and has no effect");
    }
    tracing::debug!("Logging in Config.json has no effect: the log goes to standard error");
}

/// Prints the line that tools for the emulator wait for.
pub(super) fn print_ready_line(config: &Config) {
    if config.replaces_emulator {
        output::line(UP);
    }
}
