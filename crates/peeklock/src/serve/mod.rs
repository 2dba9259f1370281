//! `peeklock serve`: joins store, engine and front ends, and takes them apart again in order.
//!
//! Starting: bind all addresses (a taken port is reported before anything is touched), answer 503 on `/health`, open
//! the store, read or make certificates, restore and declare entities, serve AMQP, answer 200. Stopping: answer 503, serve
//! no new AMQP connections, let connections finish, stop the partitions, close the store.
//!
//! What lives on an open store is a [`term`]; everything else belongs to the [`process`]. A process with a data directory serves one
//! term; a [`node`] of a cluster serves one after the other, and waits in between for the lease of its shard ([`standby`]).

mod access;
mod dead_letters;
mod descriptors;
mod development;
mod emulator;
mod entities;
mod error;
mod front_ends;
mod health;
mod http;
mod memory;
mod metrics;
mod network;
mod node;
mod openid;
mod pages;
mod parts;
mod patient;
mod process;
mod ready;
mod reload;
mod routes;
mod signals;
mod standby;
mod store;
mod subscriptions;
mod supervisor;
#[cfg(feature = "otlp")]
mod telemetry;
#[cfg(not(feature = "otlp"))]
#[path = "telemetry_absent.rs"]
mod telemetry;
mod term;

use peeklock_engine::runtime::LostShard;
use tokio::task::JoinHandle;

use crate::audit::AuditControl;
use crate::config::{Config, ServeArgs};
use crate::exit::Exit;
use crate::logging::{self, LogControl};
use error::ServeError;
use node::serve_as_node;
use process::Process;
use signals::Signals;
pub(crate) use store::local_options;
use store::{OpenStore, Shards};
use term::{Over, Term};

/// Serves until a signal, or until nothing can be served any more. `args` is what the configuration was resolved from, and is again on SIGHUP.
pub(crate) fn run(config: Config, args: ServeArgs) -> Exit {
    let opened = AuditControl::open(&config.audit);
    let audit = opened.as_ref().cloned().unwrap_or_default();
    let log = match logging::start(&config.log_filter, config.log_format, &audit) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("error: can't start the thread that writes the log: {error}");
            return Exit::Failure;
        }
    };
    let control = audit.clone();
    let outcome = opened.map_err(ServeError::Audit).and_then(|_| run_runtime(config, args, log, control));
    audit.flush();
    let exit = match outcome {
        Ok(()) => {
            tracing::info!("stopped");
            Exit::Success
        }
        Err(error) => {
            tracing::error!("{error}");
            error.exit()
        }
    };
    logging::flush();
    exit
}

fn run_runtime(
    config: Config,
    args: ServeArgs,
    log: LogControl,
    audit: AuditControl,
) -> Result<(), ServeError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("peeklock")
        .build()
        .map_err(ServeError::System)
        .and_then(|runtime| runtime.block_on(serve(config, args, log, audit)))
}

async fn serve(
    config: Config,
    args: ServeArgs,
    log: LogControl,
    audit: AuditControl,
) -> Result<(), ServeError> {
    log.report_left_out();
    emulator::explain(&config);
    supervisor::starting();
    let (mut signals, hangup) = Signals::install().map_err(ServeError::System)?;
    let mut process = Process::start(config.clone(), args, hangup, (log, audit)).await?;
    let shards = Shards::of(&config)?;
    match &shards {
        Shards::Local => serve_directory(&mut process, &mut signals, &config).await?,
        Shards::Cluster(cluster) => {
            serve_as_node(&mut process, &mut signals, &config, &shards, cluster).await?;
        }
    }
    process.end().await;
    Ok(())
}

/// One term.
async fn serve_directory(
    process: &mut Process,
    signals: &mut Signals,
    config: &Config,
) -> Result<(), ServeError> {
    let store = OpenStore::open(config, &Shards::Local).await?;
    let term = Term::start(process, store, None).await?;
    match term.serve(process, signals).await? {
        Over::Lost(lost) => Err(exit_without(lost)),
        Over::Stopped | Over::LeaseLost | Over::Moved(_) => term.drain(process).await,
    }
}

/// Ends a task; whatever it held is free then.
async fn end(task: JoinHandle<()>) {
    task.abort();
    let _ = task.await;
}

/// What the loss of a shard means for this process: it has no other, so it exits and leaves it to its supervisor to start it
/// anew, which decides what of the last writes is durable. Until then `/health/ready` says so, and clients are told to retry.
fn exit_without(lost: LostShard) -> ServeError {
    supervisor::stopping("nothing more can be stored");
    ServeError::Lost(lost)
}
