//! `peeklock doctor`

use std::net::ToSocketAddrs;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use peeklock_client::{Client, Credentials};
use serde_json::json;

use super::rows::{number, text};
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock doctor
  peeklock doctor -c \"$AZURE_CONNECTION\" --json
It reads only. The exit code is 1 if a check fails.";

const DIAL_TIME_OUT: Duration = Duration::from_secs(10);
/// A larger difference breaks tokens with a lifetime of minutes.
const CLOCK_DIFFERENCE_MAX: Duration = Duration::from_secs(60);

/// What to check.
#[derive(Debug, Args)]
pub(in crate::cli) struct DoctorArgs {
    /// Print one JSON object per check.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The result of one check.
struct Check {
    name: &'static str,
    outcome: Result<String, Failure>,
}

pub(super) async fn run(args: DoctorArgs) -> Result<(), Failure> {
    let target = args.connection.target()?;
    let mut checks = vec![Check { name: "connection string", outcome: Ok(described(&args)?) }];
    let host = format!("{}:{}", target.url_host(), target.amqp_port());
    let resolved = host.to_socket_addrs().map_err(|error| {
        Failure::new(format!("{} has no address: {error}", target.host))
            .advise("check the host in the connection string, and the machine's name server")
    });
    let is_resolved = resolved.is_ok();
    let addresses =
        resolved.map(|found| found.map(|one| one.ip().to_string()).collect::<Vec<_>>().join(", "));
    checks.push(Check { name: "name of the host", outcome: addresses });
    if is_resolved {
        let dialled = tokio::time::timeout(DIAL_TIME_OUT, tokio::net::TcpStream::connect(&host)).await;
        let dialled =
            dialled.map_err(|_| "no answer".to_owned()).and_then(|done| done.map_err(|e| e.to_string()));
        let is_reached = dialled.is_ok();
        let outcome = dialled.map(|_| host.clone()).map_err(|reason| {
            Failure::new(format!("{host} can't be reached: {reason}"))
                .advise("is a broker running there, and does a firewall let its port through?")
        });
        checks.push(Check { name: "port", outcome });
        if is_reached {
            checks.extend(namespace(&args).await);
        }
    }
    report(&checks, args.json)
}

fn described(args: &DoctorArgs) -> Result<String, Failure> {
    let target = args.connection.target()?;
    let who = match &target.credentials {
        Credentials::None => "nobody".to_owned(),
        Credentials::Key(key) => format!("rule {}", key.name()),
        Credentials::Token(_) => "a token".to_owned(),
    };
    let tls = if target.is_emulator { "without TLS" } else { "with TLS" };
    Ok(format!("{} as {who}, {tls}", target.host))
}

/// Checks AMQP with TLS and credentials, and HTTP with the same.
async fn namespace(args: &DoctorArgs) -> Vec<Check> {
    let amqp = async {
        let client: Client = args.connection.connect().await?;
        client.close().await;
        Ok("it answers".to_owned())
    };
    let http = async {
        let found = args.connection.admin()?.list().await?;
        Ok(format!("it answers; queues, topics and subscriptions: {}", found.len()))
    };
    let mut checks = vec![
        Check { name: "AMQP", outcome: amqp.await },
        Check { name: "administration over HTTP", outcome: http.await },
    ];
    checks.extend(clock(args).await);
    checks.extend(room(args).await);
    checks
}

/// Compares the clocks: tokens are made by this machine's and expire by the namespace's. `None` if the namespace
/// reports no time.
async fn clock(args: &DoctorArgs) -> Option<Check> {
    let date = args.connection.admin().ok()?.date().await.ok()??;
    let told = rfc2822::parse(&date).ok()?.timestamp();
    let difference_s = told.as_second() - Timestamp::now().as_second();
    let outcome = if difference_s.unsigned_abs() <= CLOCK_DIFFERENCE_MAX.as_secs() {
        Ok(format!("{difference_s} s from this machine's"))
    } else {
        Err(Failure::new(format!("it is {difference_s} s from this machine's; tokens may be refused"))
            .advise("set the clocks of both machines, or have them follow a time server"))
    };
    Some(Check { name: "clock", outcome })
}

/// Checks whether the disk is full. Only this broker reports that, and only with the right to manage.
async fn room(args: &DoctorArgs) -> Option<Check> {
    let overview = args.connection.api().ok()?.get("overview", &[]).await.ok()?;
    let damaged = number(&overview, "/damage/count");
    let pressure = text(&overview, "/storage/pressure");
    let outcome = if pressure == "full" {
        Err(Failure::new("the disk is full: messages are refused, and can still be received")
            .advise("free room in the file system of the data directory"))
    } else if pressure == "failing" {
        Err(Failure::new("the store can't be written: messages are refused, and can still be received").advise(
            "see the broker's log for the error of the system or of the database, such as too few file descriptors",
        ))
    } else if damaged > 0 {
        Err(Failure::new(format!("stored data is damaged in {damaged} places"))
            .advise("docs/damaged-store.md says what is lost and what to do"))
    } else {
        Ok("there is room, and no damage is known".to_owned())
    };
    Some(Check { name: "storage", outcome })
}

fn report(checks: &[Check], as_json: bool) -> Result<(), Failure> {
    for Check { name, outcome } in checks {
        if as_json {
            let text = outcome.as_ref().map_or_else(Failure::text, Clone::clone);
            output::json_line(&json!({ "check": name, "ok": outcome.is_ok(), "text": text }));
            continue;
        }
        match outcome {
            Ok(text) => output::line(format!("ok      {name}: {text}")),
            Err(failure) => output::line(format!("FAILED  {name}: {}", failure.text())),
        }
    }
    let failed = checks.iter().filter(|check| check.outcome.is_err()).count();
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::new(format!("{failed} of {} checks failed", checks.len())))
    }
}
