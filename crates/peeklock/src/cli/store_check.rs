//! `peeklock store check DIR`

use std::path::{Path, PathBuf};

use clap::Args;
use peeklock_storage::local::{self, Report, SegmentReport};
use peeklock_storage::{Error, Space};
use serde_json::{Value, json};

use super::{output, store_restore};
use crate::exit::Exit;

const MIB: f64 = (1 << 20) as f64;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The data directory, on which no broker may be running, or a backup.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Exit {
    if local::is_backup(&args.directory) {
        return store_restore::check(&args.directory, args.json);
    }
    let result = local::check(&args.directory);
    let exit = if result.is_ok() { Exit::Success } else { Exit::Data };
    match result {
        Ok(report) if args.json => output::json(&report_json(&args.directory, &report)),
        Ok(report) => output::line(describe(&args.directory, &report)),
        Err(error) if args.json => output::json(&error_json(&args.directory, &error)),
        Err(error) => output::error(advise(&error)),
    }
    exit
}

/// The report for people.
fn describe(directory: &Path, report: &Report) -> String {
    let file_bytes: u64 = report.segments.iter().map(|segment| segment.file_bytes).sum();
    let count = |space| report.keys.get(&space).copied().unwrap_or_default();
    let torn = report.torn_tail.map_or_else(
        || "none".to_owned(),
        |torn| {
            format!(
                "segment {} from byte {}; cut off at the next start, nothing accepted is in it",
                torn.segment, torn.offset
            )
        },
    );
    let closed = if report.is_closed {
        "in good order"
    } else {
        "by a crash or a kill; a missing last write would not be seen"
    };
    format!(
        "{}: intact, every checksum verified\n\
         messages        {}\n\
         other records   {}\n\
         segments        {}, {:.1} MiB on disk, {:.1} MiB live, {:.1} MiB to be cleaned\n\
         closed          {closed}\n\
         unfinished end  {torn}\n\
         hints missing   {}\n\
         opened          {} times",
        directory.display(),
        count(Space::Head),
        count(Space::Meta),
        report.segments.len(),
        mib(file_bytes),
        mib(report.live_bytes),
        mib(report.dead_bytes),
        report.hints_missing,
        report.epoch,
    )
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

/// The report for programs.
fn report_json(directory: &Path, report: &Report) -> Value {
    let count = |space| report.keys.get(&space).copied().unwrap_or_default();
    json!({
        "directory": directory.display().to_string(),
        "intact": true,
        "epoch": report.epoch,
        "closed": report.is_closed,
        "keys": { "meta": count(Space::Meta), "head": count(Space::Head), "body": count(Space::Body) },
        "live_bytes": report.live_bytes,
        "dead_bytes": report.dead_bytes,
        "torn_tail": report.torn_tail.map(|torn| json!({ "segment": torn.segment, "offset": torn.offset })),
        "hints_missing": report.hints_missing,
        "segments": report.segments.iter().map(segment_json).collect::<Vec<_>>(),
    })
}

fn segment_json(segment: &SegmentReport) -> Value {
    json!({
        "id": segment.id,
        "file_bytes": segment.file_bytes,
        "used_bytes": segment.used_bytes,
        "live_bytes": segment.live_bytes,
        "sealed": segment.is_sealed,
    })
}

/// What is wrong, for programs.
fn error_json(directory: &Path, error: &Error) -> Value {
    let (kind, place) = match error {
        Error::Corrupt { file, offset, .. } => {
            ("damaged", Some(json!({ "file": file.display().to_string(), "offset": offset })))
        }
        Error::Fenced { .. } => ("in use", None),
        _ => ("unavailable", None),
    };
    json!({
        "directory": directory.display().to_string(),
        "intact": false,
        "kind": kind,
        "place": place,
        "message": error.to_string(),
    })
}

/// What is wrong, for people, and what to do.
fn advise(error: &Error) -> String {
    let advice = match error {
        Error::Corrupt { .. } => {
            "\nNothing was changed. Copy the directory before anything else, and look at the disk."
        }
        _ => "",
    };
    format!("{error}{advice}")
}
