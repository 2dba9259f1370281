//! `peeklock store check DIR`

use std::path::{Path, PathBuf};

use clap::Args;
use peeklock_storage::local::{self, Report, Salvage, SegmentReport};
use peeklock_storage::{Error, Space};
use serde_json::{Value, json};

use super::store_failure::Failure;
use super::{output, store_restore};
use crate::exit::Exit;
use crate::store_damage::Described;

const MIB: f64 = (1 << 20) as f64;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The data directory, which no broker may be using, or a backup.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckArgs) -> Exit {
    if let Err(failure) = Failure::unless_files(&args.directory) {
        failure.show(args.json, &json!({}));
        return failure.exit;
    }
    let looked = match local::is_backup(&args.directory) {
        Ok(true) => return store_restore::check(&args.directory, args.json),
        Ok(false) => Salvage::begin_read_only(&args.directory),
        Err(error) => Err(error),
    };
    match looked {
        Ok(looked) => {
            let report = looked.report();
            let damage = Described::of(&looked);
            match args.json {
                true => output::json(&report_json(&args.directory, &report, &damage)),
                false => output::line(describe(&args.directory, &report, &damage)),
            }
            if report.damage.is_empty() && report.refusal.is_none() { Exit::Success } else { Exit::Data }
        }
        Err(error) => {
            let failure = Failure::of_source(&error);
            match args.json {
                true => output::json(&error_json(&args.directory, &error, &failure.message)),
                false => output::error(failure.message),
            }
            failure.exit
        }
    }
}

/// The report as text.
fn describe(directory: &Path, report: &Report, damage: &Described) -> String {
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
        "by a crash or a kill; a missing last write can't be detected"
    };
    let verdict = match report.damage.len() {
        0 => {
            "every record that is there is intact (records that were lost without a trace can't be detected)"
                .to_owned()
        }
        1 => "DAMAGED in 1 place".to_owned(),
        count => format!("DAMAGED in {count} places"),
    };
    format!(
        "{}: {verdict}\n\
         {}\
         messages        {}\n\
         other records   {}\n\
         segments        {}, {:.1} MiB on disk, {:.1} MiB live, {:.1} MiB to be cleaned\n\
         closed          {closed}\n\
         unfinished end  {torn}\n\
         hints missing   {}\n\
         opened          {} times",
        directory.display(),
        damage.text(directory, report),
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

/// The report as JSON.
fn report_json(directory: &Path, report: &Report, damage: &Described) -> Value {
    let count = |space| report.keys.get(&space).copied().unwrap_or_default();
    json!({
        "directory": directory.display().to_string(),
        "intact": report.damage.is_empty(),
        "damage": damage.json(report),
        "may_return": damage.may_return_json(report),
        "next_start": match &report.refusal {
            Some(error) => json!({ "served": false, "reason": error.to_string() }),
            None => json!({ "served": true }),
        },
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

/// The error as JSON.
fn error_json(directory: &Path, error: &Error, message: &str) -> Value {
    let kind = match error {
        Error::Fenced { .. } => "in use",
        _ => "unavailable",
    };
    json!({
        "directory": directory.display().to_string(),
        "intact": false,
        "kind": kind,
        "message": message,
    })
}
