//! The namespace to connect to: from the flag, a variable, the ready file, or the local development broker.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use peeklock_access::{DEFAULT_KEY, DEFAULT_RULE_NAME};
use peeklock_client::{Admin, Api, Client, ConnectionString, Trust};
use serde::Deserialize;

use super::Failure;

/// The variable that other programs for Service Bus use for the connection string.
const COMMON_VARIABLE: &str = "SERVICEBUS_CONNECTION_STRING";

/// Which namespace to talk to.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    /// Connection string of the namespace: this broker, the emulator or Azure [default: variable
    /// SERVICEBUS_CONNECTION_STRING, else the ready file's, else the local broker with the development key].
    #[arg(long, short = 'c', value_name = "STRING", env = "PEEKLOCK_CONNECTION", hide_env_values = true)]
    connection: Option<String>,

    /// The file that `peeklock serve --ready-file FILE` writes; it contains the connection string of that broker.
    #[arg(long, value_name = "FILE", env = "PEEKLOCK_READY_FILE", hide_env_values = true)]
    ready_file: Option<PathBuf>,

    /// PEM file of the CA to trust instead of the system's, such as ca.pem of the broker's data directory.
    #[arg(long, value_name = "FILE", env = "PEEKLOCK_CA", hide_env_values = true)]
    ca: Option<PathBuf>,
}

#[derive(Deserialize)]
struct ReadyFile {
    connection_string: String,
}

impl ConnectionArgs {
    /// The connection string in use, and its source.
    fn text(&self) -> Result<(String, &'static str), Failure> {
        if let Some(text) = &self.connection {
            return Ok((text.clone(), "the connection string"));
        }
        if let Some(text) = std::env::var(COMMON_VARIABLE).ok().filter(|text| !text.is_empty()) {
            return Ok((text, COMMON_VARIABLE));
        }
        if let Some(file) = &self.ready_file {
            return read_ready_file(file).map(|text| (text, "the connection string of the ready file"));
        }
        let local = format!(
            "Endpoint=sb://localhost:5672;SharedAccessKeyName={DEFAULT_RULE_NAME};SharedAccessKey={DEFAULT_KEY};UseDevelopmentEmulator=true;"
        );
        Ok((local, "the default"))
    }

    /// The namespace.
    pub(super) fn target(&self) -> Result<ConnectionString, Failure> {
        let (text, origin) = self.text()?;
        text.parse().map_err(|error| {
            Failure::usage(format!("{origin} can't be used: {error}"))
                .advise("it looks like Endpoint=sb://HOST:PORT;SharedAccessKeyName=NAME;SharedAccessKey=KEY;UseDevelopmentEmulator=true;")
        })
    }

    fn trust(&self) -> Trust {
        self.ca.clone().map_or(Trust::System, Trust::File)
    }

    /// Connects over AMQP.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.target()?, &self.trust()).await?)
    }

    /// The management API, which only this broker has.
    pub(super) fn api(&self) -> Result<Api, Failure> {
        Ok(Api::new(self.admin()?))
    }

    /// The administration over HTTP.
    pub(super) fn admin(&self) -> Result<Admin, Failure> {
        Ok(Admin::new(&self.target()?, &self.trust())?)
    }
}

fn read_ready_file(file: &Path) -> Result<String, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::new(format!("the ready file {} can't be read: {error}", file.display()))
            .advise("a broker writes it while it runs: `peeklock serve --ready-file FILE`")
    };
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let ready: ReadyFile = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if ready.connection_string.contains("<its key>") {
        return Err(Failure::usage(
            "the ready file contains no key, because the broker has authorization rules of its own",
        )
        .advise("set --connection or PEEKLOCK_CONNECTION to a connection string with a key"));
    }
    Ok(ready.connection_string)
}
