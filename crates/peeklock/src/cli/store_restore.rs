//! `peeklock store restore BACKUP`, and `store check` for a backup.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use peeklock_engine::runtime::is_entity;
use peeklock_storage::local::{self, Report, RestoreReport};
use peeklock_storage::{Key, Space};
use serde_json::json;

use super::output;
use super::store_failure::Failure;
use crate::config::DATA_DIR_DEFAULT;
use crate::exit::Exit;

const MIB: f64 = (1 << 20) as f64;

/// What to restore, and where.
#[derive(Debug, Args)]
pub(super) struct RestoreArgs {
    /// A backup that `peeklock store backup` has completed; it stays as it is.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// The data directory to make: new or empty.
    #[arg(long, value_name = "DIR", env = "PEEKLOCK_DATA_DIR", hide_env_values = true)]
    #[arg(default_value = DATA_DIR_DEFAULT)]
    data_dir: PathBuf,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Contents of a backup.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    entities: u64,
    messages: u64,
}

impl Counts {
    fn count(&mut self, key: Key) {
        self.entities += u64::from(is_entity(key));
        self.messages += u64::from(key.space == Space::Head);
    }
}

pub(super) fn run(args: &RestoreArgs) -> Exit {
    if args.backup != args.data_dir
        && let Err(failure) = Failure::unless_outside(&args.backup, "backup", &args.data_dir)
    {
        failure.show(args.json, &json!({ "restored": false }));
        return failure.exit;
    }
    let is_new = !args.data_dir.exists();
    let mut counts = Counts::default();
    let restored = local::restore(&args.backup, &args.data_dir, &mut |key| counts.count(key));
    match restored {
        Ok(report) => {
            show(args, &report, counts);
            Exit::Success
        }
        Err(error) => {
            if is_new {
                // Fails if the directory is not empty or was not created.
                let _ = fs::remove_dir(&args.data_dir);
            }
            let failure = Failure::of(&error);
            failure.show(args.json, &json!({ "restored": false }));
            failure.exit
        }
    }
}

fn show(args: &RestoreArgs, report: &RestoreReport, counts: Counts) {
    let Counts { entities, messages } = counts;
    let data_dir = args.data_dir.display();
    if args.json {
        return output::json(&json!({
            "restored": true,
            "directory": data_dir.to_string(),
            "entities": entities,
            "messages": messages,
            "segments": report.segments,
            "bytes": report.bytes,
            "epoch": report.epoch,
        }));
    }
    output::line(format!(
        "{data_dir}: restored, every checksum verified\n\
         queues and topics  {entities}\n\
         messages           {messages}\n\
         segments           {}, {:.1} MiB",
        report.segments,
        report.bytes as f64 / MIB,
    ));
}

/// `peeklock store check` of a backup.
pub(super) fn check(backup: &Path, is_json: bool) -> Exit {
    let mut counts = Counts::default();
    match local::check_backup(backup, &mut |key| counts.count(key)) {
        Ok(report) => {
            show_checked(backup, is_json, &report, counts);
            Exit::Success
        }
        Err(error) => {
            let failure = Failure::of_source(&error);
            failure.show(is_json, &json!({ "directory": backup.display().to_string(), "intact": false }));
            failure.exit
        }
    }
}

fn show_checked(backup: &Path, is_json: bool, report: &Report, counts: Counts) {
    let Counts { entities, messages } = counts;
    let bytes: u64 = report.segments.iter().map(|segment| segment.used_bytes).sum();
    let segments = report.segments.len();
    if is_json {
        return output::json(&json!({
            "directory": backup.display().to_string(),
            "intact": true,
            "backup": true,
            "entities": entities,
            "messages": messages,
            "segments": segments,
            "bytes": bytes,
        }));
    }
    output::line(format!(
        "{}: a complete backup, every checksum verified\n\
         queues and topics  {entities}\n\
         messages           {messages}\n\
         segments           {segments}, {:.1} MiB",
        backup.display(),
        bytes as f64 / MIB,
    ));
}
