//! Instructions per message on the hot paths. Unlike times, this number does not vary with the machine and its load, so
//! small changes are visible. `cargo bench -p peeklock-instructions` needs valgrind.
//!
//! Each path runs under valgrind with some messages and with twice as many; the difference per message excludes the
//! set-up. The result is compared with `baseline.json` in this directory, which `--write` replaces.

#![allow(missing_docs, clippy::print_stdout, clippy::cast_precision_loss)] // reason: it prints a report
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // reason: a benchmark may panic

#[path = "../../crates/amqp/benches/front_end/pair.rs"]
mod pair;
mod partition;
mod runtime;
mod store;

use std::collections::BTreeMap;
use std::env::current_exe;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use bytes::Bytes;
use clap::Parser;
use peeklock_amqp::wire::performative::Role;
use serde::{Deserialize, Serialize};

/// The broker's allocator, whose instructions are counted.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Messages of the shorter run, a multiple of all batch sizes.
const MESSAGES: u64 = 4096;
/// Increase over the baseline beyond which a path counts as worse.
const TOLERANCE_PERCENT: f64 = 10.0;

/// A path whose instructions are counted.
struct Counted {
    name: &'static str,
    /// Runs the path with this many messages.
    work: fn(u64),
    /// The functions whose instructions are counted, including their callees; all instructions if empty. None may call
    /// another.
    within: &'static [&'static str],
}

/// The broker's side of the front end's paths: the client's endpoint runs between its turns.
const SERVER_TURN: &[&str] = &["*Pair::server_turn*"];
/// Functions that count metrics in an entity's actor.
const COUNTING: &[&str] = &[
    "*Tallies::note",
    "*Tallies::delivered",
    "*Tallies::stored_by",
    "*Tallies::durable",
    "*Tallies::publish",
];

const PATHS: &[Counted] = &[
    Counted {
        name: "front end: send + accept",
        work: |count| send(&pair::message(Some(ID)), count),
        within: SERVER_TURN,
    },
    Counted {
        name: "front end: send + accept, id to be given",
        work: |count| send(&pair::message(None), count),
        within: SERVER_TURN,
    },
    Counted { name: "front end: receive + complete", work: receive, within: SERVER_TURN },
    Counted { name: "partition: send + deliver + complete", work: partition::live, within: &[] },
    Counted { name: "runtime: send + deliver + complete", work: runtime::live, within: &[] },
    Counted { name: "runtime: counting for metrics", work: runtime::live, within: COUNTING },
    Counted { name: "store: put", work: store::put, within: &[] },
    Counted { name: "store: put + delete", work: store::put_and_delete, within: &[] },
];

/// The id of messages with an id.
const ID: &str = "0123456789abcdef0123456789abcdef";

fn send(payload: &Bytes, count: u64) {
    let mut pair = pair::Pair::new();
    let link = pair.link(Role::Sender);
    pair::send(&mut pair, link, payload, count);
}

fn receive(count: u64) {
    let mut pair = pair::Pair::new();
    let link = pair.link(Role::Receiver);
    pair::receive(&mut pair, link, &pair::message(Some(ID)), count, &mut 0);
}

/// Counts the instructions of the hot paths and compares them with the baseline; exit code 1 if a path has become
/// worse.
#[derive(Debug, Parser)]
struct Arguments {
    /// Makes the results the new baseline.
    #[arg(long)]
    write: bool,
    /// Runs one path with this many messages; used for the runs under valgrind.
    #[arg(long, hide = true, num_args = 2, value_names = ["PATH", "MESSAGES"])]
    run: Option<Vec<String>>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// Instructions per message, and the compiler for which they are valid.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Baseline {
    compiler: String,
    paths: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some([name, messages]) = arguments.run.as_deref() {
        let path = PATHS.iter().find(|path| path.name == name).expect("a known path");
        (path.work)(messages.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return ExitCode::SUCCESS;
    }
    let count = |path: &Counted| (instructions(path, 2 * MESSAGES) - instructions(path, MESSAGES)) / MESSAGES;
    let paths = PATHS.iter().map(|path| (path.name.to_owned(), count(path))).collect();
    let now = Baseline { compiler: compiler(), paths };
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.json"));
    if arguments.write {
        fs::write(&file, serde_json::to_string_pretty(&now).unwrap() + "\n").unwrap();
    }
    compare(&now, &file)
}

fn compare(now: &Baseline, file: &Path) -> ExitCode {
    let before: Baseline = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let is_comparable = before.compiler == now.compiler;
    if !is_comparable {
        println!("the baseline is of {}, this is {}: nothing is judged", before.compiler, now.compiler);
    }
    let mut is_worse = false;
    for (name, count) in &now.paths {
        let Some(earlier) = before.paths.get(name) else {
            println!("{name:<40} {count:>8} instructions; no baseline yet");
            continue;
        };
        let change = (*count as f64 / *earlier as f64 - 1.0) * 100.0;
        let verdict = if change > TOLERANCE_PERCENT { "  WORSE" } else { "" };
        is_worse |= !verdict.is_empty();
        println!("{name:<40} {count:>8} instructions, {change:+.1} % of {earlier}{verdict}");
    }
    if is_worse && is_comparable {
        println!("If that is meant: cargo bench -p peeklock-instructions -- --write");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn compiler() -> String {
    let told = Command::new("rustc").arg("--version").output().unwrap();
    String::from_utf8(told.stdout).unwrap().trim().to_owned()
}

/// The counted instructions of a run, without the kernel's.
fn instructions(path: &Counted, messages: u64) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(path.within.iter().map(|within| format!("--toggle-collect={within}")))
        .arg(current_exe().unwrap())
        .args(["--run", path.name, &messages.to_string()])
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{report}");
    let counted = report.lines().find_map(|line| line.split_once("Collected : ")).expect("a count");
    counted.1.trim().parse().unwrap()
}
