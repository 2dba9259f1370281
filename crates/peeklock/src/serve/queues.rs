//! Declared queues meet stored ones.

use peeklock_engine::QueueOptions;
use peeklock_engine::runtime::Namespace;
use peeklock_storage::Limits;

use super::error::ServeError;
use crate::config::{Config, QUEUE_DEFAULT, QueueConfig};

const KILOBYTE: u64 = 1024;

/// Creates and updates what the configuration asks for. Stored queues that it doesn't mention are kept.
///
/// # Errors
/// A queue that the store can't serve, or the store's own.
pub(super) async fn declare(
    namespace: &Namespace,
    config: &Config,
    limits: Limits,
) -> Result<(), ServeError> {
    let stored = namespace.names();
    for queue in &config.queues {
        check_message_size(queue, limits)?;
    }
    let declared = config.queues.iter().map(|queue| (queue.name.clone(), queue.options.clone()));
    let missing = missing(&stored, config).into_iter().map(|name| (name, QueueOptions::default()));
    namespace.declare_all(declared.chain(missing)).await?;
    if !config.undeclared {
        warn_of_undeclared(&stored, config);
    }
    Ok(())
}

/// Queues to create with default options: those asked for by flag that don't exist, or the one of a broker that was
/// told nothing and holds nothing.
fn missing(stored: &[String], config: &Config) -> Vec<String> {
    if config.undeclared && stored.is_empty() {
        return vec![QUEUE_DEFAULT.to_owned()];
    }
    let exists = |name: &String| stored.iter().any(|stored| same_name(stored, name));
    config.queues_if_missing.iter().filter(|name| !exists(name)).cloned().collect()
}

fn warn_of_undeclared(stored: &[String], config: &Config) {
    for name in stored {
        let declared = config.queues.iter().map(|queue| &queue.name).chain(&config.queues_if_missing);
        if !declared.into_iter().any(|declared| same_name(declared, name)) {
            tracing::warn!(
                "queue \"{name}\" is stored but not declared; it is kept and served with its stored options"
            );
        }
    }
}

fn check_message_size(queue: &QueueConfig, limits: Limits) -> Result<(), ServeError> {
    let asked = queue.options.max_message_size_bytes;
    let limit = limits.value_bytes_max.min(limits.batch_bytes_max) as u64;
    if asked <= limit {
        return Ok(());
    }
    let queue = queue.name.clone();
    Err(ServeError::MessageSize { queue, asked_kb: asked / KILOBYTE, limit_kb: limit / KILOBYTE })
}

/// Names of entities match regardless of case.
fn same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}
