//! `peeklock serve`: joins store, engine and front ends, and takes them apart again in order.

use crate::config::Config;
use crate::exit::Exit;
use crate::logging;

/// Serves until a signal.
pub(crate) fn run(config: Config) -> Exit {
    logging::start(&config.log_filter, config.log_format);
    tracing::info!("{config:?}");
    Exit::Success
}
