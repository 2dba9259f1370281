//! Output of a copy: its result, or why it is incomplete and how to continue.

use std::fmt::Write;

use peeklock_engine::runtime::inspect::{StoredNames, Subject};
use peeklock_storage::copy::{CopyError, CopySum, DamagedValue};
use peeklock_storage::{Error, Key, Space};
use serde_json::{Value, json};

use super::super::output;
use super::super::store_failure::Failure;
use super::{Copied, CopyArgs};

const MIB: f64 = (1 << 20) as f64;
/// Maximum number of damaged values listed.
const SHOWN_MAX: usize = 50;
const AGAIN: &str = "Run the same command again: it resumes where it stopped.";

/// Describes the failure of a copy.
pub(super) fn explain(args: &CopyArgs, names: Option<&StoredNames>, error: CopyError) -> Failure {
    let (from, to) = (&args.from, &args.to);
    match error {
        CopyError::Empty => Failure::data(format!("{from} is empty; is it the right store?")),
        CopyError::SourceUnfinished(source) => Failure::data(format!(
            "{from} is itself an unfinished copy of {source}; complete that first, or copy from {source}"
        )),
        CopyError::NotEmpty => Failure::usage(format!(
            "{to} is not empty and not an unfinished copy: nothing was written. Name an empty store; if the copy was complete already, nothing is left to do."
        )),
        CopyError::Damaged { damaged, more } => Failure::data(damage(args, names, &damaged, more)),
        CopyError::TooLarge { key, .. } => {
            let what = describe(names, key);
            Failure::data(format!("{to} can't store everything: {error}: {what}"))
        }
        CopyError::Different { key, ref what } => Failure::data(format!(
            "{to} does not return the data that was written to it: {}: {what}. Delete it, check its disk or database, and start again.",
            describe(names, key)
        )),
        CopyError::Source(error) => stopped(&from.to_string(), &error),
        CopyError::Target(error) => stopped(&to.to_string(), &error),
    }
}

fn stopped(side: &str, error: &Error) -> Failure {
    let Failure { message, exit } = Failure::of(error);
    let advice = match error {
        Error::Full { .. } => {
            "\nMake room, then run the same command again: it resumes where it stopped.".to_owned()
        }
        Error::Corrupt { .. } => String::new(),
        _ => format!("\n{AGAIN}"),
    };
    Failure { message: format!("{side}: {message}{advice}"), exit }
}

fn damage(args: &CopyArgs, names: Option<&StoredNames>, damaged: &[DamagedValue], more: u64) -> String {
    let from = &args.from;
    let mut text = format!("{from} is damaged; {} is not complete:\n", args.to);
    for one in damaged.iter().take(SHOWN_MAX) {
        let _ = writeln!(text, "  {}: {}", describe(names, one.key), one.error);
    }
    let others = damaged.len().saturating_sub(SHOWN_MAX) as u64 + more;
    if others > 0 {
        let _ = writeln!(text, "  and {others} others");
    }
    let advice = match from.directory() {
        Some(directory) => {
            let directory = directory.display();
            format!(
                "`peeklock store salvage {directory}` makes a store of the readable data (docs/damaged-store.md). {AGAIN}"
            )
        }
        None => "Restore the database from a backup; docs/cluster.md lists the other steps.".to_owned(),
    };
    text + &advice
}

/// Describes what a value belongs to.
fn describe(names: Option<&StoredNames>, key: Key) -> String {
    let Subject { entity, sequence_number, what } =
        names.map_or_else(|| StoredNames::default().describe(key), |names| names.describe(key));
    let entity =
        entity.map_or_else(|| format!("partition {}", key.partition.0), |name| format!("\"{name}\""));
    let number = sequence_number.map_or_else(String::new, |number| format!(", message {number}"));
    format!("{entity}{number}, {what}")
}

/// Prints the result.
pub(super) fn show(args: &CopyArgs, copied: Copied) {
    if args.json {
        return output::json(&result_json(args, copied));
    }
    let Copied { report, entities } = copied;
    let [meta, head, body] = report.sums;
    let bytes: u64 = report.sums.iter().map(|sum| sum.bytes).sum();
    let corrected = match report.corrected {
        0 => String::new(),
        count => {
            format!("\nchanged meanwhile   {count} values, which an earlier run had copied, were updated")
        }
    };
    output::line(format!(
        "{} -> {}: complete; every value was read back and compared\n\
         queues and topics  {entities}\n\
         messages           {}\n\
         values             {} of entities, {} of messages, {} bodies; {:.1} MiB\n\
         checksums          {:08x} {:08x} {:08x} (CRC-32C of entities, messages, bodies){corrected}",
        args.from,
        args.to,
        head.values,
        meta.values,
        head.values,
        body.values,
        bytes as f64 / MIB,
        meta.crc32c,
        head.crc32c,
        body.crc32c,
    ));
}

fn result_json(args: &CopyArgs, Copied { report, entities }: Copied) -> Value {
    let sum = |space: Space| {
        let CopySum { values, bytes, crc32c } = report.sums.get(space as usize).copied().unwrap_or_default();
        json!({ "values": values, "bytes": bytes, "crc32c": format!("{crc32c:08x}") })
    };
    json!({
        "complete": true,
        "from": args.from.to_string(),
        "to": args.to.to_string(),
        "resumed": report.is_resumed,
        "corrected": report.corrected,
        "entities": entities,
        "meta": sum(Space::Meta),
        "head": sum(Space::Head),
        "body": sum(Space::Body),
    })
}
