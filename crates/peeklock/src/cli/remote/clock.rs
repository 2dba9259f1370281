//! `peeklock clock`

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::rows::shown;
use super::text::duration;
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock clock                  the broker's time
  peeklock clock --advance 1h     an hour later: everything due until then happens now
  peeklock clock --advance PT90S
For tests: the broker must have been started with --time-travel. docs/time.md lists what moves with the clock.";

/// Whether to move it.
#[derive(Debug, Args)]
pub(in crate::cli) struct ClockArgs {
    /// Move the clock forward by this: 30s, 5m, 1h or PT1M. Returns when everything that is due by then has happened.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    advance: Option<Duration>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) async fn run(args: ClockArgs) -> Result<(), Failure> {
    let api = args.connection.api()?;
    let answer = match args.advance {
        None => api.get("clock", &[]).await,
        Some(by) => api.post("clock", &json!({ "advance_ms": by.as_millis() as u64 })).await,
    };
    let answer = answer.map_err(|error| {
        if error.is_not_found() {
            return Failure::new("the clock of this broker can't be moved")
                .advise("start it with --time-travel, for tests only");
        }
        Failure::from(error)
    })?;
    if args.json {
        output::json_line(&answer);
    } else {
        output::line(shown(&answer, "/now"));
    }
    Ok(())
}
