//! `peeklock serve`: joins store, engine and front ends, and takes them apart again in order.
//!
//! Starting: bind both addresses (a taken port is reported before anything is touched), answer 503 on `/health`, open
//! the store, restore and declare queues, accept AMQP connections, answer 200. Stopping: answer 503, stop accepting,
//! let connections finish, stop the partitions, close the store.

mod bounded;
mod error;
mod health;
mod http;
mod queues;
mod ready;
mod signals;
mod store;

use std::sync::Arc;

use peeklock_engine::runtime::{Namespace, NamespaceOptions, SystemClock};
use tokio::net::TcpListener;

use crate::config::{Config, ListenAddress};
use crate::exit::Exit;
use crate::logging;
use error::ServeError;
use health::Health;
use ready::Addresses;
use signals::Signals;

/// Serves until a signal or a fatal failure.
pub(crate) fn run(config: Config) -> Exit {
    logging::start(&config.log_filter, config.log_format);
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("peeklock")
        .build()
        .map_err(ServeError::System)
        .and_then(|runtime| runtime.block_on(serve(config)));
    match outcome {
        Ok(()) => {
            tracing::info!("stopped");
            Exit::Success
        }
        Err(error) => {
            tracing::error!("{error}");
            error.exit()
        }
    }
}

async fn serve(config: Config) -> Result<(), ServeError> {
    let mut signals = Signals::install().map_err(ServeError::System)?;
    let http = bind("HTTP", &config.http_listen).await?;
    let amqp = bind("AMQP", &config.amqp_listen).await?;
    let addresses = Addresses::of(&amqp, &http).map_err(ServeError::System)?;
    let health = Health::default();
    tokio::spawn(http::serve(http, health.clone()));

    let shard = store::open(&config).await?;
    let limits = shard.limits();
    let options = NamespaceOptions {
        body_cache_bytes: usize::try_from(config.storage.body_cache_bytes).unwrap_or(usize::MAX),
        seed: None,
    };
    let namespace = Namespace::start(shard, Arc::new(SystemClock::default()), options).await?;
    queues::declare(&namespace, &config, limits).await?;

    Ok(())
}

async fn bind(what: &'static str, address: &ListenAddress) -> Result<TcpListener, ServeError> {
    TcpListener::bind((address.host(), address.port())).await.map_err(|error| ServeError::Bind {
        what,
        address: address.clone(),
        error,
    })
}
