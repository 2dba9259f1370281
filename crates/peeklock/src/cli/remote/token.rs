//! `peeklock token`

use std::time::Duration;

use clap::Args;
use peeklock_access::ResolvedNode;
use peeklock_client::Credentials;

use super::address::{Address, SubQueue};
use super::text::duration;
use super::{ConnectionArgs, Failure, output};

pub(super) const EXAMPLES: &str = "\
Examples:
  peeklock token                   a token for the whole namespace, valid for an hour
  peeklock token orders --for 10m
  peeklock token 'orders/$dlq'     for its dead letters
  curl -H \"Authorization: $(peeklock token orders)\" -X DELETE http://localhost:5300/orders/messages/head";

/// What the token is for.
#[derive(Debug, Args)]
pub(in crate::cli) struct TokenArgs {
    /// The entity, or a sub-queue such as orders/$dlq [default: the whole namespace].
    #[arg(value_name = "ENTITY", default_value = "", value_parser = signed_path)]
    entity: String,

    /// How long the token is valid.
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", value_parser = lifetime)]
    lifetime: Duration,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Tokens expire at a whole second, so one with a shorter lifetime may be expired at once.
///
/// # Errors
/// A message with the valid form.
fn lifetime(text: &str) -> Result<Duration, String> {
    let length = duration(text)?;
    if length < Duration::from_secs(1) {
        return Err(
            "a token that is valid for less than a second is refused; write a longer time, such as 10m"
                .to_owned(),
        );
    }
    Ok(length)
}

/// The path to sign, as brokers normalize it: a token for any other would be refused.
///
/// # Errors
/// A message with the valid form.
fn signed_path(text: &str) -> Result<String, String> {
    // The short names of sub-queues are specific to this command line.
    if let Ok(address) = text.parse::<Address>()
        && address.sub_queue != SubQueue::Main
    {
        return node_path(&address.path());
    }
    node_path(text)
}

fn node_path(text: &str) -> Result<String, String> {
    match ResolvedNode::of(text).map_err(|error| error.to_string())? {
        ResolvedNode::Entity(node) => Ok(node.to_string()),
        ResolvedNode::Namespace => Ok(String::new()),
        ResolvedNode::Cbs => {
            Err("there are no tokens for $cbs itself; name the entity to use, or no entity for the whole namespace"
                .to_owned())
        }
        _ if text.contains("://") => Err("write the path alone, without scheme and host".to_owned()),
        _ => Ok(text.trim_matches('/').to_owned()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signed_resource_is_a_path_that_brokers_accept() {
        for (text, path) in [
            ("", ""),
            ("orders", "orders"),
            ("/a/b/", "a/b"),
            ("sb://host:5672/orders", "orders"),
            ("sb://host", ""),
            ("orders/$dlq", "orders/$DeadLetterQueue"),
            ("news/Subscriptions/all/$DLQ", "news/Subscriptions/all/$DeadLetterQueue"),
            ("orders/$transfer", "orders/$Transfer/$DeadLetterQueue"),
            ("orders/$deadletterqueue/$management", "orders/$DeadLetterQueue/$management"),
            ("news/Subscriptions", "news/Subscriptions"),
            ("news/Subscriptions/all/Rules/r", "news/Subscriptions/all/Rules/r"),
            ("$Resources/queues", "$Resources/queues"),
        ] {
            assert_eq!(signed_path(text).as_deref(), Ok(path), "{text}");
            assert_eq!(ResolvedNode::of(path), node(text), "{text}");
        }
        for refused in
            ["$cbs", "$dlq", "orders/$nothing", "orders/$dlq/$dlq", "a@b", "sb://host/$Resources/topics"]
        {
            assert!(signed_path(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_token_holds_for_a_second_or_more() {
        assert_eq!(lifetime("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(lifetime("PT10M"), Ok(Duration::from_secs(600)));
        for refused in ["0s", "0ms", "999ms", "PT0S"] {
            let advice = lifetime(refused).unwrap_err();
            assert!(advice.contains("write a longer time, such as 10m"), "{refused}: {advice}");
        }
        assert_eq!(lifetime("soon"), duration("soon"), "an invalid duration is refused as elsewhere");
    }

    /// The node that the text names once its short names are expanded.
    fn node(text: &str) -> Result<ResolvedNode, peeklock_access::AddressError> {
        let address = text.parse::<Address>().map(|address| address.path());
        ResolvedNode::of(&address.unwrap_or_else(|_| text.to_owned()))
    }
}
