//! `peeklock serve`: assembles store, engine and front ends, and shuts them down in order.
//!
//! Start: bind all addresses (a taken port is reported before anything is changed), answer 503 on `/health`, open the
//! store, read or make certificates, restore and declare entities, serve AMQP, answer 200. Stop: answer 503, refuse new
//! AMQP connections, let connections finish, stop the partitions, close the store.
//!
//! Everything that depends on an open store belongs to a [`term`]; everything else to the [`process`]. A process with a
//! data directory serves one term; a [`node`] of a cluster serves repeated terms, and waits in between for the lease of
//! its shard ([`standby`]).

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
mod process;
mod ready;
mod reload;
mod routes;
mod signals;
mod stall_timeout;
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
use term::{Term, TermEnd};

/// Serves until a signal, or until serving is no longer possible. `args` is the source of the configuration, which is
/// resolved again on SIGHUP.
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

/// Serves the only term of a data directory.
async fn serve_directory(
    process: &mut Process,
    signals: &mut Signals,
    config: &Config,
) -> Result<(), ServeError> {
    let store = OpenStore::open(config, &Shards::Local).await?;
    let term = Term::start(process, store, None).await?;
    match term.serve(process, signals).await? {
        TermEnd::Lost(lost) => Err(exit_without(lost)),
        TermEnd::Stopped | TermEnd::LeaseLost | TermEnd::Moved(_) => term.drain(process).await,
    }
}

/// Ends a task and waits until it has dropped its resources.
async fn end(task: JoinHandle<()>) {
    task.abort();
    let _ = task.await;
}

/// Handles the loss of a shard: this process has no other, so it exits. Its supervisor restarts it, and the restart
/// determines which of the last writes are durable. Until then `/health/ready` reports the loss, and clients are told
/// to retry.
fn exit_without(lost: LostShard) -> ServeError {
    supervisor::stopping("nothing more can be stored");
    ServeError::Lost(lost)
}
