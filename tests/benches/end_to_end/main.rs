//! The daemon's cost per message from end to end, over real sockets and with every acknowledgement durable.
//!
//! `cargo bench -p peeklock-tests --bench end_to_end` builds the daemon and runs every case; see `-- --help` for
//! options. Compare processor seconds per million messages first: they are more stable than throughput, since the
//! generator shares the machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::print_stdout
)] // reason: it prints a report, and may panic

mod beside;
mod carried;
mod cases;
mod compare;
mod figures;
mod large;
mod load;
mod machine;
mod many;
mod paced;
mod work;

use std::fs;
use std::path::{Path, PathBuf};

use cases::{CASES, Case};
use clap::Parser;
use figures::Series;
use peeklock_tests::daemon;
use serde_json::{Value, json};

/// Measures a daemon from end to end. The daemon is the one named by `PEEKLOCK_BIN`, or that of this source tree.
#[derive(Debug, Parser)]
struct Arguments {
    /// Cases to run, by their printed names; all by default.
    cases: Vec<String>,
    /// Runs of each case, each with a new daemon and directory. A comparison needs four.
    #[arg(long, default_value_t = 3, env = "RUNS")]
    runs: usize,
    /// An earlier daemon: both run alternately, and each figure whose values do not overlap is reported as better or
    /// worse.
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// Writes every value to this file, with properties of the machine.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Sends a second in the cases `half-rate…`, instead of half of the saturating rate.
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The results of a case.
struct Outcome {
    now: Vec<Series>,
    /// Results of the earlier daemon, if there is one.
    before: Vec<Series>,
}

fn main() {
    let arguments = Arguments::parse();
    for name in &arguments.cases {
        let known = CASES.iter().map(|case| case.name).collect::<Vec<_>>();
        assert!(known.contains(&name.as_str()), "no case {name}; there are {}", known.join(", "));
    }
    let facts = machine::facts();
    println!("{facts:#}");
    let wants = |case: &&Case| match &arguments.cases[..] {
        [] => !case.is_experiment(),
        named => named.iter().any(|one| one == case.name),
    };
    let mut report = serde_json::Map::new();
    for case in CASES.iter().filter(wants) {
        let outcome = run(case, &arguments);
        print(case, &outcome);
        report.insert(case.name.to_owned(), outcome.json());
    }
    if let Some(path) = &arguments.json {
        let report = json!({ "machine": facts, "runs": arguments.runs, "cases": report });
        fs::write(path, format!("{report:#}\n")).unwrap();
    }
}

/// Runs a case repeatedly; with an earlier daemon, alternately, with the order reversed every other time.
fn run(case: &Case, arguments: &Arguments) -> Outcome {
    let (mut now, mut before) = (Vec::new(), Vec::new());
    let mut measure_now = || now.push(case.work.measure(daemon::binary(), arguments.rate));
    let mut measure_before = |binary: &Path| before.push(case.work.measure(binary, arguments.rate));
    for run in 0..arguments.runs.min(case.work.runs_max()) {
        match &arguments.against {
            None => measure_now(),
            Some(binary) if run.is_multiple_of(2) => {
                measure_before(binary);
                measure_now();
            }
            Some(binary) => {
                measure_now();
                measure_before(binary);
            }
        }
    }
    Outcome { now: figures::series(&now), before: figures::series(&before) }
}

fn print(case: &Case, outcome: &Outcome) {
    println!("{}", case.name);
    for (at, now) in outcome.now.iter().enumerate() {
        print!(
            "  {:<28} {:>12}  ({} to {})",
            now.name,
            short(now.median()),
            short(now.least()),
            short(now.most())
        );
        if let Some(before) = outcome.before.get(at) {
            let change = now.median() / before.median();
            let verdict = compare::verdict(before, now).text();
            print!("  before {:>12}  × {change:.2}  {verdict}", short(before.median()));
        }
        println!();
    }
}

/// Formats a number with about three significant digits.
fn short(value: f64) -> String {
    let digits = if value.abs() >= 100.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

impl Outcome {
    fn json(&self) -> Value {
        let list = |series: &[Series]| -> serde_json::Map<String, Value> {
            series.iter().map(|one| (one.name.to_owned(), json!(one.values))).collect()
        };
        if self.before.is_empty() {
            return Value::Object(list(&self.now));
        }
        json!({ "now": list(&self.now), "before": list(&self.before) })
    }
}
