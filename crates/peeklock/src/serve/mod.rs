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
mod reread;
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
mod watched_stream;

use std::io;
use std::time::Duration;

use peeklock_engine::runtime::LostShard;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::Signal;
use tokio::task::JoinHandle;

use crate::audit::AuditControl;
use crate::cli::output;
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

/// How long the end of the process waits for blocking operations that nothing needs any more, such as the opening of a store
/// or a query of a name.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(1);

/// Serves until a signal, or until serving is no longer possible. `args` is the source of the configuration, which is
/// resolved again on SIGHUP. `notes` are logged in addition to those about the configuration file.
pub(crate) fn run(args: ServeArgs, notes: &[String]) -> Exit {
    let runtime = match start_runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::error(ServeError::System(error));
            return Exit::Failure;
        }
    };
    // First, so that no signal has its default action.
    let signals = {
        let _context = runtime.enter();
        Signals::install()
    };
    match Config::resolve(args.clone()) {
        Ok(mut config) => {
            config.notes.extend_from_slice(notes);
            run_configured(config, args, runtime, signals)
        }
        Err(error) => {
            output::error(&error);
            error.exit()
        }
    }
}

fn run_configured(
    config: Config,
    args: ServeArgs,
    runtime: Runtime,
    signals: io::Result<(Signals, Signal)>,
) -> Exit {
    let opened = AuditControl::open(&config.audit);
    let audit = opened.as_ref().cloned().unwrap_or_default();
    let log = match logging::start(&config.log_filter, config.log_format, &audit) {
        Ok(log) => log,
        Err(error) => {
            output::error(format!("can't start the thread that writes the log: {error}"));
            return Exit::Failure;
        }
    };
    let control = audit.clone();
    let outcome = opened.map_err(ServeError::Audit).and_then(|_| {
        let signals = signals.map_err(ServeError::System)?;
        signals.0.set_audit(audit.clone());
        runtime.block_on(serve(config, args, signals, (log, control)))
    });
    runtime.shutdown_timeout(SHUTDOWN_WITHIN);
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

fn start_runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_name("peeklock").build()
}

async fn serve(
    config: Config,
    args: ServeArgs,
    (mut signals, hangup): (Signals, Signal),
    (log, audit): (LogControl, AuditControl),
) -> Result<(), ServeError> {
    log.report_left_out();
    memory::give_back_unused();
    emulator::explain(&config);
    supervisor::starting();
    let starting = Process::start(config.clone(), args, hangup, (log, audit));
    let Some(process) = signals.unless_stopped(starting).await else { return Ok(()) };
    let mut process = process?;
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

/// Serves the only term of a data directory. A stop during the start has the effects of a crash, which loses nothing.
async fn serve_directory(
    process: &mut Process,
    signals: &mut Signals,
    config: &Config,
) -> Result<(), ServeError> {
    let Some(store) = signals.unless_stopped(OpenStore::open(config, &Shards::Local)).await else {
        return Ok(());
    };
    let Some(term) = signals.unless_stopped(Term::start(process, store?, None)).await else { return Ok(()) };
    let term = term?;
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
