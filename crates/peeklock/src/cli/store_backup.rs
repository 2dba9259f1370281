//! `peeklock store backup TARGET`: backs up a running or a stopped broker.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use peeklock_storage::Error;
use peeklock_storage::local::{
    BackupOptions, BackupPlan, BackupProgress, BackupReport, BackupWatch, PinnedPlan, write_backup,
};
use serde_json::json;

use super::output;
use super::store_failure::Failure;
use crate::config::{DATA_DIR_DEFAULT, parse_size_bytes};
use crate::control::Client;
use crate::exit::Exit;

const MIB: f64 = (1 << 20) as f64;
/// The variable is set where brokers store messages in a database.
const STORAGE_URL: &str = "PEEKLOCK_STORAGE_URL";
/// Range of `--rate`.
const RATE_BYTES_PER_SECOND: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 30;
/// Priority of the process that copies beside a running broker: the lowest.
const NICENESS: i32 = 19;
/// Interval of progress output on a terminal.
const SHOWN_INTERVAL: Duration = Duration::from_secs(1);

/// What to back up, and where.
#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// Where the backup is written: a directory that is new or empty.
    #[arg(value_name = "TARGET")]
    target: PathBuf,

    /// The data directory, of a running broker or a stopped one.
    #[arg(long, value_name = "DIR", env = "PEEKLOCK_DATA_DIR", hide_env_values = true)]
    #[arg(default_value = DATA_DIR_DEFAULT)]
    data_dir: PathBuf,

    /// Copy every file. Without this option, complete files become hard links if TARGET is on the same file system:
    /// that is quick and takes no space, but a defect of the disk then affects both.
    #[arg(long)]
    copy: bool,

    /// Maximum bytes copied per second. While a broker runs, the copy also pauses three times as long as it keeps the
    /// disk busy, and runs at the lowest priority.
    #[arg(long, value_name = "SIZE", default_value = "64 MiB", value_parser = rate)]
    rate: u64,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> Result<u64, String> {
    parse_size_bytes(text, &RATE_BYTES_PER_SECOND)
}

pub(super) fn run(args: &BackupArgs) -> Exit {
    let is_new = !args.target.exists();
    let started = Instant::now();
    match back_up(args) {
        Ok((report, is_running)) => {
            show(args, &report, is_running, started);
            Exit::Success
        }
        Err(failure) => {
            if is_new {
                // Fails if the directory is not empty or was not created.
                let _ = fs::remove_dir(&args.target);
            }
            failure.show(args.json, &json!({ "complete": false }));
            failure.exit
        }
    }
}

fn back_up(args: &BackupArgs) -> Result<(BackupReport, bool), Failure> {
    Failure::unless_files(&args.data_dir)?;
    if std::env::var_os(STORAGE_URL).is_some() && !args.data_dir.exists() {
        Failure::unless_files(Path::new("postgres://"))?;
    }
    Failure::unless_outside(&args.data_dir, "data directory", &args.target)?;
    let connected = Client::connect(&args.data_dir);
    let broker = connected.map_err(|error| {
        let message = format!("can't reach the broker that uses {}: {error}", args.data_dir.display());
        let exit = if error.kind() == io::ErrorKind::PermissionDenied { Exit::Data } else { Exit::Failure };
        Failure { message, exit }
    })?;
    match broker {
        Some(mut broker) => {
            let plan = broker.backup();
            let (plan, reserve_bytes) =
                plan.map_err(|error| Failure::data(format!("the broker refused the backup: {error}")))?;
            write(args, &plan, reserve_bytes, Some(broker)).map(|report| (report, true))
        }
        None => {
            let pinned = PinnedPlan::of_stopped(&args.data_dir).map_err(|error| busy(&error))?;
            write(args, pinned.plan(), 0, None).map(|report| (report, false))
        }
    }
}

fn busy(error: &Error) -> Failure {
    let advice = match error {
        Error::Fenced { .. } => {
            "\nThe broker has no control socket (control.sock) yet: it may be starting, or its log says why not."
        }
        _ => "",
    };
    let Failure { message, exit } = Failure::of_source(error);
    Failure { message: format!("{message}{advice}"), exit }
}

fn write(
    args: &BackupArgs,
    plan: &BackupPlan,
    reserve_bytes: u64,
    broker: Option<Client>,
) -> Result<BackupReport, Failure> {
    if broker.is_some() {
        // The broker's commits compete for the CPU as well as for the disk. If lowering the priority is not permitted,
        // the copy is still correct.
        let _ = rustix::process::nice(NICENESS);
    }
    let options = BackupOptions {
        is_linking: !args.copy,
        copy_bytes_per_second: args.rate,
        disk_share_percent: if broker.is_some() { BackupOptions::default().disk_share_percent } else { 100 },
        free_bytes_min: if share_a_file_system(&args.data_dir, &args.target) { reserve_bytes } else { 0 },
    };
    let is_shown = !args.json && io::stderr().is_terminal();
    let mut watch = Watch { broker, is_shown, shown: Instant::now() };
    write_backup(&args.data_dir, &args.target, plan, &options, &mut watch)
        .map_err(|error| Failure::of(&error))
}

/// Whether both are on the same file system, so that filling one fills the other.
fn share_a_file_system(data_dir: &Path, target: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let Ok(target) = std::path::absolute(target) else { return true };
    let target = target.ancestors().find_map(device);
    target.is_none() || target == device(data_dir)
}

/// Reports progress to the broker and the terminal.
struct Watch {
    broker: Option<Client>,
    is_shown: bool,
    shown: Instant,
}

impl BackupWatch for Watch {
    fn progress(&mut self, progress: BackupProgress) -> Result<(), Error> {
        let text = || {
            format!(
                "{} of {} segments, {:.1} of {:.1} MiB copied",
                progress.segments_done,
                progress.segments_total,
                progress.bytes_done as f64 / MIB,
                progress.bytes_total as f64 / MIB
            )
        };
        if self.is_shown && self.shown.elapsed() >= SHOWN_INTERVAL {
            self.shown = Instant::now();
            output::note(text());
        }
        let told = self.broker.as_mut().map_or(Ok(()), |broker| broker.progress(text));
        told.map_err(|error| lost(&error))
    }

    fn confirm(&mut self) -> Result<(), Error> {
        self.broker.as_mut().map_or(Ok(()), Client::finish).map_err(|error| lost(&error))
    }
}

fn lost(error: &io::Error) -> Error {
    Error::Unavailable { reason: format!("the broker stopped or aborted the backup: {error}") }
}

fn show(args: &BackupArgs, report: &BackupReport, is_running: bool, started: Instant) {
    let BackupReport { segments, segments_linked, bytes, bytes_copied } = *report;
    if args.json {
        return output::json(&json!({
            "complete": true,
            "backup": args.target.display().to_string(),
            "running": is_running,
            "segments": segments,
            "segments_linked": segments_linked,
            "bytes": bytes,
            "bytes_copied": bytes_copied,
            "seconds": started.elapsed().as_secs_f64(),
        }));
    }
    output::line(format!(
        "{}: complete, of a {} broker\n\
         segments        {segments}, {segments_linked} of them shared with the data directory\n\
         size            {:.1} MiB, {:.1} MiB of them copied",
        args.target.display(),
        if is_running { "running" } else { "stopped" },
        bytes as f64 / MIB,
        bytes_copied as f64 / MIB,
    ));
}
