//! `peeklock store salvage DIR`

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use peeklock_engine::Timestamp;
use peeklock_engine::runtime::inspect::Placement;
use peeklock_storage::LocalOptions;
use peeklock_storage::local::{Report, Salvage};
use serde_json::{Value, json};

use super::output;
use super::store_failure::Failure;
use crate::exit::Exit;
use crate::store_damage::{Described, keys};

/// File for readable bodies that no message refers to, one JSON document per line.
const UNPLACED_NAME: &str = "unplaced.jsonl";

/// What to salvage.
#[derive(Debug, Args)]
pub(super) struct SalvageArgs {
    /// The damaged data directory, which no broker may be using. Copy it before.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Only show what would be kept and what is lost.
    #[arg(long)]
    dry_run: bool,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &SalvageArgs) -> Exit {
    if let Err(failure) = Failure::unless_files(&args.directory) {
        failure.show(args.json, &json!({}));
        return failure.exit;
    }
    match salvage(args) {
        Ok(()) => Exit::Success,
        Err(failure) => {
            failure.show(args.json, &json!({ "directory": shown(&args.directory) }));
            failure.exit
        }
    }
}

fn salvage(args: &SalvageArgs) -> Result<(), Failure> {
    let begin = if args.dry_run { Salvage::begin_read_only } else { Salvage::begin };
    let store = begin(&args.directory).map_err(|error| Failure::of_source(&error))?;
    let report = store.report();
    let described = Described::of(&store);
    if report.damage.is_empty() {
        match args.json {
            true => {
                output::json(&json!({ "directory": shown(&args.directory), "damage": [], "done": false }));
            }
            false => output::line(format!("{}: nothing is damaged, nothing to do", args.directory.display())),
        }
        return Ok(());
    }
    let placement = place(&store, &described);
    let kept = kept(&store, &placement);
    let mut quarantine = None;
    if !args.dry_run {
        let planned = store.quarantine().map_err(|error| Failure::of_source(&error))?;
        export(&planned, &store, &described, &placement)
            .map_err(|error| Failure::run_time(format!("{}: {error}", planned.display())))?;
        let Placement { dropped, repairs, .. } = &placement;
        let done =
            store.rewrite(&planned, |key| !dropped.contains(&key), repairs.clone(), LocalOptions::default());
        done.map_err(|error| Failure::of_source(&error))?;
        quarantine = Some(planned);
    }
    let outcome =
        Outcome { args, report: &report, described: &described, placement: &placement, kept, quarantine };
    match args.json {
        true => output::json(&outcome.json()),
        false => output::line(outcome.text()),
    }
    Ok(())
}

fn place(store: &Salvage, described: &Described) -> Placement {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let numbers_end = |space, partition| store.numbers_end(space, partition);
    Placement::of(&keys(store), described.names(), &|key| store.value(key), &numbers_end, now)
}

/// Number of bodies that are kept in place.
fn kept(store: &Salvage, placement: &Placement) -> usize {
    let bodies = store.keys(peeklock_storage::Space::Body);
    bodies.iter().filter(|body| !placement.dropped.contains(*body)).count()
}

/// Writes bodies without a message to a file for their owner.
fn export(directory: &Path, store: &Salvage, described: &Described, placement: &Placement) -> io::Result<()> {
    if placement.unplaced.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(directory)?;
    let mut file = BufWriter::new(fs::File::create(directory.join(UNPLACED_NAME))?);
    for key in &placement.unplaced {
        let Some(Ok(content)) = store.value(*key) else { continue };
        let line = json!({
            "entity": described.names().name(key.partition),
            "partition": key.partition.0,
            "sequence_number": key.number,
            "amqp_message_base64": STANDARD.encode(&content),
        });
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

struct Outcome<'a> {
    args: &'a SalvageArgs,
    report: &'a Report,
    described: &'a Described,
    placement: &'a Placement,
    kept: usize,
    quarantine: Option<PathBuf>,
}

impl Outcome<'_> {
    fn text(&self) -> String {
        let directory = self.args.directory.display();
        let damage =
            self.described.text(&self.args.directory, &Report { refusal: None, ..self.report.clone() });
        let mut lines = vec![format!("{directory}: {} damaged places", self.report.damage.len())];
        lines.extend(damage.lines().filter(|line| line.starts_with("  ")).map(str::to_owned));
        for partition in &self.placement.lost_entities {
            lines.push(format!("lost: {}, with all its messages", self.described.owner(*partition)));
        }
        for (partition, number, reason) in &self.placement.lost {
            lines.push(format!(
                "lost: message {} of {}: {reason}",
                number.0,
                self.described.owner(*partition)
            ));
        }
        lines.push(format!("kept: {} messages, with their bodies and properties", self.kept));
        let unplaced = self.placement.unplaced.len();
        match &self.quarantine {
            Some(quarantine) => {
                let quarantine = quarantine.display();
                if unplaced > 0 {
                    lines.push(format!(
                        "exported: {unplaced} bodies without a message, to {quarantine}/{UNPLACED_NAME}"
                    ));
                }
                lines.push(format!("The damaged files are in {quarantine}. The broker can be started."));
            }
            None => {
                if unplaced > 0 {
                    lines.push(format!("{unplaced} bodies without a message would be exported"));
                }
                lines.push("Nothing was changed (--dry-run).".to_owned());
            }
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let Placement { lost, lost_entities, unplaced, .. } = self.placement;
        let names = self.described.names();
        let lost: Vec<Value> = lost
            .iter()
            .map(|(partition, number, reason)| {
                json!({ "entity": names.name(*partition), "partition": partition.0, "sequence_number": number.0, "reason": reason })
            })
            .collect();
        json!({
            "directory": shown(&self.args.directory),
            "done": self.quarantine.is_some(),
            "damage": self.described.json(self.report),
            "may_return": self.described.may_return_json(self.report),
            "lost_entities": lost_entities.iter().map(|partition| partition.0).collect::<Vec<_>>(),
            "lost": lost,
            "kept": self.kept,
            "unplaced": unplaced.len(),
            "quarantine": self.quarantine.as_deref().map(shown),
        })
    }
}
