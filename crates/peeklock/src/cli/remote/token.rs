//! `peeklock token`

use std::time::Duration;

use clap::Args;
use peeklock_client::Credentials;

use super::text::duration;
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock token                   a token for the whole namespace that holds for an hour
  peeklock token orders --for 10m
  curl -H \"Authorization: $(peeklock token orders)\" -X DELETE http://localhost:5300/orders/messages/head";

/// What the token is for.
#[derive(Debug, Args)]
pub(in crate::cli) struct TokenArgs {
    /// The entity, or without one the namespace.
    #[arg(value_name = "ENTITY", default_value = "")]
    entity: String,

    /// How long it holds.
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = duration)]
    lifetime: Duration,

    #[command(flatten)]
    connection: ConnectionArgs,
}

pub(super) fn run(args: &TokenArgs) -> Result<(), Failure> {
    let target = args.connection.target()?;
    let Credentials::Key(key) = &target.credentials else {
        return Err(Failure::usage("the connection string has no key to sign with")
            .advise("a token is signed with SharedAccessKey; a SharedAccessSignature is a token already"));
    };
    output::line(key.token(&target.audience(&args.entity), args.lifetime));
    Ok(())
}
